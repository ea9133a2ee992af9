"""Winograd's convolutions, and those of small groups of channels, over blocks of channels as
calls.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from uncork.kernels.convolution.blocked_work import BlockedWork
from uncork.kernels.convolution.geometry import Geometry
from uncork.kernels.convolution.group_places import in_pairs
from uncork.kernels.convolution.row_tiles import around, pixels_at_a_time
from uncork.kernels.convolution.spec_blocks import (
    ENOUGH_SUMS,
    Deep,
    Depthwise,
    Winograd,
)
from uncork.kernels.convolution.tap_regions import runs_of_taps
from uncork.kernels.convolution.tiles import most_pixels, widths_of
from uncork.kernels.convolution.winograd import TAPS, Transformation
from uncork.kernels.extents import nanoseconds
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Stages,
    grid,
)
from uncork.kernels.layer import joined, shared_call, staged
from uncork.kernels.register_tiles import most_sums
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.packed_weights import arranged, packed, zeros
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import operands_for
from uncork.symbolic import SizeLike
from uncork.types import Array

#: By the side of a tile of results: the fewest rows and columns for which it is chosen, where
#: vectors have so many lanes, and the most products of channels where only the call knows these.
TILES = ((4, 24, 1 << 14), (2, 12, 1 << 62))
_LANES = 16
#: Data and products of the tiles that are computed together take about so many bytes; and so many
#: groups of tiles at least.
_SCRATCH_BYTES, _FEWEST = 1 << 20, 2
#: Vectors of pixels at a time, at most: networks have rows of 14.
_MOST_PIXELS = 14
#: Registers that groups have beside those of a tile of two blocks.
_BESIDE = 2
#: Most channels of a group that is a part of a block: of more, sums of all groups are dense.
_MOST_MEMBERS = 16


def tile_for(g: Geometry, target: Target) -> int:
    """The side of the tiles that a convolution is computed by; 0 where direct sums are as good or
    the only way. Products take longer by shorter vectors, so fewer pixels pay for transformations.
    """
    axes = (g.rows, g.columns)
    if g.groups != 1 or any(
        (a.taps, a.stride, a.dilation, a.lhs_dilation) != (TAPS, 1, 1, 1) for a in axes
    ):
        return 0
    smallest = [axis.count for axis in axes if isinstance(axis.count, int)]
    for side, least, channels in TILES:
        fits = g.channels * g.outputs <= channels or len(smallest) == len(axes)
        if fits and all(count * _LANES >= least * target.lanes for count in smallest):
            return side
    return 0


def filter_bytes(g: Geometry, side: int) -> int:
    """Bytes of transformed filters."""
    return (side + TAPS - 1) ** 2 * g.depth.taps * g.channels * g.outputs * 4


class _ApartCalls:
    """The calls of one convolution by tiles of so many pixels, for the planes of the result that
    see the same planes of data: both as (first, number).
    """

    def __init__(
        self,
        work: BlockedWork,
        side: int,
        target: Target,
        planes: tuple[SizeLike, SizeLike],
        plane_taps: tuple[int, int],
    ) -> None:
        g = work.geometry
        self.work, self.g, self.side = work, g, side
        self.planes, self.plane_taps = planes, plane_taps
        self.patch_size = (side + TAPS - 1) ** 2
        self.blocks = 1 if work.outputs % 2 else 2
        self.across, self.down = -(-g.columns.count // side), -(-g.rows.count // side)
        #: Channels that a tile sees.
        self.channels = plane_taps[1] * g.channels
        self.all_tiles = g.images * planes[1] * self.across * self.down
        widths, self.tiles = widths_of(self.all_tiles, target)
        volumes = not g.depth.trivial
        self.spec = Winograd(
            side, work.lanes, work.inner, self.blocks, widths, work.end, work.half, volumes
        )
        self.total: SizeLike = sum(self.tiles[1:], self.tiles[0])
        each = self.patch_size * (self.channels + g.outputs) * 4 * widths[0]
        strip = max(_FEWEST, _SCRATCH_BYTES // each)
        self.strip = min(strip, self.total) if isinstance(self.total, int) else strip
        how = ("winograd", side, g.weights, work.inner, work.lanes, work.kind, self.spec.pairs)
        self.packed_weights = packed(work.filters.sources, how, lambda: [self._packed()])

    def _packed(self) -> Array:
        """The transformed filters, `[position, group, plane and channel, outputs of the group]`."""
        g, wide = self.g, self.blocks * self.work.lanes
        # [outputs, channels, planes and rows, columns]
        apart = self.work.filters.values()[0].reshape(
            g.outputs, g.channels, g.depth.taps, TAPS, TAPS
        )
        filters = np.moveaxis(apart, 2, 1).reshape(g.outputs, -1, TAPS, TAPS)
        channels = filters.shape[1]
        made = zeros((self.patch_size, g.outputs // wide, channels, wide))
        transformed = Transformation(self.side, wide, channels)
        for index in range(g.outputs // wide):  # some at a time: they fit in the cache
            made[:, index] = transformed(filters[index * wide : (index + 1) * wide])
        return in_pairs(made) if self.spec.pairs else made

    @property
    def scratch(self) -> int:
        """Bytes of working memory of a thread."""
        work, tiles = self.work, self.strip * self.spec.widths[0]
        numbers = tiles * (self.channels + self.g.outputs) + max(work.lanes, work.inner)
        return self.patch_size * (numbers * 4 + 2 * 64)

    def compute(
        self,
        groups: tuple[SizeLike, SizeLike],
        outputs: tuple[SizeLike, SizeLike],
        share: int,
    ) -> KernelCall:
        """The call by which thread `share` computes some groups of tiles for some outputs."""
        g, work = self.g, self.work
        pixel, result = work.inner * work.size, work.lanes * work.size
        of_channel = self.blocks * work.lanes * self.spec.inside
        of_set = g.depth.taps * g.channels * of_channel
        channel = outputs[0] * (self.blocks * work.lanes * 4)
        plane, of_plane = g.plane.data_size * pixel, g.plane.pixels * result
        made = outputs[0] * (self.blocks * g.pixels * result) + self.planes[0] * of_plane
        tap = self.plane_taps[0]
        seen = self.planes[0] * g.depth.stride + tap * g.depth.dilation - g.depth.begin
        filters = outputs[0] * of_set + tap * g.channels * of_channel
        operands: dict[str, Operand] = {
            "source": In(0),
            "target": Out(0, made),
            "filters": filters + address_of(self.packed_weights.arrays[0]),
            "scratch": Scratch(share * self.scratch),
            "across": self.across,
            "down": self.down,
            "height": g.rows.size,
            "width": g.columns.size,
            "result_height": g.rows.count,
            "result_width": g.columns.count,
            "top": g.rows.begin,
            "left": g.columns.begin,
            "source_image": work.channels * g.data_size * pixel,
            "source_block": g.data_size * pixel,
            "source_row": g.columns.size * pixel,
            "target_image": work.result_image,
            "target_block": g.pixels * result,
            "target_row": g.columns.count * result,
            "channels": work.channels,
            "groups": outputs[1],
            "planes": self.planes[1],
            "source_plane": plane,
            "target_plane": of_plane,
            "plane_taps": self.plane_taps[1],
            "all_taps": g.depth.taps,
            "depth": g.depth.size,
            "front": seen,
            "plane_stride": g.depth.stride,
            "plane_dilation": g.depth.dilation,
            **{f"tiles_{kind}": count for kind, count in enumerate(self.tiles)},
            "first": groups[0],
            "end": groups[0] + groups[1],
            "strip": self.strip,
            "strip_tiles": self.strip * self.spec.widths[0],
            "all_tiles": self.all_tiles,
            "all_groups": work.outputs // self.blocks,
        }
        operands |= operands_for(self.spec.end, work.others, channel, made)
        return self.spec(**operands)

    def stages(self, threads: int) -> Stages:
        # Of sets of outputs each part transforms the data for itself.
        axes = [(self.total, 1), (self.work.outputs // self.blocks, 1)]
        parts = grid(axes, threads)
        return Stages(
            [[self.compute(tiles, sets, share) for share, (tiles, sets) in enumerate(parts)]],
            len(parts) * self.scratch,
        )


def winograd_over_blocks(work: BlockedWork, side: int, target: Target) -> KernelPlan:
    """The calls of a convolution by Winograd's tiles."""
    g = work.geometry
    whole = [((0, g.depth.count), (0, g.depth.taps))]
    runs = whole if g.depth.is_open else runs_of_taps(g.depth)
    makers = [_ApartCalls(work, side, target, *run) for run in runs]
    cost = nanoseconds(g.images * g.pixels, work.cost * (side + TAPS - 1) ** 2 / (side * TAPS) ** 2)

    def stages(threads: int) -> Stages:
        return joined([maker.stages(threads) for maker in makers])

    return staged(stages, cost, [makers[0].packed_weights, *work.numbers])


