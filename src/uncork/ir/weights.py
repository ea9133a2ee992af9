"""`model.bin`: mapped unless it is small, and every range checked with unbounded integers before it is viewed."""

from __future__ import annotations

from pathlib import Path

from uncork import files
from uncork.errors import ReadError


class Weights:
    """The bytes of a weights file. Opened at the first constant: a model without constants needs no file.

    `mapped`: a file that is not small is mapped, not copied.
    """

    def __init__(self, path: Path, mapped: bool = True) -> None:
        self.path = path
        self._mapped = mapped
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
                self._data = files.data_of(self.path, self._mapped)
            except OSError as error:
                raise ReadError(f"the weights file '{self.path}' cannot be read: {error.strerror or error}") from None
        return self._data
