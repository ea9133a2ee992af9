"""Selection of strided copies for slices and pads, for open sizes as well."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.extents import extents, largest, smallest
from uncork.kernels.movement.nd_copy import Copy, Fill, Loop, strides
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.ops.strided_slice import StridedSlice1
from uncork.symbolic import Size, SizeLike
from uncork.types import TensorSpec

Specs = Sequence[TensorSpec]


def slice_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy] | None:
    """Slice: one copy, whose loops step through the data as the slice does."""
    data, start, _, step = inputs[:4]
    steps = step.integers()
    starts = start.sizes()
    axes = list(range(len(starts or ()))) if len(inputs) < 5 else inputs[4].integers()
    if starts is None or steps is None or axes is None or None in (*starts, *steps, *axes):
        return None
    shape, result = extents(data), extents(outputs[0])
    element = data.element_type.dtype.itemsize
    source, target = strides(shape, element), strides(result, element)
    firsts: list[SizeLike] = [0] * len(shape)
    by = [1] * len(shape)
    for axis, first, every in zip(axes, starts, steps):
        assert axis is not None and first is not None and every is not None
        along = normalised_axis(operation, axis, len(shape))
        found = _first(first, shape[along], every)
        if found is None:
            return None
        firsts[along], by[along] = found, every
    offset = _sum(first * step for first, step in zip(firsts, source))
    loops = tuple(
        Loop(count, step * every, to) for count, step, every, to in zip(result, source, by, target)
    )
    return [Copy(0, 0, offset, 0, loops, element)]


def strided_slice_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy] | None:
    """StridedSlice: the same, with masks, new axes and axes of which one index is left."""
    assert isinstance(operation, StridedSlice1)
    data, begin = inputs[:2]
    begins, ends = begin.sizes(), inputs[2].sizes()
    every = inputs[3].integers() if len(inputs) > 3 else [1] * len(begins or ())
    if begins is None or ends is None or every is None or None in (*begins, *every):
        return None
    shape, result = extents(data), extents(outputs[0])
    element = data.element_type.dtype.itemsize
    source, target = strides(shape, element), strides(result, element)
    offset: SizeLike = 0
    loops: list[Loop] = []
    place = 0
    for kind, i, axis in operation.steps(len(begins), len(shape)):
        if kind == "new":
            place += 1
            continue
        if kind == "shrink":
            index = operation.single(i, begins[i])
            first = None if index is None else _index(index, shape[axis])
            if first is None:
                return None
            offset = offset + first * source[axis]
            continue
        step = 1
        if kind == "slice":
            step = every[i] or 1
            start, _ = operation.bounds(i, begins[i], ends[i], step)
            first = None if start is None else _first(start, shape[axis], step)
            if first is None:
                return None
            offset = offset + first * source[axis]
        loops.append(Loop(result[place], source[axis] * step, target[place]))
        place += 1
    return [Copy(0, 0, offset, 0, tuple(loops), element)]


def pad_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy | Fill] | None:
    """Pad: a fill, and a copy of the data into it; along one axis other modes by copies of the
    borders.
    """
    mode: str = getattr(operation, "pad_mode", "constant")
    data = inputs[0]
    begins, ends = (spec.integers() for spec in inputs[1:3])
    if begins is None or ends is None or None in (*begins, *ends):
        return None
    pads = [(b or 0, e or 0) for b, e in zip(begins, ends)]
    shape, result = extents(data), extents(outputs[0])
    element = data.element_type.dtype.itemsize
    source, target = strides(shape, element), strides(result, element)
    kept = [
        size if b >= 0 and e >= 0 else largest(size + min(b, 0) + min(e, 0), 0)
        for size, (b, e) in zip(shape, pads)
    ]
    from_ = _sum(max(-b, 0) * step for (b, _), step in zip(pads, source))
    to = _sum(max(b, 0) * step for (b, _), step in zip(pads, target))
    loops = tuple(Loop(count, *steps) for count, steps in zip(kept, zip(source, target)))
    middle = Copy(0, 0, from_, to, loops, element)
    if mode == "constant":
        return [Fill(3 if len(inputs) > 3 else None, element), middle]
    padded = [axis for axis, pad in enumerate(pads) if pad != (0, 0)]
    if len(padded) > 1 or any(b < 0 or e < 0 for b, e in pads):
        return None
    borders = (
        [
            _border(mode, padded[0], pads[padded[0]], side, shape, loops, source, target)
            for side in (0, 1)
        ]
        if padded
        else []
    )
    return [middle, *borders]


def _border(
    mode: str,
    axis: int,
    pads: tuple[int, int],
    side: int,
    shape: Sequence[SizeLike],
    loops: Sequence[Loop],
    source: Sequence[SizeLike],
    target: Sequence[SizeLike],
) -> Copy:
    """The cells before (0) or behind (1) the data along one axis, copied from its own, backwards
    but for the edge.
    """
    begin, end = pads
    size, step = shape[axis], source[axis]
    skipped = {"edge": 0, "reflect": 1, "symmetric": 0}[mode]
    first: SizeLike
    if side == 0:
        count, first, to = begin, 0 if mode == "edge" else begin - 1 + skipped, 0 * target[axis]
    else:
        count, first, to = end, size - 1 - skipped, (begin + size) * target[axis]
    back: SizeLike = 0 if mode == "edge" else -1 * step
    some = list(loops)
    some[axis] = Loop(count, back, target[axis])
    element = source[-1] if isinstance(source[-1], int) else 1
    return Copy(0, 0, first * step, to, tuple(some), element)


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
    """The place of an index that shapes say is inside; None where only the call knows whether it
    counts from the end.
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


def _sum(sizes: object) -> SizeLike:
    total: SizeLike = 0
    for size in sizes:  # type: ignore[attr-defined]
        total = total + size
    return total
