"""Regions of a result whose pixels see the same taps of a window on the data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from msgspec import Struct

from uncork.kernels.convolution.geometry import Geometry, WindowAxis, known
from uncork.symbolic import SizeLike

#: Taps outside of the data are left out where that saves such a part of the products.
_SAVED = 0.25


class Region(Struct, frozen=True):
    """Pixels that see the same taps of a plane: rows and columns as (first, number), and the taps
    along each; and the planes in which they lie.
    """

    rows: tuple[SizeLike, SizeLike]
    columns: tuple[SizeLike, SizeLike]
    row_taps: tuple[int, int]
    column_taps: tuple[int, int]
    planes: tuple[SizeLike, SizeLike] = (0, 1)

    @property
    def taps(self) -> int:
        """The taps of a plane that a pixel sees."""
        return self.row_taps[1] * self.column_taps[1]

    @property
    def products(self) -> int:
        """Pixels of a plane times taps, where all is known."""
        return known(self.rows[1]) * known(self.columns[1]) * self.taps


def runs_of_taps(
    axis: WindowAxis,
) -> Sequence[tuple[tuple[SizeLike, SizeLike], tuple[int, int]]]:
    """Runs of windows along an axis that see the same taps on the data: (first, number) of windows,
    then of taps.
    """
    if axis.inside:
        return [((0, axis.count), (0, axis.taps))]
    result: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for window in range(known(axis.count)):
        begin = window * axis.stride - known(axis.begin)
        taps = [
            tap for tap in range(axis.taps) if 0 <= begin + tap * axis.dilation < known(axis.size)
        ]
        seen = (taps[0], len(taps)) if taps else (0, 0)
        if result and result[-1][1] == seen:
            result[-1] = ((result[-1][0][0], result[-1][0][1] + 1), seen)
        else:
            result.append(((window, 1), seen))
    return result


def regions_of(g: Geometry) -> list[Region] | None:
    """Regions of a plane with equal taps, where taps outside of the data are many; None where they
    are few, or only the call knows a size of the image: tables that calls fill have all taps.
    """
    if g.is_image_open or g.plane.inside or (g.rows.dilation == 1 and g.columns.dilation == 1):
        return None
    regions = [
        Region(y, x, j, i)
        for (y, j), (x, i) in product(runs_of_taps(g.rows), runs_of_taps(g.columns))
    ]
    whole = known(g.plane.pixels) * g.rows.taps * g.columns.taps
    return regions if sum(region.products for region in regions) < (1 - _SAVED) * whole else None
