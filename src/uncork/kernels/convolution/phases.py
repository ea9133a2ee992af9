"""The phases of a transposed convolution: pixels whose places leave the same remainders by the
strides see the same taps, and no zeros between cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from msgspec import Struct

from uncork.kernels.convolution.geometry import WindowAxis
from uncork.kernels.extents import is_empty, is_known


class Phase(Struct, frozen=True):
    """The windows along an axis that see the same taps: the first one, how far they are apart, an
    axis of these windows alone, and the taps.
    """

    first: int
    step: int
    axis: WindowAxis
    taps: range


def are_spread(axes: Sequence[WindowAxis]) -> bool:
    """Whether there are zeros between cells."""
    return any(axis.lhs_dilation > 1 for axis in axes)


def have_phases(axes: Sequence[WindowAxis]) -> bool:
    """Whether each remainder sees some taps, which are known."""
    return all(
        axis.dilation == 1 and is_known(axis.begin) and axis.taps >= axis.lhs_dilation
        for axis in axes
        if axis.lhs_dilation > 1
    )


def phases_of(axis: WindowAxis) -> Iterator[Phase]:
    """The phases along an axis; the axis itself where no zeros are between its cells."""
    if axis.lhs_dilation == 1:
        yield Phase(0, 1, axis, range(axis.taps))
        return
    step = axis.lhs_dilation
    assert isinstance(axis.begin, int)
    for first in range(step):
        taps = range((axis.begin - first) % step, axis.taps, step)
        begin = -((first + taps.start - axis.begin) // step)
        count = (axis.count - first + (step - 1)) // step
        yield Phase(first, step, WindowAxis(axis.size, len(taps), count, begin=begin), taps)


def phases_along(axes: Sequence[WindowAxis]) -> Iterator[tuple[Phase, ...]]:
    """The phases along several axes, but for those without a pixel."""
    for phases in product(*map(phases_of, axes)):
        if not is_empty([phase.axis.count for phase in phases]):
            yield phases
