"""Weights as kernels read them, made once for all the shapes that a model is called with."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar

import numpy as np

from uncork.files import let_go
from uncork.kernels.runtime.target import LINE
from uncork.types import Array

#: Numbers of a row that are turned at a time.
_NEAR = 256
#: Bytes of a block of memory that arrays share, of the largest array that does, and of those that
#: come first and do not, so that small models take no large pages.
_BLOCK, _LARGEST, _FIRST = 1 << 25, 1 << 23, 1 << 22


class PackedWeights:
    """Arrays made from constants. It lives as long as a plan that uses it, and keeps the constants,
    by which it is known.
    """

    __slots__ = ("__weakref__", "arrays", "sources")

    def __init__(self, arrays: Sequence[Array], sources: Sequence[Array]) -> None:
        self.arrays = tuple(map(_at_a_line, arrays))
        self.sources = tuple(sources)


class _SharedMemory:
    """Memory that arrays share, a block at a time. A block is given back with the last array in
    it.
    """

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.uint8)
        self._total = 0

    def zeros(self, size: int) -> Array:
        """So many bytes, all of them 0."""
        self._total += size
        if size > _LARGEST or self._total <= _FIRST:
            return np.zeros(size, np.uint8)
        if size > len(self._rest):
            self._rest = np.zeros(_BLOCK, np.uint8)
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


_shared: ContextVar[_SharedMemory | None] = ContextVar("shared", default=None)


@contextlib.contextmanager
def memory_shared() -> Iterator[None]:
    """A context in which weights are packed into large blocks of memory, those of one plan next to
    each other: the system has large blocks ready in large pages, and gives arrays one by one a page
    of 4 KB at a time, which takes longer than packing them.
    """
    before = _shared.set(_SharedMemory())
    try:
        yield
    finally:
        _shared.reset(before)


def zeros(shape: Sequence[int], dtype: type[np.generic] = np.float32) -> Array:
    """Zeros that begin at a cache line: what is packed into them is not copied again."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    shared = _shared.get()
    scratch = np.zeros(size + LINE, np.uint8) if shared is None else shared.zeros(size + LINE)
    first = -scratch.ctypes.data % LINE
    made: Array = scratch[first : first + size].view(dtype).reshape(shape)
    return made


def _at_a_line(array: Array) -> Array:
    """The array, or a copy, that begins at a cache line."""
    if array.ctypes.data % LINE == 0 and array.flags.c_contiguous:
        return array
    return arranged(array, array.dtype.type)


def arranged(array: Array, dtype: type[np.generic] = np.float32) -> Array:
    """A copy of numbers in the order of their indices, whatever it is in memory, that begins at a
    cache line.
    """
    copy = zeros(array.shape, dtype)
    copy[...] = array
    return copy


def panels_of(
    columns: Array, width: int, dtype: type[np.generic] = np.float32, step: int = 1
) -> Array:
    """`columns [N, K]`, in any order in memory, as panels `[P, K, width]` of a type, zeros past N,
    and past K up to a multiple of `step`.

    They are written once and where they stay, a part that fits in the cache at a time: fresh memory
    costs more than turning a matrix.
    """
    count, inner = columns.shape
    panels = zeros((-(-count // width), -(-inner // step) * step, width), dtype)
    near = np.empty((width, _NEAR + LINE // 4), dtype)
    for panel, first in zip(panels, range(0, count, width), strict=True):
        some = columns[first : first + width]
        if some.strides[0] < some.strides[1]:  # numbers of a row of the panel are neighbours
            panel[:inner, : len(some)] = some.T
            continue
        for begin in range(0, inner, _NEAR):
            part = some[:, begin : begin + _NEAR]
            copy = near[: len(part), : part.shape[1]]
            copy[...] = part
            panel[begin : begin + part.shape[1], : len(some)] = copy.T
    return panels


_known: weakref.WeakValueDictionary[tuple[Hashable, ...], PackedWeights] = (
    weakref.WeakValueDictionary()
)


def packed(
    sources: Sequence[Array], how: Hashable, make: Callable[[], Sequence[Array]]
) -> PackedWeights:
    """The arrays that `make` gives, or gave before for the very same arrays and the same `how`."""
    key = (how, *map(id, sources))
    result = _known.get(key)
    if result is None:
        result = PackedWeights(make(), sources)
        for source in sources:  # kernels read what was made of it
            let_go(source)
        result = _known.setdefault(key, result)
    return result


def packings() -> list[PackedWeights]:
    """All that are alive."""
    return list(_known.values())
