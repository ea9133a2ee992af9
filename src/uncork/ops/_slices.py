"""The sizes of slices, shared by Slice, StridedSlice and SliceScatter."""

from __future__ import annotations

from collections.abc import Callable

from uncork.types import Dimension

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
