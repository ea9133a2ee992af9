"""Selection of a deformable convolution's kernels: images with their channels last, the cells of
all windows read into rows of columns, and the product of these rows with the filters.

Rows of the output are computed strip by strip, so that the columns of a strip stay in a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from msgspec import Struct

from uncork.kernels.convolution.deformed_columns import Columns
from uncork.kernels.extents import decline_if, is_empty, largest, nanoseconds, product
from uncork.kernels.gemm.address_table import RowTables, row_tables
from uncork.kernels.gemm.indirect import RowProducts, panels
from uncork.kernels.gemm.spec_indirect import IndirectGemm, indirect_gemm
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Scratch,
    Selection,
    Stages,
    shares,
)
from uncork.kernels.layer import Layer, staged
from uncork.kernels.loops.nest_call import row_bytes
from uncork.kernels.loops.windows import Window, windows_of
from uncork.kernels.movement.nd_copy import Loop
from uncork.kernels.movement.shared_moves import shared_moves
from uncork.kernels.movement.transpose import arranged
from uncork.kernels.runtime.packed_weights import packed
from uncork.ops.deformable_convolution import DeformableConvolution1
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType

#: Bytes of the columns that are made at a time, by one thread and by several.
_STRIP_BYTES, _SHARED_STRIP_BYTES = 1 << 19, 1 << 22
#: More strips of all images would be a plan too long; those of one image.
_MOST_STRIPS, _STRIPS_OF_IMAGE = 256, 128
#: Cells along an axis, padding included: places of f32 are to be exact.
_MOST_CELLS = 1 << 22
#: Cells of an image that 32 bits count, the bytes of each included.
_LARGEST = 1 << 28


def select_deformable(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(DeformableConvolution1), layer.inputs, layer.target
    layer.require(0, ElementType.f32)
    filters = layer.constant(2, "no kernel for filters that are")
    shape, result = layer.shape(0), layer.result()
    decline_if(is_empty((*shape, *result, *filters.shape)), "no kernel for empty tensors")
    known = [size for size in (*shape[1:], *result[1:]) if isinstance(size, int)]
    decline_if(len(known) < 6, "no kernel for images whose size is known at the call only")
    channels, *sizes = known[:3]
    windows = windows_of(operation, sizes, known[4:], filters.shape[2:])
    decline_if(
        sizes[0] * sizes[1] >= _LARGEST or any(_reach(window) > _MOST_CELLS for window in windows),
        "no kernel for so large an image",
    )
    columns = Columns(
        windows,
        shape[0],
        channels,
        operation.group,
        operation.deformable_group,
        len(inputs) > 3,
        bool(operation.bilinear_interpolation_pad),
        target,
    )
    return _Deformable(columns, filters).plan()


def _reach(window: Window) -> int:
    """Cells along an axis that windows may begin or end at, in or before the data."""
    sizes = (window.size, window.begin, window.windows_extent)
    return sum(size for size in sizes if isinstance(size, int))


@dataclass
class _Deformable:
    """The calls of a deformable convolution with filters `[O, C / group, kH, kW]`."""

    columns: Columns
    filters: Array
    spec: IndirectGemm = field(init=False)
    products: RowProducts = field(init=False)
    keep: list[object] = field(init=False)
    _found: dict[tuple[SizeLike, int], RowTables] = field(default_factory=dict)

    def __post_init__(self) -> None:
        c, outputs = self.columns, len(self.filters)
        self.outputs, self.pixels = outputs // c.groups, c.height * c.width
        self.inner = c.channels // c.groups * c.taps
        self.spec = indirect_gemm(self.outputs, c.target.lanes, self.pixels == 1)
        how = "deformable", c.groups, self.filters.shape, self.spec
        packed_weights = packed([self.filters], how, lambda: [panels(self.spec, self._ordered())])
        self.keep = [packed_weights]
        self.products = RowProducts(
            self.spec,
            packed_weights,
            c.groups,
            self.inner,
            self.outputs,
            column=self.pixels * 4,
            source_batch=self.inner * 4,
            target_batch=self.outputs * self.pixels * 4,
        )

    def _ordered(self) -> Array:
        """The filters as `[groups, outputs, inner]`, in the order in which columns lie."""
        parted = self.filters.reshape(self.columns.groups, self.outputs, -1, self.columns.taps)
        return np.ascontiguousarray(parted.transpose(0, 1, 3, 2)).reshape(
            self.columns.groups, self.outputs, self.inner
        )

    def plan(self) -> KernelPlan:
        c = self.columns
        products = product((c.images, self.pixels, c.channels, c.taps))
        cost = nanoseconds(products, self.outputs / 60 + 0.2)
        return staged(self.split, cost, self.keep, self.spec.name)

    def split(self, threads: int) -> Stages:
        """The work of so many threads: of some images at a time, and of some rows of these."""
        c = self.columns
        # A strip is of all images together where only the call knows how many there are.
        shared = threads > 1 and isinstance(c.images, int)
        most = _SHARED_STRIP_BYTES if shared else _STRIP_BYTES
        image = c.bytes_of(1, c.height)
        strips = shares(c.height, min(_STRIPS_OF_IMAGE, -(-image // most)))
        runs: Sequence[tuple[SizeLike, SizeLike]] = [(0, c.images)]
        if isinstance(c.images, int):
            parts = min(_MOST_STRIPS // len(strips), -(-c.images * image // most))
            runs = shares(c.images, parts)
        images = reduce(largest, (some for _, some in runs))
        rows = max(some for _, some in strips)
        # What lies where in the memory of the step.
        laid_out = row_bytes(c.image_cells(images) * c.channels, "f32")
        tables = laid_out + row_bytes(c.cells_of(images, rows), "f32")
        own = tables + threads * c.room
        moved = own
        if not isinstance(c.images, int):
            moved = own + 2 * (images * (rows * c.width * 8))
        places = _Places(laid_out, tables, own, moved)
        stages: list[Sequence[KernelCall]] = []
        for first, some in runs:
            stages += shared_moves([self._turned(first, some)], threads)
            stages.append([c.cleared(some)])
            for strip in strips:
                stages.append(c.read((first, some), strip, places.columns, places.rooms, threads))
                stages += self._multiplied((first, some), strip, places, threads)
        return Stages(stages, moved + self.products.scratch(images * (rows * c.width), threads))

    def _turned(self, first: SizeLike, images: SizeLike) -> KernelCall:
        """The call that lays images out with their channels last, each before a row of zeros."""
        c = self.columns
        image = c.cells * c.channels * 4
        laid_out = (c.cells + 1) * c.channels * 4
        loops = [Loop(images, image, laid_out)]
        rows, across = (c.channels, c.cells * 4), (c.cells, c.channels * 4)
        return arranged(c.target.lanes, In(0, first * image), Scratch(0), loops, rows, across)

    def _multiplied(
        self,
        images: tuple[SizeLike, SizeLike],
        strip: tuple[int, int],
        places: _Places,
        threads: int,
    ) -> Iterator[list[KernelCall]]:
        """The stages that multiply the columns of some rows of some images with the filters."""
        c, (first, count), (row, rows) = self.columns, images, strip
        tables, pixels = self._tables(count, rows, places), count * (rows * c.width)
        if tables.calls:
            yield [*tables.calls]
        result = first * (len(self.filters) * self.pixels * 4) + row * c.width * 4
        memory, source = places.addresses, Scratch(places.columns)
        yield self.products.calls(source, result, tables, (pixels, pixels), memory, threads)

    def _tables(self, images: SizeLike, rows: int, places: _Places) -> RowTables:
        """Bytes to each row of columns and to each pixel of the output, of so many images and
        rows.
        """
        if (images, rows) not in self._found:
            row, pixels = self.columns.groups * self.inner * 4, rows * self.columns.width
            image = len(self.filters) * self.pixels * 4
            found = row_tables([(images, pixels * row, image), (pixels, row, 4)], places.own)
            self._found[images, rows] = found
            self.keep += found.keep
        return self._found[images, rows]


class _Places(Struct, frozen=True):
    """Where columns, the tables of threads, tables of pixels and addresses of rows lie in the
    memory of the step.
    """

    columns: SizeLike
    rooms: SizeLike
    own: SizeLike
    addresses: SizeLike
