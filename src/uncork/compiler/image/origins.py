"""What the constants of a compiled file are, beside the weights of its model: the same bytes, the
same values in another order or type, or other values.

The memory of an array says where it comes from: from a constant, or from what kernels had packed of
constants (`packed_weights`). Whether values are the same is told by the values: by their sum and
that of their squares, which neither their order nor zeros among them change.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from uncork.ir.constants import stored_arrays, typed_arrays
from uncork.ir.model import Model
from uncork.kernels.runtime.packed_weights import PackedWeights, packings
from uncork.storage import decode
from uncork.types import Array

#: What bytes of a file may be, in words.
KINDS = {
    "stored": "as the model has them",
    "arranged": "in another order",
    "converted": "in another type",
    "folded": "computed of several constants",
    "transformed": "transformed by kernels",
    "tables": "tables of kernels",
}
#: Values are summed so many at a time.
_PIECE = 1 << 18
#: What is packed of constants is held against so many of them together.
_MOST_TOGETHER = 5
_WORD = (1 << 64) - 1

#: The sum of values, as the bits of f64, and that of their squares, modulo 2**64. For bytes those
#: of their halves follow, which may be values of 4 bits.
_Sums = tuple[tuple[int, int], ...]
_T = TypeVar("_T")


class Origins:
    """Counts the bytes of constants by their kind."""

    def __init__(self, model: Model) -> None:
        self.bytes: Counter[str] = Counter()
        #: Bytes of values that the file has before, in another order or type.
        self.repeated = 0
        self._seen: set[_Sums] = set()
        self._stored = self._planned = _Memory((a, a) for a in stored_arrays(model))
        self._packed: _Memory[PackedWeights] = _Memory(())
        #: The types in which the model has values.
        self._types: dict[tuple[int, int], set[Any]] = {}
        for element_type, array in typed_arrays(model):
            for values in (array, decode(array, element_type)):
                for sums in _sums(values):
                    self._types.setdefault(sums, set()).add(values.dtype)

    def look_at(self, planned: Model) -> None:
        """Be told of arrays of plans, which are alive, of this model as passes have left it."""
        self._planned = _Memory((array, array) for array in stored_arrays(planned))
        self._packed = _Memory((array, p) for p in packings() for array in p.arrays)

    def add(self, data: Array, dtype: Any) -> None:
        """Count the bytes (u8) of an array of a type."""
        fits = dtype.itemsize and not data.nbytes % dtype.itemsize
        array = data.view(dtype) if fits else data
        sums = _sums(array)
        self.bytes[self._kind(array, sums)] += data.nbytes
        self.repeated += data.nbytes * (sums in self._seen)
        self._seen.add(sums)

    def _kind(self, array: Array, sums: _Sums) -> str:
        if self._stored.at(array) is not None:
            return "stored"
        if (packing := self._packed.at(array)) is not None:
            return self._kind_of_packed(array, sums, packing)
        constant = self._planned.at(array)
        if constant is None:
            return self._kind_of_values(array) or "tables"
        return self._kind_of_values(constant) or "folded"

    def _kind_of_values(self, array: Array) -> str:
        """The kind of an array of values that the model has; "" for others."""
        types = {dtype for sums in _sums(array) for dtype in self._types.get(sums, ())}
        return "" if not types else "arranged" if array.dtype in types else "converted"

    def _kind_of_packed(self, array: Array, sums: _Sums, packing: PackedWeights) -> str:
        """The kind of an array of a packing: whether it has, with others of it or not, what some of
        its sources have.
        """
        others = [_sums(other) for other in packing.arrays]
        others.remove(sums)
        sources = [_sums(source) for source in packing.sources]
        wholes = [*_together([], sources)]
        if not any(_alike(some, whole) for some in _together([sums], others) for whole in wholes):
            return "transformed"
        kinds = {self._kind_of_values(source) or "folded" for source in packing.sources}
        types = {source.dtype for source in packing.sources}
        if "folded" in kinds:
            return "folded"
        return "converted" if "converted" in kinds or array.dtype not in types else "arranged"


class _Memory(Generic[_T]):
    """Arrays by the memory in which they lie, and something of each."""

    def __init__(self, arrays: Iterable[tuple[Array, _T]]) -> None:
        self._parts = sorted(
            ((array.ctypes.data, _extent(array), of) for array, of in arrays if array.size),
            key=lambda part: part[:2],
        )

    def at(self, array: Array) -> _T | None:
        """That of the array in whose memory this one lies."""
        first = array.ctypes.data
        index = bisect.bisect_right(self._parts, first, key=lambda part: part[0]) - 1
        if index < 0:
            return None
        begin, size, of = self._parts[index]
        return of if first < begin + size else None


def _extent(array: Array) -> int:
    """The bytes from the first value of an array to its last."""
    steps = zip(array.shape, array.strides, strict=True)
    return int(array.itemsize + sum((count - 1) * abs(step) for count, step in steps))


def _sums(array: Array) -> _Sums:
    if array.dtype == object:
        return ((hash(tuple(array.reshape(-1).tolist())) & _WORD, 0),)
    flat = array.reshape(-1)
    pieces = (flat[first : first + _PIECE] for first in range(0, flat.size, _PIECE))
    if array.itemsize > 1:
        return (_total(_of_bits(piece.astype(np.float64), 1) for piece in pieces),)
    counts = sum((np.bincount(piece.view(np.uint8), minlength=256) for piece in pieces), _NONE)
    halves = counts.reshape(16, 16)
    return (
        _of_bits(_BYTES.view(array.dtype).astype(np.float64), counts),
        _of_bits(np.arange(16.0), halves.sum(0) + halves.sum(1)),
    )


_BYTES, _NONE = np.arange(256, dtype=np.uint8), np.zeros(256, np.int64)


def _of_bits(values: Array, counts: Any) -> tuple[int, int]:
    """The sums of values (f64) that are there so many times."""
    bits, counted = values.view(np.uint64), np.asarray(counts, np.uint64)
    with np.errstate(over="ignore"):
        return int((bits * counted).sum()), int((bits * bits * counted).sum())


def _total(sums: Iterable[tuple[int, int]]) -> tuple[int, int]:
    first = second = 0
    for one, other in sums:
        first, second = first + one & _WORD, second + other & _WORD
    return first, second


def _together(always: Sequence[_Sums], others: Sequence[_Sums]) -> Iterator[_Sums]:
    """The sums of these together with each few of the others, and with all of them."""
    few = others if len(others) <= _MOST_TOGETHER else ()
    for count in range(len(few) + 1):
        for some in itertools.combinations(few, count):
            if always or some:
                yield tuple(map(_total, zip(*always, *some, strict=False)))
    yield tuple(map(_total, zip(*always, *others, strict=False)))


def _alike(one: _Sums, other: _Sums) -> bool:
    return any(mine == its for mine, its in zip(one, other, strict=False))
