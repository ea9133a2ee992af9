"""`model.bin`: mapped, never copied whole, and every range checked with unbounded integers before it is viewed."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from uncork.errors import ReadError


class Weights:
    """The bytes of a weights file. Opened at the first constant: a model without constants needs no file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data: memoryview | None = None

    def slice(self, offset: int, size: int) -> memoryview:
        """Bytes offset .. offset + size. Raises ReadError when the file is missing or too short."""
        data = self._map()
        if offset < 0 or size < 0 or offset + size > len(data):
            raise ReadError(f"expected bytes {offset} to {offset + size} in '{self.path.name}', which has {len(data)} bytes")
        return data[offset : offset + size]

    def _map(self) -> memoryview:
        if self._data is None:
            try:
                with open(self.path, "rb") as file:
                    # A mapping of length 0 is an error of the system call, an empty weights file is not.
                    if os.fstat(file.fileno()).st_size == 0:
                        self._data = memoryview(b"")
                    else:
                        self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            except OSError as error:
                raise ReadError(f"the weights file '{self.path}' cannot be read: {error.strerror or error}") from None
        return self._data
