"""`Weights`: model.bin, mapped unless it is small; every range is checked before it is viewed.

Ranges are checked with unbounded integers.

A file that is missing, too short, or of another model is one problem, however many constants lie in
it.
"""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from uncork import files
from uncork.errors import Problem, ReadError
from uncork.ir.diagnostics import unsigned

#: Bytes behind the last constant that are taken for padding; OpenVINO writes none.
_PADDING = 64
_NOT_GIVEN = "no weights were given"


class MissingBytes(ReadError):
    """Bytes of a constant that the weights file does not have."""


class Weights:
    """The bytes of a weights file.

    Opened at the first constant: a model without constants needs no file.

    `mapped`: a file that is not small is mapped, not copied. `data` are its bytes, where it was
    not given by its path.
    """

    def __init__(
        self, path: Path | None, mapped: bool = True, data: bytes | memoryview | None = None
    ) -> None:
        #: How messages name it; a model that was given as bytes has no file beside it.
        self.path = path or Path("<bytes>.bin")
        self._mapped = mapped
        self._data = None if data is None else memoryview(data)
        self._unreadable = "" if path is not None or data is not None else _NOT_GIVEN
        self._missed: list[Problem] = []

    def slice(self, offset: int, size: int) -> memoryview:
        """Bytes offset .. offset + size.

        Raises MissingBytes when the file is missing or too short.
        """
        data = self._map()
        if data is None or offset + size > len(data):
            has = "cannot be read" if data is None else f"has {len(data)} bytes"
            raise MissingBytes(
                f"expected bytes {offset} to {offset + size} in '{self.path.name}', which {has}"
            )
        return data[offset : offset + size]

    def _map(self) -> memoryview | None:
        if self._data is None and not self._unreadable:
            try:
                self._data = files.data_of(self.path, self._mapped)
            except OSError as error:
                self._unreadable = error.strerror or str(error)
        return self._data

    def missed(self, layer: str, error: MissingBytes) -> None:
        """Note a layer whose bytes are not there; `problem` speaks of all of them."""
        self._missed.append(Problem(layer, error.message))

    def problem(self, root: ElementTree.Element, sound: bool) -> Problem | None:
        """What is wrong with the file, by all constants of the model.

        A file longer than they need is only warned of, and only where the model is `sound`
        otherwise: else its offsets and sizes may be the mistake.
        """
        if self._unreadable:
            constants, needed = _needs(root)
            if self._unreadable is _NOT_GIVEN:
                return Problem(
                    "",
                    f"the model was given as bytes, and no weights with it. Its "
                    f"{_counted(constants)} in them and "
                    f"{'needs' if constants == 1 else 'need'} {needed:,} bytes: give weights=, "
                    "the bytes of the file that was saved with the model, or its path",
                )
            message = (
                f"the weights file '{self.path}' cannot be read: {self._unreadable}. "
                f"The model's {_counted(constants)} "
                f"in it and {'needs' if constants == 1 else 'need'} {needed:,} bytes: "
                "put the file that was saved "
                "with the model there, or name another (weights=, on the command line --weights)"
            )
            return Problem("", message)
        if self._missed:
            return self._too_short(*_needs(root))
        if self._data is not None and sound:
            constants, needed = _needs(root)
            if len(self._data) > needed + _PADDING:
                warnings.warn(
                    f"the weights file '{self.path}' has {len(self._data):,} bytes, "
                    f"and the model's {_counted(constants)} "
                    f"in the first {needed:,}: is it the file of another model?",
                    stacklevel=2,
                )
        return None

    def _too_short(self, constants: int, needed: int) -> Problem:
        cause = (
            "the file was cut short, as by a copy that ended early, "
            "or it belongs to another model: copy it again, with its model.xml"
        )
        if len(self._missed) == 1:
            (only,) = self._missed
            return Problem(only.where, f"{only.message}. If the offset is right, {cause}")
        size = 0 if self._data is None else len(self._data)
        return Problem(
            "",
            f"the weights file '{self.path}' has {size:,} bytes, and the model needs {needed:,}: "
            f"{len(self._missed)} of its {constants} constants lie past the end. Either {cause}",
        )


def _needs(root: ElementTree.Element) -> tuple[int, int]:
    """The number of a model's constants that lie in the weights file, those of layers that nothing
    reads and of sub-graphs included, and the size that the file needs for them.
    """
    ends = []
    for data in root.iter("data"):
        offset, size = unsigned(data.get("offset")), unsigned(data.get("size"))
        if offset is not None and size:
            ends.append(offset + size)
    return len(ends), max(ends, default=0)


def _counted(constants: int) -> str:
    return "one constant lies" if constants == 1 else f"{constants} constants lie"
