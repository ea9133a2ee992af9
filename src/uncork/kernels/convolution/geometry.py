"""What a convolution looks like to its kernels: windows that slide along two axes over data with zeros around and between its cells.

A transposed convolution is one of these, too: with zeros between the cells of its data, and its filters turned around.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from uncork.ops import Operation
from uncork.ops._common.spatial import extent
from uncork.ops.convolution import Convolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1
from uncork.types import Array


@dataclass(frozen=True, slots=True)
class Axis:
    """`count` windows, `stride` apart, of `taps` cells that are `dilation` apart, over `size` cells that lie `spread` apart.

    The first window begins `begin` cells before the data.
    """

    size: int
    taps: int
    count: int
    stride: int = 1
    dilation: int = 1
    begin: int = 0
    spread: int = 1

    def reach(self, windows: int) -> int:
        """Cells from the beginning of the first of some windows to the end of the last one."""
        return (windows - 1) * self.stride + extent(self.taps, self.dilation)

    @property
    def inside(self) -> bool:
        """All windows are on the data, whose cells are neighbours."""
        return self.begin == 0 and self.spread == 1 and self.reach(self.count) <= self.size

    @property
    def trivial(self) -> bool:
        """One cell, seen once through one tap."""
        return self.inside and (self.size, self.taps, self.count) == (1, 1, 1)

    @property
    def pointwise(self) -> bool:
        """Each cell gives the output's at its own place."""
        return self.inside and self.taps == self.stride == 1 and self.size == self.count

    def cells(self, first: int, count: int, step: int = 1) -> Cells:
        """The cells at the places first, first + step, ..; places are counted from the beginning of the first window."""
        offset = first - self.begin
        if self.spread == 1:
            place = max(0, -(offset // step))
            number = min(count, -((offset - self.size) // step)) - place
            return Cells(offset + place * step, max(0, number), step, place, 1)
        assert step == 1, "windows of spread cells are 1 apart"
        cell = max(0, -(-offset // self.spread))
        number = min(self.size, (offset + count - 1) // self.spread + 1) - cell
        return Cells(cell, max(0, number), 1, cell * self.spread - offset, self.spread)


@dataclass(frozen=True, slots=True)
class Cells:
    """`number` cells of the data, `step` apart from `first` on, and the places where they go, `place_step` apart from `place` on."""

    first: int
    number: int
    step: int
    place: int
    place_step: int


@dataclass(frozen=True, slots=True)
class Geometry:
    """Of `data [images, groups * channels, rows, columns]` and `filters [groups, outputs, channels, taps of rows, taps of columns]`."""

    images: int
    groups: int
    channels: int
    outputs: int
    rows: Axis
    columns: Axis

    @property
    def inner(self) -> int:
        """Products in a sum."""
        return self.channels * self.rows.taps * self.columns.taps

    @property
    def pixels(self) -> int:
        """Of one image and channel of the output."""
        return self.rows.count * self.columns.count

    @property
    def cells(self) -> int:
        """Of one image and channel of the data."""
        return self.rows.size * self.columns.size

    @property
    def inside(self) -> bool:
        """Nothing outside of the data is seen."""
        return self.rows.inside and self.columns.inside


@dataclass(frozen=True)
class Work:
    """A convolution as kernels know it: filters `[groups, outputs, channels, rows, columns]`, and what ends it."""

    geometry: Geometry
    filters: Array
    #: The constant that the filters come from, and the type of the operation, by which the order of its dimensions is told.
    source: Array
    type_name: str
    bias: bool = False
    activation: str = ""


def geometry(
    operation: Operation, data: Sequence[int], filters: Array, output: Sequence[int], sized: bool = False
) -> Union[tuple[Geometry, Array], str]:
    """The geometry, and the filters `[groups, outputs, channels, rows, columns]`; or why there is none.

    `sized`: the sizes of the output were an input of the operation.
    """
    assert isinstance(operation, (Convolution1, ConvolutionBackpropData1))
    grouped = filters if operation.lead == 3 else filters[np.newaxis]
    if isinstance(operation, ConvolutionBackpropData1):
        if not np.isfinite(filters).all():  # which zeros between the cells must not meet
            return "no kernel for filters with infinities or NaN"
        grouped = np.flip(np.swapaxes(grouped, 1, 2), tuple(range(3, grouped.ndim)))
        axes = _transposed_axes(operation, data[2:], grouped.shape[3:], output[2:], sized)
    else:
        slides = operation.slides(np.broadcast_to(np.float32(0), tuple(data)), grouped.shape[3:])
        axes = [Axis(s.size, s.kernel, s.count, s.stride, s.dilation, s.pad_begin) for s in slides]
    groups, outputs, channels = grouped.shape[:3]
    if all(axis.pointwise for axis in axes):
        size = math.prod(axis.size for axis in axes)
        axes = [Axis(size, 1, size)]  # all pixels in a row
    axes = [axis for axis in axes if not axis.trivial]
    if len(axes) > 2:
        return "no kernel for three spatial axes"
    rows, columns = [Axis(1, 1, 1)] * (2 - len(axes)) + axes
    found = Geometry(data[0], groups, channels, outputs, rows, columns)
    return found, np.ascontiguousarray(grouped.reshape(groups, outputs, channels, rows.taps, columns.taps))


def _transposed_axes(
    operation: ConvolutionBackpropData1, sizes: Sequence[int], taps: Sequence[int], counts: Sequence[int], sized: bool
) -> list[Axis]:
    axes: list[Axis] = []
    reached = [stride * (size - 1) + extent(k, d) for stride, size, k, d in zip(operation.strides, sizes, taps, operation.dilations)]
    begins, _ = operation.cut(reached, np.array(counts) if sized else None)
    for size, k, count, stride, dilation, begin in zip(sizes, taps, counts, operation.strides, operation.dilations, begins):
        axes.append(Axis(size, k, count, 1, dilation, (k - 1) * dilation - begin, stride if size > 1 else 1))
    return axes
