"""Selection of strided copies for slices, constant places and pads, for open sizes as well."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from itertools import product as combinations

from uncork.kernels.extents import certainly, elements_of, extents, largest, smallest
from uncork.kernels.movement.looks import Along, Look, Stretch, parts
from uncork.kernels.movement.nd_copy import Copy, Fill
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.ops.gather import Gather
from uncork.ops.strided_slice import StridedSlice1
from uncork.symbolic import Size, SizeLike
from uncork.types import TensorSpec

Specs = Sequence[TensorSpec]
#: Each axis with borders makes the copies three times as many: at most so many axes.
_MOST_PADDED = 3


def slice_look(operation: Operation, inputs: Specs, outputs: Specs, number: int) -> Look | None:
    """What Slice looks at: some axes from a place on, in steps."""
    data, start, _, step = inputs[:4]
    steps = step.integers()
    starts = elements_of(start)
    axes = list(range(len(starts or ()))) if len(inputs) < 5 else inputs[4].integers()
    if starts is None or steps is None or axes is None:
        return None
    shape, result = extents(data), extents(outputs[0])
    found = [Along(axis, count) for axis, count in enumerate(result)]
    for axis, first, every in zip(axes, starts, steps, strict=True):
        if axis is None or every is None:
            return None
        along = normalised_axis(operation, axis, len(shape))
        begin = _first(first, shape[along], every)
        if begin is None:
            return None
        found[along] = Along(along, result[along], begin, every)
    return Look(tuple(found))


def gather_look(operation: Operation, inputs: Specs, outputs: Specs, number: int) -> Look | None:
    """What Gather looks at where its places are constants in equal steps: one place of an axis, or
    some of it.
    """
    assert isinstance(operation, Gather)
    data, indices, axis = inputs
    places, shape, result = indices.value, extents(data), extents(outputs[0])
    if places is None or axis.value is None or places.ndim > 1 or not places.size:
        return None
    along = normalised_axis(operation, int(axis.value.item()), len(shape))
    size = shape[along]
    if not isinstance(size, int) or operation.batch_count(places.ndim):
        return None
    least = -size if operation.counts_from_end else 0
    if not bool(((places >= least) & (places < size)).all()):
        return None
    found = [int(place) % size for place in places.reshape(-1)]
    steps = {after - before for before, after in itertools.pairwise(found)} or {1}
    if len(steps) > 1 or 0 in steps:
        return None
    others = [n for n in range(len(shape)) if n != along]
    if not places.ndim:
        return Look(tuple(map(Along, others, result)), ((along, found[0]),))
    looks = [Along(n, count) for n, count in enumerate(result)]
    looks[along] = Along(along, len(found), found[0], steps.pop())
    return Look(tuple(looks))


def strided_slice_look(
    operation: Operation, inputs: Specs, outputs: Specs, number: int
) -> Look | None:
    """What StridedSlice looks at: what Slice does, with masks, new axes and axes of which one index
    is left.
    """
    assert isinstance(operation, StridedSlice1)
    data, begin = inputs[:2]
    begins, ends = elements_of(begin), inputs[2].sizes()
    every = inputs[3].integers() if len(inputs) > 3 else [1] * len(begins or ())
    if begins is None or ends is None or every is None or None in every:
        return None
    shape, result = extents(data), extents(outputs[0])
    found: list[Along] = []
    places: list[tuple[int, SizeLike]] = []
    for kind, i, axis in operation.steps(len(begins), len(shape)):
        if kind == "new":
            found.append(Along(None, 1))
            continue
        if kind == "shrink":
            index = operation.single(i, begins[i])
            place = None if index is None else _index(index, shape[axis])
            if place is None:
                return None
            places.append((axis, place))
            continue
        if kind != "slice":
            found.append(Along(axis, result[len(found)]))
            continue
        step = every[i] or 1
        start, _ = operation.bounds(i, begins[i], ends[i], step)
        first = None if start is None else _first(start, shape[axis], step)
        if first is None:
            return None
        found.append(Along(axis, result[len(found)], first, step))
    return Look(tuple(found), tuple(places))


def pad_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy | Fill] | None:
    """The fill of a constant Pad and the copy of the data into it; for other modes the copies of
    the data and of its borders.
    """
    mode: str = getattr(operation, "pad_mode", "constant")
    data = inputs[0]
    begins, ends = map(elements_of, inputs[1:3])
    if begins is None or ends is None:
        return None
    pads = [*zip(begins, ends, strict=True)]
    shape, result = extents(data), extents(outputs[0])
    element = data.element_type.dtype.itemsize
    kept = [
        size
        if _is_never_negative(b) and _is_never_negative(e)
        else largest(size + smallest(b, 0) + smallest(e, 0), 0)
        for size, (b, e) in zip(shape, pads, strict=True)
    ]
    if mode == "constant":
        middle = [
            Stretch(count, _cut(-1 * begin), _cut(begin))
            for count, (begin, _) in zip(kept, pads, strict=True)
        ]
        fill = Fill(3 if len(inputs) > 3 else None, element)
        return [fill, *parts([middle], shape, result, element)]
    padded = [pad for pad in pads if not all(certainly(each, 0) for each in pad)]
    if len(padded) > _MOST_PADDED or not all(_is_never_negative(p) for pad in pads for p in pad):
        return None
    bordered = [_bordered(mode, size, pad) for size, pad in zip(shape, pads, strict=True)]
    return [*parts(combinations(*bordered), shape, result, element)]


def _bordered(mode: str, size: SizeLike, pad: tuple[SizeLike, SizeLike]) -> list[Stretch]:
    """The parts of an axis of the result: the data, and the cells before and behind it, which
    repeat the edge or mirror the data.
    """
    begin, end = pad
    by, skipped = (0, 0) if mode == "edge" else (-1, int(mode == "reflect"))
    before = Stretch(begin, 0, 0 if mode == "edge" else begin - 1 + skipped, by)
    behind = Stretch(end, begin + size, size - 1 - skipped, by)
    return [Stretch(size, begin, 0), *(s for s in (before, behind) if not certainly(s.count, 0))]


def _is_never_negative(size: SizeLike) -> bool:
    if isinstance(size, int):
        return size >= 0
    return size.facts is not None and size.facts.certainly_at_least(size, 0)


def _cut(pad: SizeLike) -> SizeLike:
    """The elements that a pad takes away, which it does where it is negative."""
    return 0 if _is_never_negative(pad) else largest(-1 * pad, 0)


def _first(start: SizeLike, size: SizeLike, step: int) -> SizeLike | None:
    """The first place of a slice; None where only the call knows whether it counts from the end."""
    if isinstance(start, Size) and start.facts is not None:
        if start.facts.certainly_at_least(start, 0):
            counted: SizeLike = start
        elif start.facts.certainly_at_least(-1, start):
            counted = size + start
        else:
            return None
    else:
        counted = start if isinstance(start, Size) or start >= 0 else size + start
    return largest(smallest(counted, size if step > 0 else size - 1), 0)


def _index(index: SizeLike, size: SizeLike) -> SizeLike | None:
    """The place of an index that shape inference has found inside; None where only the call knows
    whether it counts from the end.
    """
    if isinstance(index, Size) and index.facts is not None:
        from_end = index.facts.certainly_at_least(-1, index)
        return (
            size + index
            if from_end
            else index
            if index.facts.certainly_at_least(index, 0)
            else None
        )
    if not isinstance(index, int):
        return None
    return index if index >= 0 else size + index
