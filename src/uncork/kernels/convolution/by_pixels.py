"""Convolutions over an open number of pixels: window by window where there are few, over planes
where there are many.

Which of both it is says a condition of each call: a length of a few windows and one of thousands
are calls of one plan.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.kernels.convolution import direct, im2col
from uncork.kernels.convolution.geometry import Geometry, WindowAxis, Work, typical
from uncork.kernels.kernel_plan import AtLeast, KernelPlan, Stages
from uncork.kernels.layer import joined, staged
from uncork.kernels.runtime.target import Target
from uncork.symbolic import Size

#: Pixels in a row that are tried: from some of them on one way is the cheaper one.
_TRIED = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128)
#: Filters are packed for both ways up to so many bytes.
_LARGEST = 1 << 20


def by_pixels(work: Work, target: Target) -> KernelPlan | None:
    """The plan that goes window by window below so many pixels of an open axis, and over planes
    from there on; None where one way serves for all.
    """
    axis = _open_axis(work.geometry)
    if axis is None or work.filters.nbytes > _LARGEST or not isinstance(axis.count, Size):
        return None
    least = _least(work.geometry, target.lanes)
    if least is None:
        return None
    few, many = im2col.by_rows(work, target.lanes), direct.over_planes(work, target)
    below = AtLeast(axis.count, least, otherwise=True)
    above = AtLeast(axis.count, least)

    def split(threads: int) -> Stages:
        return joined([few.stages(threads).only(below), many.stages(threads).only(above)])

    keep = [*few.keep, *many.keep]
    return staged(split, many.cost, keep, f"{few.kernel} or {many.kernel}")


def _open_axis(g: Geometry) -> WindowAxis | None:
    """The axis whose windows only the call counts; of two, that of the columns."""
    return next((axis for axis in (g.columns, g.rows) if isinstance(axis.count, Size)), None)


def _least(g: Geometry, widest: int) -> int | None:
    """The number of pixels along open axes from which on planes are cheaper than windows; None
    where they always are, or never.
    """
    few = [pixels for pixels in _TRIED if _few_pixels(_with_pixels(g, pixels), widest)]
    if not few or few[-1] == _TRIED[-1]:
        return None
    return _TRIED[_TRIED.index(few[-1]) + 1]


def _few_pixels(g: Geometry, widest: int) -> bool:
    return im2col.cost(g, widest) < direct.cost(g, widest)


def _with_pixels(g: Geometry, pixels: int) -> Geometry:
    """The geometry with so many windows along each open axis, and one image."""

    def known(axis: WindowAxis) -> WindowAxis:
        if not isinstance(axis.count, Size):
            return axis
        return replace(axis, count=pixels, size=axis.windows_extent(pixels))

    one = typical(g)
    return replace(one, rows=known(g.rows), columns=known(g.columns))
