"""Slices and their sizes, shared by Slice, StridedSlice and SliceScatter."""

from __future__ import annotations

from collections.abc import Callable

from uncork.ops._common.vectors import all_known, common_length, known_axes, vector
from uncork.ops._operation import Operation
from uncork.types import Array, Dimension, PartialShape, TensorSpec

#: First place, end (not included, may be -1 going backwards) and step of a slice of a dimension of known size.
Ends = Callable[[int, int, int, int], tuple[int, int, int]]
#: A bound this far out means "to the end" where the dimension is not known: files write the largest or least i32 or i64 for it.
FAR = 2**31 - 1
_INFINITE = 2**100


def python_ends(size: int, start: int, stop: int, step: int) -> tuple[int, int, int]:
    """Python's `start:stop:step`."""
    return slice(start, stop, step).indices(size)


def sliced(dim: Dimension, start: int | None, stop: int | None, step: int | None, ends: Ends = python_ends) -> Dimension:
    """The sizes that a slice of `dim` can have; None for a bound that is not known."""
    if start is None or stop is None or step is None:
        return Dimension(0, dim.high if dim.high is None or step is None else -(-dim.high // abs(step)))
    if dim.size is not None:
        size = _count(ends(dim.size, start, stop, step))
        return Dimension(size, size)
    start, stop = (n if abs(n) < FAR else _INFINITE if n > 0 else -_INFINITE for n in (start, stop))
    # Over the sizes of the dimension the slice's is piecewise linear, up to rounding by the step, with corners where a bound
    # meets an end: its least and greatest value lie at corners or at the ends of the interval.
    near = [abs(n) for n in (start, stop) if abs(n) < FAR]
    corners = {c + shift for c in [0, *near, sum(near)] for shift in (-1, 0, 1)}
    beyond = max(corners) + abs(step) + dim.low
    sizes = [dim.low, *filter(dim.contains, corners), beyond if dim.high is None else dim.high]
    counts = [_count(ends(n, start, stop, step)) for n in sizes]
    if dim.high is not None:
        return Dimension(min(counts), max(counts))
    grows = _count(ends(beyond + abs(step), start, stop, step)) > counts[-1]
    return Dimension(min(counts), None if grows else max(counts))


def _count(ends: tuple[int, int, int]) -> int:
    """`len(range(*ends))`, also where that overflows."""
    first, end, step = ends
    return max(0, (end - first + step + (-1 if step > 0 else 1)) // step)


def sliced_shape(
    operation: Operation, data: TensorSpec, start: TensorSpec, stop: TensorSpec, step: TensorSpec, axes: TensorSpec | None
) -> PartialShape:
    """The shape of `data[start:stop:step]` along `axes`, by default the first ones, with all that can be wrong refused."""
    named = {"start": start, "stop": stop, "step": step} | ({} if axes is None else {"axes": axes})
    numbers = {name: vector(operation, name, spec) for name, spec in named.items()}
    count = common_length(operation, named)
    operation.require(0 not in (numbers["step"] or []), "input 'step': expected steps other than 0, got {}", numbers["step"])
    operation.require(data.rank != 0, "input 'data': expected at least one dimension, got a scalar")
    if data.rank is None:
        return PartialShape()
    operation.require(count.low <= data.rank, "expected at most one slice for each dimension of data {}, got {}", data.shape, count)
    if axes is not None:
        along = all_known(known_axes(operation, numbers["axes"], data.rank))
    else:
        along = list(range(count.low)) if count.is_static else None
    if along is None:
        return PartialShape([Dimension(0, d.high) for d in data.shape])
    dims = list(data.shape)
    bounds = [numbers[name] or [None] * len(along) for name in ("start", "stop", "step")]
    for axis, first, end, by in zip(along, *bounds):
        dims[axis] = sliced(dims[axis], first, end, by)
    return PartialShape(dims)


def slices(rank: int, start: Array, stop: Array, step: Array, axes: Array | None) -> tuple[slice, ...]:
    """The same slice as an index."""
    index = [slice(None)] * rank
    for i, axis in enumerate(range(len(start)) if axes is None else axes):
        index[int(axis)] = slice(int(start[i]), int(stop[i]), int(step[i]))
    return tuple(index)
