"""Slices and their sizes, shared by Slice, StridedSlice and SliceScatter."""

from __future__ import annotations

from collections.abc import Callable

from uncork.ops._common.vectors import all_known, common_length, known_axes, vector
from uncork.ops._operation import Operation
from uncork.symbolic import Facts, Size, SizeLike, facts_of
from uncork.types import Array, Dimension, Element, PartialShape, TensorSpec

#: First place, end (not included, may be -1 going backwards) and step of a slice of a dimension of
#: known size.
Ends = Callable[[int, int, int, int], tuple[int, int, int]]
#: A bound this far out means "to the end" where the dimension is not known: files write the largest
#: or least i32 or i64 for it.
FAR = 2**31 - 1
_INFINITE = 2**100


def python_ends(size: int, start: int, stop: int, step: int) -> tuple[int, int, int]:
    """The start, stop and step of Python's `start:stop:step` on an axis of `size`, with negative
    numbers resolved and bounds limited.
    """
    return slice(start, stop, step).indices(size)


def sliced(
    dim: Dimension, start: Element, stop: Element, step: int | None, ends: Ends = python_ends
) -> Dimension:
    """The sizes that a slice of `dim` can have; None for a bound that is not known."""
    size = dim.expression
    if start is not None and stop is not None and step is not None and size is not None:
        facts = facts_of([size, start, stop])
        open_count = None if facts is None else _open_count(size, start, stop, step, facts)
        if open_count is not None:
            return Dimension.of(open_count)
    start, stop = (bound if isinstance(bound, int) else None for bound in (start, stop))
    if start is None or stop is None or step is None:
        return Dimension(
            0, dim.high if dim.high is None or step is None else -(-dim.high // abs(step))
        )
    if dim.static_size is not None:
        count = _count(ends(dim.static_size, start, stop, step))
        return Dimension(count, count)
    start, stop = (n if abs(n) < FAR else _INFINITE if n > 0 else -_INFINITE for n in (start, stop))
    # Over the sizes of the dimension the slice's is piecewise linear, up to rounding by the step,
    # with corners where a bound meets an end: its least and greatest value lie at corners or at the
    # ends of the interval.
    near = [abs(n) for n in (start, stop) if abs(n) < FAR]
    corners = {c + shift for c in [0, *near, sum(near)] for shift in (-1, 0, 1)}
    beyond = max(corners) + abs(step) + dim.low
    sizes = [dim.low, *filter(dim.contains, corners), beyond if dim.high is None else dim.high]
    counts = [_count(ends(n, start, stop, step)) for n in sizes]
    if dim.high is not None:
        return Dimension(min(counts), max(counts))
    grows = _count(ends(beyond + abs(step), start, stop, step)) > counts[-1]
    return Dimension(min(counts), None if grows else max(counts))


def _open_count(
    size: Size, start: SizeLike, stop: SizeLike, step: int, facts: Facts
) -> Size | None:
    """How many elements a slice has whose bounds or whose dimension are expressions; None where the
    rule has no simple form.
    """
    last = size if step > 0 else size - 1
    least = 0 if step > 0 else -1

    def place(bound: SizeLike) -> Size:
        if isinstance(bound, int) and abs(bound) >= FAR:
            return last if bound > 0 else Size.of(least)
        if facts.suppose_at_least(bound, 0):
            return facts.smaller(bound, last)
        return facts.larger(size + bound, least)

    first, end = place(start), place(stop)
    if step < 0 and not (
        facts.certainly_at_least(first, 0) or facts.certainly_at_least(first - last, 0)
    ):  # before the first element of some, from where Python and StridedSlice differ
        return None
    length = facts.larger(end - first if step > 0 else first - end, 0)
    return -(-length // abs(step))


def _count(ends: tuple[int, int, int]) -> int:
    """`len(range(*ends))`, also where that overflows."""
    first, end, step = ends
    return max(0, (end - first + step + (-1 if step > 0 else 1)) // step)


def sliced_shape(
    operation: Operation,
    data: TensorSpec,
    start: TensorSpec,
    stop: TensorSpec,
    step: TensorSpec,
    axes: TensorSpec | None,
) -> PartialShape:
    """The shape of `data[start:stop:step]` along `axes`, by default the first ones; whatever is
    wrong with them is refused.
    """
    named = {"start": start, "stop": stop, "step": step} | ({} if axes is None else {"axes": axes})
    numbers = {name: vector(operation, name, spec) for name, spec in named.items()}
    count = common_length(operation, named)
    operation.require(
        0 not in (numbers["step"] or []),
        "input 'step': expected steps other than 0, got {}",
        numbers["step"],
    )
    operation.require(data.rank != 0, "input 'data': expected at least one dimension, got a scalar")
    if data.rank is None:
        return PartialShape()
    operation.require(
        count.low <= data.rank,
        "expected at most one slice for each dimension of data {}, got {}",
        data.shape,
        count,
    )
    if axes is not None:
        along = all_known(known_axes(operation, numbers["axes"], data.rank))
    else:
        along = list(range(count.low)) if count.is_static else None
    if along is None:
        return PartialShape([Dimension(0, d.high) for d in data.shape])
    dims = list(data.shape)
    bounds = [spec.sizes() or [None] * len(along) for spec in (start, stop)]
    for axis, first, end, by in zip(
        along, *bounds, numbers["step"] or [None] * len(along), strict=True
    ):
        dims[axis] = sliced(dims[axis], first, end, by)
    return PartialShape(dims)


def slices(
    rank: int, start: Array, stop: Array, step: Array, axes: Array | None
) -> tuple[slice, ...]:
    """The slices as an index of NumPy."""
    index = [slice(None)] * rank
    for i, axis in enumerate(range(len(start)) if axes is None else axes):
        index[int(axis)] = slice(int(start[i]), int(stop[i]), int(step[i]))
    return tuple(index)
