"""Addresses as plans write them: those of this process, or while an image of a plan is recorded,
those of a space of its own, in which each says what it is the address of.

A plan is data but for its addresses: of arrays, of compiled functions, of what the process brings
(functions of Python and of the system, element types). Whoever writes one into a plan asks here. In
a recording the answer is a number that no size, number or real address ever is, so that the words
of a plan tell by themselves which of them are addresses (`Recorded`), and kernels of any processor
have one.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
from msgspec import Struct

from uncork.kernels.kernel_spec import writer_of
from uncork.types import Array

#: The upper 16 bits of every recorded address. As f64 it would be a NaN that no instruction makes.
_MARK = 0x7FF5
_MARK_SHIFT = 48
#: Where recorded things begin, each kind in a quarter of the space.
_FUNCTIONS, _SYMBOLS, _ARRAYS = (_MARK << _MARK_SHIFT | kind << 46 for kind in range(3))
#: Functions and symbols are so far apart, and arrays begin at multiples of it: nothing has its
#: address and no alignment is lost.
_APART = 4096


class Wanted(Struct, frozen=True):
    """A function that is wanted from the store: see `ObjectStore.function`."""

    name: str
    description: str
    make: Callable[[], str]


def native_function(name: str, writer: str) -> Wanted:
    """A function that is the same for all kernels and processors, whose text the function at a
    place writes, `module:function`.
    """
    return Wanted(name, name, lambda: str(writer_of(writer)()))


class Referred(Struct, frozen=True):
    """What a recorded address is in: a function or a symbol by its number, or the memory of an
    array, at an offset in bytes.
    """

    kind: str  # "function", "symbol" or "array"
    number: int
    offset: int


#: (first byte, byte behind the last, NumPy's type) of a part of a memory.
Part = tuple[int, int, Any]


class _Memory(Struct):
    """The memory of an array that others look at, and the parts of it that a plan uses."""

    root: Array
    base: int
    #: As they were asked for.
    parts: list[Part]
    #: What the words of a running call are, of which each has a copy; "" for what is only read.
    words: str = ""
    #: Where in it, in words, native code keeps rooms (see `loop_layout.ROOM`).
    rooms: tuple[int, ...] = ()


class Recording:
    """The space of addresses of one image."""

    def __init__(self) -> None:
        self.functions: list[Wanted] = []
        self.symbols: list[str] = []
        self.memories: list[_Memory] = []
        self._function_numbers: dict[tuple[str, str], int] = {}
        self._memory_numbers: dict[int, int] = {}
        self._bases: list[int] = []
        self._next = _ARRAYS

    def function(self, wanted: Wanted) -> int:
        """The address of a function, which is not compiled."""
        key = wanted.name, wanted.description
        if key not in self._function_numbers:
            self._function_numbers[key] = len(self.functions)
            self.functions.append(wanted)
        return _FUNCTIONS + _APART * self._function_numbers[key]

    def symbol(self, name: str) -> int:
        """The address of what every process has an own one of."""
        if name not in self.symbols:
            self.symbols.append(name)
        return _SYMBOLS + _APART * self.symbols.index(name)

    def array(self, array: Array, words: str = "", rooms: Sequence[int] = ()) -> int:
        """The address of the first byte of an array, which is kept."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        number = self._memory_numbers.get(id(root))
        if number is None:
            number = self._memory_numbers[id(root)] = len(self.memories)
            # As far from a line of a cache as it is in this process.
            base = self._next + int(root.ctypes.data) % _APART
            self._next = -(-(base + max(1, root.nbytes)) // _APART) * _APART + _APART
            self.memories.append(_Memory(root, base, []))
            self._bases.append(base)
        memory = self.memories[number]
        memory.words = words or memory.words
        memory.rooms = tuple(rooms) or memory.rooms
        first = int(array.ctypes.data) - int(root.ctypes.data)
        memory.parts.append((first, first + max(1, array.nbytes), array.dtype))
        return memory.base + first

    def of(self, address: int) -> Referred:
        """What a recorded address is the address of."""
        if address < _ARRAYS:
            kind, first = ("function", _FUNCTIONS) if address < _SYMBOLS else ("symbol", _SYMBOLS)
            number, offset = divmod(address - first, _APART)
            return Referred(kind, number, offset)
        number = bisect.bisect_right(self._bases, address) - 1
        return Referred("array", number, address - self._bases[number])


def is_recorded(words: Array) -> Array:
    """Which words (i64) are recorded addresses."""
    result: Array = words >> _MARK_SHIFT == _MARK
    return result


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextlib.contextmanager
def recorded() -> Iterator[Recording]:
    """A context in which plans are made of recorded addresses. Nothing of them can run."""
    made = Recording()
    before = _recording.set(made)
    try:
        yield made
    finally:
        _recording.reset(before)


def recording() -> Recording | None:
    """The recording that this thread makes, if it makes one."""
    return _recording.get()


def address_of(array: Array) -> int:
    """The address of an array, which must live as long as the plan."""
    space = _recording.get()
    return int(array.ctypes.data) if space is None else space.array(array)


def address_of_words(array: Array, words: str, rooms: Sequence[int] = ()) -> int:
    """The address of an array of words that a running call writes, or that hold addresses.

    `words` says what they are: "context", "segment", "turns" (with the places of its `rooms`) or
    "table".
    """
    space = _recording.get()
    return int(array.ctypes.data) if space is None else space.array(array, words, rooms)


def symbol(name: str, address: Callable[[], int]) -> int:
    """The address of what a process has by this name."""
    space = _recording.get()
    return address() if space is None else space.symbol(name)


def object_address(what: Any) -> int:
    """The address of a Python object that native code compares with or makes arrays with: an
    element type, the type of arrays, None.
    """
    if isinstance(what, np.dtype):
        return symbol(f"dtype:{what.str}", lambda: id(what))
    if what is None or what is np.ndarray:
        return symbol("None" if what is None else "ndarray", lambda: id(what))
    assert _recording.get() is None, "a plan that is recorded names an object of this process"
    return id(what)
