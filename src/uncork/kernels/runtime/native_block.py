"""The block of a native segment: its words in memory, and calls of it without the native entry,
which read the same words (`layout`).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from uncork.kernels.runtime import layout
from uncork.kernels.runtime.cpython_entry import WRITEABLE
from uncork.kernels.runtime.layout import ALONE, ANSWER, BUSY, CONTEXT, HEAD, OK, OTHER_ARGUMENTS
from uncork.types import Array

#: Where the words of a block are, in bytes, and the version in a context.
_AT = {name: 8 * index for index, name in enumerate(HEAD)}
_VERSION = 8 * CONTEXT.index("version")
_word = ctypes.c_int64.from_address


def free_rooms(words: Array, rooms: Sequence[int]) -> None:
    """Give back the memory of rooms, whose addresses stand in these words of a block."""
    free = ctypes.pythonapi.PyMem_RawFree
    for room in rooms:
        free(ctypes.c_void_p(int(words[room])))


class NativeBlock(np.ndarray):
    """The words of a segment, and what must live as long as they do: `run` keeps its block alive,
    and nothing else.
    """

    keep: object
    #: Arrays have none; a block is one of those whose locks are renewed, and no other is it.
    __hash__ = object.__hash__  # type: ignore[assignment]

    def renew_locks(self) -> None:
        """Free the segment in a child process, where the thread that was in it is not. Sizes that
        it has begun to bind are bound again.
        """
        self[HEAD.index("busy")] = self[HEAD.index("stamp")] = 0

    @property
    def address(self) -> int:
        """The address of its first word."""
        return int(self.ctypes.data)

    def call_blocks(self) -> Iterator[int]:
        """The addresses of the blocks that one call runs, one after the other: this one first."""
        block = self.address
        while block:
            yield block
            block = _head(block, "next")

    def forget_sizes(self) -> None:
        """Have the next call bind its sizes anew."""
        for block in self.call_blocks():
            _word(block + _AT["stamp"]).value = 0

    def bind_held(self) -> int:
        """Bind the sizes that the context holds, without a call: OK or why not."""
        return _resize(self.address)

    def bind(self, arguments: Sequence[Any]) -> int:
        """Bind the sizes of a call, which is not made: OK or why not."""
        return _bind(self.address, arguments)

    def run_by_ctypes(self, *arguments: Any) -> Any:
        """A call without the native entry, for interpreters whose objects it does not know: what
        `emit_entry` writes.
        """
        guards, made = _head(self.address, "array_guards"), _head(self.address, "made")
        if made == ANSWER and len(arguments) >= guards + 2:
            answer, otherwise, *behind = arguments[guards:]
            well = not behind and self.run_by_ctypes(*arguments[:guards]) == OK
            return answer if well else otherwise(*behind)
        if not _fits(self.address, arguments):
            return OTHER_ARGUMENTS
        if self[HEAD.index("busy")]:
            return BUSY
        self[HEAD.index("busy")] = 1
        try:
            results: list[Array] = []
            for block in self.call_blocks():
                if (status := _run(block, arguments, results)) != OK:
                    return status
            return results[0] if made == ALONE else results or OK
        finally:
            self[HEAD.index("busy")] = 0


@functools.lru_cache(maxsize=1)
def _prototype() -> Any:
    """The type of native functions of one word."""
    # With the lock of the interpreter, so that what a handler of a signal raises is raised.
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def _words(address: int, count: int) -> list[int]:
    return (ctypes.c_int64 * count).from_address(address)[:]


def _head(block: int, name: str) -> int:
    return int(_word(block + _AT[name]).value)


def _rows(block: int, count: str, table: str, columns: Sequence[str]) -> Iterator[list[int]]:
    """The rows of a table, by the word that counts them and the one that says where they are."""
    first = _head(block, table)
    for row in range(_head(block, count)):
        yield _words(first + 8 * len(columns) * row, len(columns))


def _object(address: int) -> Any:
    return ctypes.cast(address, ctypes.py_object).value


def _fits(block: int, arguments: Sequence[Any]) -> bool:
    """Whether the guards take the arguments; a segment without guards takes any."""
    guards = list(_rows(block, "array_guards", "array_guard_table", layout.ARRAY_GUARD))
    if not guards:
        return True
    if len(guards) != len(arguments):
        return False
    for (kind, rank, flags, sizes), argument in zip(guards, arguments, strict=True):
        if rank < 0:
            if id(argument) != kind:
                return False
        elif (
            type(argument) is not np.ndarray
            or id(argument.dtype) != kind
            or argument.ndim != rank
            or not argument.flags.c_contiguous
            or (flags & WRITEABLE and not argument.flags.writeable)
            or any(
                w not in (-1, g) for w, g in zip(_words(sizes, rank), argument.shape, strict=True)
            )
        ):
            return False
    return True


def _resize(block: int) -> int:
    return int(_prototype()(_head(block, "resize"))(block))


def _bind(block: int, arguments: Sequence[Any]) -> int:
    """Bind the sizes of a call: when one has changed, here or in a segment before, all of them."""
    version = _word(_head(block, "context") + _VERSION)
    for kind, argument, detail, slot in _rows(block, "binds", "bind_table", layout.BIND):
        array = arguments[argument]
        if kind == layout.BIND_SHAPE:
            size = array.shape[detail]
        else:
            size = int(array.reshape(-1)[detail // array.itemsize])
        if _word(slot).value != size:
            _word(slot).value = size
            version.value += 1
    return OK if version.value == _head(block, "stamp") else _resize(block)


def _run(block: int, arguments: Sequence[Any], results: list[Array]) -> int:
    """Run the steps of one segment, which adds its results to those of the call."""
    if (status := _bind(block, arguments)) < OK:
        return status
    for dtype, rank, sizes, _ in _rows(block, "results", "result_table", layout.RESULT):
        results.append(np.empty(_words(sizes, rank), _object(dtype)))
    arrays = (*arguments, *results)
    for argument, offset, more, target in _rows(
        block, "addresses", "address_table", layout.ADDRESS
    ):
        _word(target).value = arrays[argument].ctypes.data + offset + _word(more).value
    for index, (function, words, condition) in enumerate(
        _rows(block, "steps", "step_table", layout.STEP)
    ):
        if _word(condition).value and _prototype()(function)(words):
            return index
    return OK
