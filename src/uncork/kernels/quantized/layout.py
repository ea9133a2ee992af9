"""The layout of data and results of quantized layers: borders, places of rows, tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from uncork.internal_ops.quantized import Grid, QuantizedWeights, in_words
from uncork.kernels.convolution.geometry import Geometry, images_together
from uncork.kernels.extents import smallest
from uncork.kernels.kernel_plan import In, KernelCall, Operand, Out, Scratch
from uncork.kernels.quantized.epilogues import BoundEpilogue
from uncork.kernels.quantized.spec import Surround
from uncork.kernels.runtime.addresses import address_of
from uncork.symbolic import SizeLike
from uncork.types import Array


class CodesWork(Struct, frozen=True):
    """A product of codes: its geometry (of a matrix: a row of pixels), weights, grid and end.

    `codes` are the weights' `[outputs, channels, rows, columns]`.
    """

    geometry: Geometry
    codes: Array
    weights: QuantizedWeights
    grid: Grid
    end: BoundEpilogue
    #: The grids that inputs are on, where they are codes.
    held: Sequence[Grid | None]
    coded: bool

    @property
    def outputs(self) -> int:
        return self.geometry.groups * self.geometry.outputs


class Laid:
    """The data of a product as its kernels read them: as they lie, or laid out with a border."""

    def __init__(self, work: CodesWork, lanes: int, size: int) -> None:
        self.work, self.g, self.lanes = work, work.geometry, lanes
        g = self.g
        self.channels = in_words(g.groups * g.channels)
        #: Columns that are stored: codes fill their words.
        self.columns = in_words(work.outputs) if work.coded else work.outputs
        self.size = size
        self.laid = not g.inside or size > 1
        self.height = g.rows.windows_extent(g.rows.count) if self.laid else g.rows.size
        self.width = g.columns.windows_extent(g.columns.count) if self.laid else g.columns.size
        self.pixel = self.channels * size
        self.row = self.width * self.pixel
        self.image = self.height * self.row
        self.images, self.most = images_together(g.images, self.laid)
        #: What lies at addresses among the operands.
        self.keep: list[object] = []

    def kept(self, array: Array) -> int:
        """The address of an array, which is kept."""
        self.keep.append(array)
        return address_of(array)

    @property
    def laid_out(self) -> SizeLike:
        """Bytes of the data with a border, of the most images at a time."""
        return (self.most * self.image + 63) // 64 * 64 if self.laid else 0

    def lay_out(self, images: tuple[SizeLike, SizeLike]) -> Iterator[KernelCall]:
        """The data of some images with the code of zero around them."""
        if not self.laid:
            return
        g, channels = self.g, self.channels
        rows, columns = g.rows.data_range(0, self.height), g.columns.data_range(0, self.width)
        source_row = g.columns.size * channels
        zero = self.work.grid.zero
        # Where there is no border, no code need stand for 0.
        zero = np.zeros((), np.uint8) if zero is None else zero
        each = zero.size > 1 and bool((zero != zero.flat[0]).any())
        code: Operand = int(zero.flat[0])
        if each:
            code = self.kept(np.pad(zero, (0, channels - zero.size)))
        spec = Surround(self.size > 1, self.lanes, each)
        yield spec(
            source=In(
                0,
                images[0] * g.rows.size * source_row
                + rows.first * source_row
                + columns.first * channels,
            ),
            target=Scratch(0),
            images=images[1],
            source_image=g.rows.size * source_row,
            rows=self.height,
            above=smallest(rows.position, self.height),
            inside=rows.length,
            source_row=source_row,
            left=columns.position * channels,
            copied=columns.length * channels,
            right=(self.width - columns.position - columns.length) * channels,
            code=code,
            pixel=channels,
        )

    def channel_arrays(self, columns: int, flipped: bool = False) -> Array:
        """The arrays `[start, scale, shift]` of `columns` outputs; with `flipped` codes are 128
        less.
        """
        work, grid, outputs = self.work, self.work.grid, self.work.outputs
        sums = work.codes.reshape(outputs, -1).astype(np.int64).sum(1)
        start = -grid.nearest_zero * sums + (128 * sums if flipped else 0)
        scales = work.weights.scales.astype(np.float64)
        factor, addend = work.end.scaling
        arrays = np.zeros((3, columns), np.float32)
        arrays[0, :outputs] = start.astype(np.int32).view(np.float32)
        arrays[1, :outputs] = grid.step * scales * factor
        arrays[2, :outputs] = (work.end.bias + grid.rest * scales * sums) * factor + addend
        return arrays

    def row_operands(
        self,
        images: tuple[SizeLike, SizeLike],
        rows: tuple[SizeLike, SizeLike],
        column: SizeLike,
        left: SizeLike = 0,
        begin: SizeLike = 0,
    ) -> dict[str, Operand]:
        """The operands that locate some rows, from output `column` and from the pixel after the
        `left` first ones on, and the operands of the epilogue. Data are read from so many bytes
        behind the beginning of a pixel on.
        """
        g, work = self.g, self.work
        image = g.pixels * self.columns
        made = images[0] * image + (rows[0] * g.columns.count + left) * self.columns + column
        seen = rows[0] * g.rows.stride * self.row + left * g.columns.stride * self.pixel + begin
        own, kept = work.end.call_operands(work.held, column, made)
        self.keep += kept
        return {
            "source": Scratch(seen) if self.laid else In(0, images[0] * self.image + seen),
            "target": Out(0, made * (1 if work.coded else 4)),
            "numbers": self.kept(work.end.numbers),
            "images": images[1],
            "source_image": self.image,
            "target_image": image,
            "rows": rows[1],
            "source_row": g.rows.stride * self.row,
            "target_row": g.columns.count * self.columns,
            **dict(zip(work.end.spec.arguments, own, strict=True)),
        }
