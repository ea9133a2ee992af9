"""The geometry of a convolution: windows that slide along two axes, over data with zeros around and
between its cells.

A transposed convolution is one of these, too: with zeros between the cells of its data, and its
filters turned around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.epilogue import PLAIN, Epilogue
from uncork.kernels.extents import (
    TYPICAL,
    certainly,
    decline_if,
    is_known,
    largest,
    nanoseconds,
    product,
    same,
    smallest,
    typical_size,
)
from uncork.kernels.kernel_plan import shares
from uncork.kernels.loops.windows import windows_of
from uncork.ops import Operation
from uncork.ops._common.spatial import extent
from uncork.ops.convolution import Convolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1
from uncork.symbolic import Size, SizeLike, plain
from uncork.types import Array

#: Runs of open images, where so few that are small need no more room than there is for one run, and
#: else.
_FEW_IMAGES, _FEW_RUNS, _RUNS = 16, 2, 16
#: What is laid out at a time, at least, and what the calls for that take in a plan: both in bytes.
_STRIP, _CALLS_OF_STRIP = 1 << 18, 4096
#: Bytes that a pixel of a row takes in a plan, as part of a block.
_OF_PIXEL = 8


def all_finite(numbers: Array) -> bool:
    """Whether no number is an infinity or NaN."""
    with np.errstate(all="ignore"):  # one pass over them: a sum with one of these is none either
        return bool(np.isfinite(numbers.sum()) or np.isfinite(numbers).all())


class WindowAxis(Struct, frozen=True):
    """The windows of a convolution along one axis: `count` windows, `stride` apart, of `taps` cells
    that are `dilation` apart, over `size` cells that lie `lhs_dilation` apart.

    The first window begins `begin` cells before the data.
    """

    size: SizeLike
    taps: int
    count: SizeLike
    stride: int = 1
    dilation: int = 1
    begin: SizeLike = 0
    lhs_dilation: int = 1
    #: Windows are as many as fit on the data: none reaches past them, however many they are.
    fitting: bool = False

    def windows_extent(self, windows: SizeLike) -> SizeLike:
        """Cells from the beginning of the first of some windows to the end of the last one."""
        return (windows - 1) * self.stride + extent(self.taps, self.dilation)

    @property
    def inside(self) -> bool:
        """Whether all windows are on the data, whose cells are neighbours."""
        if not certainly(self.begin, 0) or self.lhs_dilation != 1:
            return False
        left = plain(Size.of(self.size - self.windows_extent(self.count)))
        return left >= 0 if isinstance(left, int) else self.fitting

    @property
    def trivial(self) -> bool:
        """Whether the axis is one cell, seen once through one tap."""
        return (
            self.inside and self.taps == 1 and certainly(self.size, 1) and certainly(self.count, 1)
        )

    @property
    def pointwise(self) -> bool:
        """Whether each window sees just the cell at its own place."""
        return self.inside and self.taps == self.stride == 1 and same(self.size, self.count)

    @property
    def is_open(self) -> bool:
        """Whether only the call knows how many cells or windows there are."""
        return not (is_known(self.size) and is_known(self.count) and is_known(self.begin))

    def data_range(self, first: SizeLike, count: SizeLike, step: int = 1) -> DataRange:
        """The cells at the positions first, first + step, ..; they count from the beginning of
        the first window.
        """
        offset = first - self.begin
        if self.lhs_dilation == 1:
            position = largest(0, -(offset // step))
            length = smallest(count, -((offset - self.size) // step)) - position
            return DataRange(offset + position * step, largest(0, length), step, position, 1)
        assert step == 1, "windows of spread cells are 1 apart"
        cell = largest(0, -(-offset // self.lhs_dilation))
        length = smallest(self.size, (offset + count - 1) // self.lhs_dilation + 1) - cell
        return DataRange(
            cell, largest(0, length), 1, cell * self.lhs_dilation - offset, self.lhs_dilation
        )


class DataRange(Struct, frozen=True):
    """A range of cells of the data and their positions: `length` cells, `step` apart from `first`
    on, go to positions `position_step` apart from `position` on.
    """

    first: SizeLike
    length: SizeLike
    step: int
    position: SizeLike
    position_step: int


#: Nothing slides along such an axis.
_NONE = WindowAxis(1, 1, 1)


class Geometry(Struct, frozen=True):
    """The geometry of a convolution of `data [images, groups * channels, rows, columns]` with
    `filters [groups, outputs, channels, taps of rows, taps of columns]`. Where windows slide along
    three axes, `depth` is the first one, and rows and columns are those of a plane.
    """

    images: SizeLike
    groups: int
    channels: int
    outputs: int
    rows: WindowAxis
    columns: WindowAxis
    depth: WindowAxis = _NONE

    @property
    def axes(self) -> tuple[WindowAxis, WindowAxis, WindowAxis]:
        """The axes, in the order of the data."""
        return self.depth, self.rows, self.columns

    @property
    def plane(self) -> Geometry:
        """The geometry of one plane by itself."""
        return replace(self, depth=_NONE)

    @property
    def inner(self) -> int:
        """Products in a sum."""
        return self.channels * prod(axis.taps for axis in self.axes)

    @property
    def pixels(self) -> SizeLike:
        """Pixels of one image and channel of the output."""
        return self.depth.count * self.rows.count * self.columns.count

    @property
    def data_size(self) -> SizeLike:
        """Cells of one image and channel of the data."""
        return self.depth.size * self.rows.size * self.columns.size

    @property
    def weights(self) -> tuple[int, ...]:
        """The key of packed filters: all that they depend on."""
        return self.groups, self.outputs, self.channels, *(axis.taps for axis in self.axes)

    @property
    def is_open(self) -> bool:
        """Whether only the call knows some of the sizes."""
        return not is_known(self.images) or self.is_image_open

    @property
    def is_image_open(self) -> bool:
        """Whether only the call knows some of the sizes of one image."""
        return any(axis.is_open for axis in self.axes)

    @property
    def inside(self) -> bool:
        """Whether nothing outside of the rows and columns of the data is seen."""
        return self.rows.inside and self.columns.inside


class Work(Struct, frozen=True):
    """A convolution as kernels know it: filters `[groups, outputs, channels, rows, columns]`, and
    what ends it.
    """

    geometry: Geometry
    filters: Array
    #: The constant that the filters come from, and the type of the operation, by which the order of
    #: its dimensions is told.
    source: Array
    type_name: str
    end: Epilogue = PLAIN
    #: The input that each operand of the end is.
    others: Sequence[int] = ()


class Windows(Struct, frozen=True):
    """A convolution along any number of axes, those left out along which nothing slides; `filters
    [groups, outputs, channels, ..]`.
    """

    images: SizeLike
    axes: Sequence[WindowAxis]
    filters: Array

    @property
    def geometry(self) -> Geometry:
        """The geometry, of a convolution of at most three axes."""
        depth, rows, columns = [_NONE] * (3 - len(self.axes)) + list(self.axes)
        groups, outputs, channels = self.filters.shape[:3]
        return Geometry(self.images, groups, channels, outputs, rows, columns, depth)

    def ordered(self, g: Geometry) -> Array:
        """The filters `[groups, outputs, channels, rows, columns]`, with those of each tap along
        the first of three axes as rows of their own.
        """
        taps = g.depth.taps * g.rows.taps, g.columns.taps
        return np.ascontiguousarray(self.filters.reshape(g.groups, g.outputs, g.channels, *taps))


def geometry(
    operation: Operation,
    data: Sequence[SizeLike],
    filters: Array,
    output: Sequence[SizeLike],
) -> tuple[Geometry, Array]:
    """The geometry along at most two axes, and the filters as `ordered`. Raises KernelDeclined
    where there is none.
    """
    result = windows(operation, data, filters, output)
    decline_if(len(result.axes) > 2, "no kernel for more than 2 spatial axes")
    return result.geometry, result.ordered(result.geometry)


def geometry_of(
    operation: Operation,
    data: Sequence[SizeLike],
    filters: Sequence[int],
    output: Sequence[SizeLike],
    sized: bool,
) -> Geometry:
    """The geometry along at most three axes of a convolution by filters of a shape; `sized` as
    `windows` has it. Raises KernelDeclined where there is none.
    """
    zeros = np.broadcast_to(np.float32(0), filters)  # of which only the shape is looked at
    result = windows(operation, data, zeros, output, sized)
    decline_if(len(result.axes) > 3, "no kernel for more than 3 spatial axes")
    return result.geometry


def windows(
    operation: Operation,
    data: Sequence[SizeLike],
    filters: Array,
    output: Sequence[SizeLike],
    sized: bool = False,
) -> Windows:
    """The windows of a convolution along all of its axes. Raises KernelDeclined where no kernel can
    tell them.

    `sized`: the sizes of the output were an input of the operation.
    """
    assert isinstance(operation, (Convolution1, ConvolutionBackpropData1))
    grouped = filters if operation.lead == 3 else filters[np.newaxis]
    if isinstance(operation, ConvolutionBackpropData1):
        # zeros between the cells must not meet these
        decline_if(not all_finite(filters), "no kernel for filters with infinities or NaN")
        grouped = np.flip(np.swapaxes(grouped, 1, 2), tuple(range(3, grouped.ndim)))
        axes = _transposed_axes(operation, data[2:], grouped.shape[3:], output[2:], sized)
    else:
        axes = _axes(operation, data[2:], grouped.shape[3:], output[2:])
    if all(axis.pointwise for axis in axes):
        size = product(axis.size for axis in axes)
        axes = [WindowAxis(size, 1, size)]  # all pixels in a row
    kept = [place for place, axis in enumerate(axes) if not axis.trivial]
    taps = [axes[place].taps for place in kept]
    return Windows(
        data[0], [axes[place] for place in kept], grouped.reshape(*grouped.shape[:3], *taps)
    )


def typical(g: Geometry, number: int = TYPICAL) -> Geometry:
    """The geometry of one image with a typical number for open sizes, which serves only to compare
    costs.
    """
    depth, rows, columns = (
        replace(
            axis,
            size=typical_size(axis.size, 1, number),
            count=typical_size(axis.count, 1, number),
            begin=typical_size(axis.begin, 0, number),
        )
        if axis.is_open
        else axis
        for axis in g.axes
    )
    images = 1 if isinstance(g.images, Size) else g.images
    return replace(g, images=images, depth=depth, rows=rows, columns=columns)


def runs_of_images(g: Geometry, image: SizeLike, scratch: int) -> int:
    """The number of runs in which an open number of images of `image` bytes is laid out: the images
    of a run are to stay in a cache, but each run costs calls.
    """
    if is_known(g.images):
        return 1
    return _FEW_RUNS if isinstance(image, int) and image * _FEW_IMAGES <= scratch else _RUNS


def images_together(
    images: SizeLike, laid_out: bool
) -> tuple[Sequence[tuple[SizeLike, SizeLike]], SizeLike]:
    """The runs of images that are computed together, and the most images of one: each image by
    itself where the data are laid out, as far as their number is known.
    """
    if not laid_out:
        return [(0, images)], images
    if isinstance(images, int):
        return shares(images, images), min(images, 1)
    return shares(images, _RUNS), -(-images // _RUNS)


def cost_of(g: Geometry, cost: Callable[[Geometry], float]) -> float | Size:
    """What a convolution costs, by what one does whose sizes are known: where they are open, a
    typical one's for each pixel.
    """
    if not g.is_open:
        return cost(g)
    one = typical(g)
    pixels = max(1, known(one.images) * known(one.pixels))
    return nanoseconds(g.images * g.pixels, cost(one) / pixels)


def known(size: SizeLike) -> int:
    """A size of a geometry that is not open."""
    assert isinstance(size, int)
    return size


def _axes(
    operation: Convolution1,
    sizes: Sequence[SizeLike],
    taps: Sequence[int],
    counts: Sequence[SizeLike],
) -> list[WindowAxis]:
    fixed = not operation.auto_pad.startswith("same")
    return [
        WindowAxis(
            w.size,
            w.kernel,
            w.count,
            w.stride,
            w.dilation,
            _plain(w.begin),
            fitting=fixed and w.begin == w.end == 0,
        )
        for w in windows_of(operation, sizes, counts, taps)
    ]


def _transposed_axes(
    operation: ConvolutionBackpropData1,
    sizes: Sequence[SizeLike],
    taps: Sequence[int],
    counts: Sequence[SizeLike],
    sized: bool,
) -> list[WindowAxis]:
    axes: list[WindowAxis] = []
    for axis, (size, k, count) in enumerate(zip(sizes, taps, counts, strict=True)):
        stride, dilation = operation.strides[axis], operation.dilation(axis)
        cut: SizeLike = operation.fixed_pads(axis)[0]
        if sized:
            reached = stride * (size - 1) + extent(k, dilation) + operation.output_padding[axis]
            total = largest(0, reached - count)
            cut = total - total // 2 if operation.auto_pad == "same_upper" else total // 2
        lhs_dilation = 1 if certainly(size, 1) else stride
        axes.append(
            WindowAxis(size, k, count, 1, dilation, _plain((k - 1) * dilation - cut), lhs_dilation)
        )
    return axes


def _plain(size: SizeLike) -> SizeLike:
    """The size as an int where its expression is a constant."""
    return plain(Size.of(size))


def plan_bytes(images: SizeLike, channels: int, axes: Sequence[WindowAxis]) -> int:
    """About the bytes that a plan takes itself, by its blocks of a row's pixels and its calls for
    all slices and strips of the images: sizes are numbers of a file, however little there is to
    compute.
    """
    columns = axes[-1].count if axes else 1
    blocks = columns * _OF_PIXEL if isinstance(columns, int) else 0
    slices = prod(known(a.count) for a in axes[:-2] if is_known(a.count))
    calls = slices * prod(a.taps for a in axes[:-2])
    if is_known(images) and not any(axis.is_open for axis in axes):
        cells = prod(known(axis.windows_extent(axis.count)) for axis in axes)
        calls = max(calls, known(images) * channels * cells * 4 // _STRIP)
    return blocks + calls * _CALLS_OF_STRIP
