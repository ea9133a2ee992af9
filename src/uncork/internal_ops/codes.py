"""Codes of small numbers as they lie in memory, and laid anew: in other bits, in another order of
their axes, or changed.

That is done a part at a time, in the order in which the codes lie, and what has been read of a
mapped file is let go: neither unpacked codes nor both copies are in memory at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from weakref import WeakKeyDictionary, ref

import numpy as np
from msgspec import Struct

from uncork.files import let_go
from uncork.internal_ops.packed_const import PackedConst
from uncork.ops.parameter import Const
from uncork.storage import packed_size, unpack
from uncork.types import Array, ElementType

#: Codes that are looked at together.
_PART = 1 << 20
#: So many codes are whole bytes in every type.
_WHOLE = 8
_LINE = 64

#: What becomes of a part of the codes; told where that is, by a slice of each axis.
Change = Callable[[Array, tuple[slice, ...]], Array]


class Codes(Struct, frozen=True, eq=False):
    """Codes in `array`: carrier values, or with `packed` the bytes of `model.bin`."""

    element_type: ElementType
    array: Array
    packed: bool = False

    @staticmethod
    def of(constant: Const) -> Codes:
        """The codes of a constant, as they are stored."""
        if isinstance(constant, PackedConst):
            return Codes(constant.element_type, constant.packed, True)
        return Codes(constant.element_type, constant.value)

    def parts(
        self, sizes: Sequence[int], pairs: int | None = None
    ) -> Iterator[tuple[tuple[slice, ...], Array]]:
        """Carrier values of one part after the other, with the slice of each axis of these sizes
        that it is; along the axis `pairs` parts begin at even places.
        """
        flat = np.ascontiguousarray(self.array).reshape(-1)
        axis, within = 0, math.prod(sizes[1:])
        while within > _PART and axis != pairs and axis + 1 < len(sizes):
            axis += 1
            within //= sizes[axis]
        step = max(1, _PART // within)
        if axis == pairs:
            step += step % 2
        done = 0
        for outer in np.ndindex(*sizes[:axis]):
            for begin in range(0, sizes[axis], step):
                end = min(begin + step, sizes[axis])
                count = (end - begin) * within
                values = self._some(flat, done, count)
                place = (*(slice(i, i + 1) for i in outer), slice(begin, end))
                rest = sizes[axis + 1 :]
                shape = (*(1 for _ in outer), end - begin, *rest)
                yield (*place, *(slice(0, size) for size in rest)), values.reshape(shape)
                done += count
                # all so far: looking at a page brings those before it back
                let_go(flat[: self._bytes(done) if self.packed else done])

    def _bytes(self, count: int) -> int:
        return packed_size(self.element_type, count // _WHOLE * _WHOLE)

    def _some(self, flat: Array, first: int, count: int) -> Array:
        if not self.packed:
            return flat[first : first + count]
        extra = first % _WHOLE
        data = flat[self._bytes(first) :]
        data = data[: packed_size(self.element_type, extra + count)]
        return unpack(data.data, self.element_type, extra + count)[extra:]

    def laid(
        self,
        sizes: Sequence[int],
        order: Sequence[int] | None = None,
        held: ElementType | None = None,
        change: Change | None = None,
    ) -> Codes:
        """The codes of these sizes with their axes in this order, held as another type; those of 4
        bits are packed. They begin at a cache line, as they would in a file.
        """
        kind = held or self.element_type
        packs = kind.bits == 4
        if change is None:  # which knows the axes
            sizes, order = _joined(sizes, order or range(len(sizes)))
        order = order or range(len(sizes))
        shape = [sizes[axis] for axis in order]
        if packs and shape[-1] % 2 and len(shape) > 1:  # pairs are of several rows
            bytes_ = self.laid(sizes, order, ElementType.u8, change)
            return Codes(kind, bytes_.array.view(kind.dtype)).laid([math.prod(sizes)])
        made = _made(kind, [*shape[:-1], -(-shape[-1] // 2)] if packs else shape)
        for place, values in self.parts(sizes, order[-1] if packs else None):
            changed = values if change is None else change(values, place)
            there = [place[axis] for axis in order]
            turned = changed.transpose(order)
            if packs:
                last = there.pop()
                there.append(slice(last.start // 2, -(-last.stop // 2)))
                _pack(turned, made[tuple(there)])
            else:
                made[tuple(there)] = turned
        return Codes(kind, made.reshape(-1) if packs else made, packs)


def _made(kind: ElementType, shape: Sequence[int], memory: Array | None = None) -> Array:
    """Codes, or pairs of 4 bits, in memory: in new one where none is given."""
    dtype = np.dtype(np.uint8) if kind.bits == 4 else kind.dtype
    if memory is None:
        memory = np.empty(math.prod(shape) * dtype.itemsize + _LINE, np.uint8)
    made: Array = np.ndarray(shape, dtype, memory, -memory.ctypes.data % _LINE)
    return made


#: The memory of codes that were laid anew, as long as somebody reads them.
_LAID: WeakKeyDictionary[Const, dict[object, tuple[ref[Array], tuple[int, ...]]]] = (
    WeakKeyDictionary()
)


def laid_once(
    constant: Const,
    sizes: Sequence[int],
    order: Sequence[int] | None,
    held: ElementType | None,
) -> Codes:
    """The codes of a constant laid anew, once for all who want them so: a product and a look-up
    read the same.
    """
    known = _LAID.setdefault(constant, {})
    key = tuple(sizes), tuple(order or ()), held
    kind = held or constant.element_type
    if key in known:
        memory, shape = known[key]
        there = memory()
        if there is not None:
            return Codes(kind, _made(kind, shape, there), kind.bits == 4)
    made = Codes.of(constant).laid(sizes, order, held)
    base = made.array.base
    assert isinstance(base, np.ndarray)
    known[key] = ref(base), made.array.shape
    return made


def _pack(values: Array, pairs: Array) -> None:
    """Write codes of 4 bits as pairs, the first of each in the low bits."""
    codes = values.astype(np.uint8, copy=False)
    count = codes.shape[-1] // 2
    np.bitwise_and(codes[..., 0::2], 15, out=pairs)
    pairs[..., :count] |= codes[..., 1::2] << 4


def _joined(sizes: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """The same sizes and order with fewer axes: those of size 1 are gone, and such as follow each
    other before and behind are one.
    """
    runs: list[list[int]] = []
    before = None
    for axis in (axis for axis in order if sizes[axis] > 1):
        between = [] if before is None else sizes[before + 1 : axis]
        if before is not None and axis > before and all(size == 1 for size in between):
            runs[-1].append(axis)
        else:
            runs.append([axis])
        before = axis
    runs = runs or [[0]]
    lying = sorted(runs)
    return [math.prod(sizes[a] for a in run) for run in lying], [lying.index(run) for run in runs]