def groups_fit(g: Geometry, inner: int, lanes: int) -> bool:
    """Whether small groups lie side by side in blocks, which have the same size in the data and in
    the result.
    """
    small = g.channels == g.outputs and g.channels <= _MOST_MEMBERS
    fit = inner == lanes and small and lanes % g.channels == 0
    return g.groups > 1 and fit


def are_blocks(g: Geometry, lanes: int) -> bool:
    """Whether each group is a block: its channels of bf16 are multiplied in pairs, as those of a
    convolution without groups.
    """
    return g.channels == lanes


def _most_vectors(g: Geometry, block_vectors: int, target: Target) -> int:
    """The most vectors of pixels at a time, or as many vectors as a long block has: as many as
    registers hold the sums of. Filters that they do not hold beside these are factors in memory.

    Groups of several channels want the filters of a row of taps in registers, and where windows
    share few columns the data that they see, too; but not so few sums that these wait for each
    other.
    """
    registers = target.vector_registers // block_vectors
    most, taps = _MOST_PIXELS // block_vectors, g.columns.taps
    if g.channels == 1:
        return max(1, min(most_sums(registers), most))
    held = min(registers - 1 - taps, most)
    if g.columns.stride > 1:
        room = (2 * most_pixels(target) + _BESIDE) // block_vectors
        held = (room - (taps - 1) * g.columns.dilation) // (1 + g.columns.stride)
    return max(1, ENOUGH_SUMS // block_vectors, held)


def depthwise_over_blocks(work: BlockedWork, target: Target) -> KernelPlan:
    """The calls of a convolution of each channel, or of small groups of channels, by itself."""
    g = work.geometry
    # Neighbouring pixels of short blocks are neighbours in memory, where windows are, too.
    vector_members = max(1, target.lanes // work.lanes) if g.columns.stride == 1 else 1
    block_vectors = max(1, work.lanes // target.lanes)
    width = pixels_at_a_time(
        g.columns.count,
        _most_vectors(g, block_vectors, target),
        ENOUGH_SUMS // block_vectors,
        vector_members,
    )
    strides, dilations = (g.rows.stride, g.columns.stride), (g.rows.dilation, g.columns.dilation)
    spec = Depthwise(
        work.lanes,
        g.rows.taps,
        g.columns.taps,
        strides,
        dilations,
        width,
        None,
        work.end,
        g.channels,
        vector_members,
        work.half,
        None if g.depth.trivial else Deep(g.depth.taps, g.depth.stride, g.depth.dilation),
    )
    spec = replace(spec, around=around(spec, g.columns, spec.pixels))

    def made() -> list[Array]:
        apart = work.filters.values().reshape(
            work.channels, work.lanes, g.channels, spec.lines, g.columns.taps
        )
        return [arranged(np.tile(apart.transpose(0, 3, 4, 2, 1), vector_members))]

    how = ("depthwise", g.weights, work.lanes, vector_members, work.kind)
    packed_weights = packed(work.filters.sources, how, made)
    planes, height = g.images * work.channels * g.depth.count, g.rows.count

    def part(first: SizeLike, some: SizeLike, first_row: SizeLike, lines: SizeLike) -> KernelCall:
        return spec(
            source=In(0),
            target=Out(0),
            filters=address_of(packed_weights.arrays[0]),
            channels=work.channels,
            first=first,
            end=first + some,
            first_row=first_row,
            end_row=first_row + lines,
            height=g.rows.size,
            width=g.columns.size,
            result_height=g.rows.count,
            result_width=g.columns.count,
            top=g.rows.begin,
            left=g.columns.begin,
            depth=g.depth.size,
            result_depth=g.depth.count,
            front=g.depth.begin,
            **operands_for(spec.end, work.others, 0, 0),
        )

    cost = nanoseconds(g.images * g.pixels, work.cost * 4)
    keep = [packed_weights, *work.numbers]
    return shared_call(part, [(planes, 1), (height, 1)], cost, keep)
