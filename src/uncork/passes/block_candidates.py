"""Layers that could be done over blocks of channels, and what that would save: costs are rough, and
in one unit for all.

In bf16 a convolution of few channels, as the first of a network mostly is, reads these as the only
block of its data, which is short, beside zeros where they are an odd number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod

from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.blocks import ChannelLayout
from uncork.internal_ops.fused import product_of
from uncork.internal_ops.stored_filters import StoredConstant, StoredFilters
from uncork.ir.model import Model, Node, Source
from uncork.kernels.convolution.blocks_apart import (
    are_blocks,
    filter_bytes,
    groups_fit,
    tile_for,
)
from uncork.kernels.convolution.geometry import Geometry, all_finite, geometry_of, known, typical
from uncork.kernels.convolution.group_places import lie_in_blocks
from uncork.kernels.convolution.layout import direct
from uncork.kernels.convolution.phases import are_spread, have_phases
from uncork.kernels.convolution.select import given_sizes
from uncork.kernels.convolution.spec_blocks import multiplies_transformed
from uncork.kernels.convolution.tap_regions import regions_of
from uncork.kernels.convolution.tiles import block_of_few, is_few
from uncork.kernels.extents import PICTURE, KernelDeclined, extents, has_extents, is_empty
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import epilogue_of, read_by_element
from uncork.kernels.stored_types import multiplies_pairs
from uncork.ops import Operation
from uncork.ops.convolution import Convolution1
from uncork.passes.between_blocks import Between, between
from uncork.passes.blocked_layers import CONVOLUTIONS
from uncork.types import ElementType, TensorSpec

#: Transformed filters of a model take at most so many bytes; what comes after that is summed
#: directly.
_MOST_FILTERS = 1 << 29
#: Products in a nanosecond per lane: of dense convolutions, of those of each channel for itself,
#: and of those of small groups.
_DENSE, _APART, _GROUPED = 6.0, 1.0, 3.0
#: Numbers that change their layout in a nanosecond.
TURNED = 5.0
#: The part of its time that a convolution saves over blocks: by Winograd's tiles, of groups of
#: channels, of those whose windows are strided and overlap, of all others.
_BY_TILES, _BY_CHANNEL, _STRIDED, _ELSE = {4: 0.6, 2: 0.4}, 0.6, 0.4, 0.06
#: That of those of one tap, whose data and results are at most so many bytes; else planes lie in
#: pages of their own, and more than the first or the second cache keeps. And that over planes that
#: lie so many bytes apart that they meet in the same sets of a cache.
_ONE_TAP, _LARGEST, _MEETING = {1 << 17: 0.05, 1 << 20: 0.27}, 0.42, 0.45
#: The part that one of three axes saves: else planes are gathered and scattered. And that of
#: windows that leave the data above and below alone: else rows are laid out with zeros.
_VOLUMES, _BY_ROWS = 0.5, 0.3
_PAGE = 1 << 12
#: The part of its time that a convolution saves in bf16.
_HALVED = 0.5
#: Bytes that are read from memory in a nanosecond.
_READ = 10.0
_SINGLE = ElementType.f32
#: The input of a transposed convolution that may give the sizes of its result.
_SIZES = 2


class Candidate(Struct, frozen=True):
    """A layer that could be done over blocks: which inputs would lie in them, and what that would
    save.
    """

    node: Node
    #: The layout of each input that would lie in blocks, and those of the results.
    given: tuple[ChannelLayout | None, ...]
    made: tuple[ChannelLayout, ...]
    side: int
    saved: float
    #: How it is done where it is no convolution.
    other: Between | None = None
    #: What bf16 saves of it; None where it may not be rounded, or has no kernel for that.
    halved: float | None = None
    #: Its data have few channels, in their only block, which pays in bf16.
    few: bool = False

    @property
    def lies(self) -> tuple[bool, ...]:
        """Which inputs would lie in blocks."""
        return tuple(layout is not None for layout in self.given)

    @property
    def sources(self) -> list[Source]:
        """The inputs that would lie in blocks."""
        return [source for source, lies in zip(self.node.inputs, self.lies, strict=True) if lies]

    @property
    def layouts(self) -> list[tuple[Source, ChannelLayout]]:
        """What would lie in blocks, and how."""
        given = zip(self.node.inputs, self.given, strict=True)
        results = (Source(self.node.id, n) for n in range(len(self.node.outputs)))
        return [
            *((source, layout) for source, layout in given if layout is not None),
            *zip(results, self.made, strict=True),
        ]

    @property
    def tensors(self) -> set[Source]:
        """What would lie in blocks: these inputs, and all results."""
        return {source for source, _ in self.layouts}


def candidates_of(
    model: Model, layouts: Mapping[Source, ChannelLayout], target: Target
) -> dict[int, Candidate]:
    """All layers that could be done over blocks."""
    candidates: dict[int, Candidate] = {}
    filters = 0
    for node in model.nodes:
        found = candidate_of(model, node, layouts, target, _MOST_FILTERS - filters)
        if found is not None:
            candidates[node.id], bytes_of_filters = found
            filters += bytes_of_filters
    if candidates:
        for node in model.nodes:
            other = None if node.id in candidates else between(model, node, layouts)
            if other is not None:
                candidates[node.id] = candidate_between(node, other)
    return candidates


def candidate_between(node: Node, other: Between) -> Candidate:
    """The candidate that another layer than a convolution is."""
    return Candidate(node, other.given, other.made, 0, other.saved, other)


def candidate_of(
    model: Model, node: Node, layouts: Mapping[Source, ChannelLayout], target: Target, room: int
) -> tuple[Candidate, int] | None:
    """The candidate that a convolution is, with the bytes of its transformed filters, for which
    there is `room` left.
    """
    operation = node.checked_operation
    product = product_of(operation)
    specs = [model.spec(source) for source in node.inputs]
    if not isinstance(product, CONVOLUTIONS):
        return None
    sized = given_sizes(operation, specs)
    read = [spec for number, spec in enumerate(specs) if not (sized and number == _SIZES)]
    if not _is_plain(read, node.outputs[0].spec):
        return None
    filters, stored = specs[1].value, stored_filters_of(model, node)
    if filters is None and stored is None:
        return None
    g = _geometry(product, specs, node.outputs[0].spec, sized)
    if g is None or is_few(g.plane) or not (filters is None or all_finite(filters)):
        return None
    data, made = layouts.get(node.inputs[0]), layouts.get(Source(node.id, 0))
    few = False
    ordered = isinstance(product, Convolution1)
    if not data and ordered and node.hints.precision == "bf16" and multiplies_pairs(target):
        data = _layout_of_few(g, specs)
        few = data is not None
    if not data or not made:
        return None
    inner, block = data.block, made.block
    as_given = g
    if not data.is_full or not made.is_full:
        g = _with_zeros(g, data, made)
    apart = groups_fit(g, inner, block)
    if are_spread(g.axes) and (apart or not have_phases(g.axes)):
        return None
    if g.groups > 1 and not apart and not lie_in_blocks(g, inner, block):
        return None
    try:
        epilogue, others = epilogue_of(operation, specs, node.outputs[0].spec, 1)
    except KernelDeclined:
        return None
    like = read_by_element(epilogue, others)
    if any(specs[position].value is not None for position in like):
        return None
    most = 0 if few or node.hints.direct_sums else _side(g, room, target)
    saved, side = max((_saved(g, side, block, target), side) for side in {0, most})
    added = _products(g) - _products(as_given)
    saved -= added / (_rate(g) * target.lanes)
    given = tuple(
        data if position == 0 else made if position in like else None
        for position in range(len(specs))
    )
    if stored is not None and not side and not apart:
        saved += _unread(stored)
    halved = None
    if node.hints.precision == "bf16" and (apart or gcd(g.channels, inner) % 2 == 0):
        multiplied = not side_of(side, True, target) or multiplies_transformed(True, side)
        in_f32 = apart and not are_blocks(g, block)
        halved = 0.0 if in_f32 or not multiplied else _HALVED
        halved *= _products(g) / (_DENSE * target.lanes)
    found = Candidate(node, given, (made,), side, saved, halved=halved, few=few)
    return found, filter_bytes(g, side) if side else 0


def _layout_of_few(g: Geometry, specs: Sequence[TensorSpec]) -> ChannelLayout | None:
    """The layout of data that have few channels, None where they cannot lie in one block."""
    plain = g.groups == 1 and specs[0].value is None and specs[1].value is not None
    block = block_of_few(g.channels) if plain else 0
    return ChannelLayout(block, (g.channels,)) if block else None


def _with_zeros(g: Geometry, data: ChannelLayout, made: ChannelLayout) -> Geometry:
    """The geometry with channels and outputs of zeros."""
    if g.groups > 1:
        return replace(g, groups=made.channels)
    return replace(g, channels=data.channels, outputs=made.channels)


def stored_filters_of(model: Model, node: Node) -> StoredFilters | None:
    """The filters of a convolution as they are stored; None where they are plain numbers."""
    constant = model.by_id[node.inputs[1].node].operation
    return constant.filters if isinstance(constant, StoredConstant) else None


def _is_plain(specs: Sequence[TensorSpec], result: TensorSpec) -> bool:
    """Whether all is f32, of known or open sizes."""
    known_types = all(
        spec.element_type is ElementType.f32 and has_extents(spec) for spec in (*specs, result)
    )
    return (
        known_types
        and specs[1].shape.is_static
        and not is_empty(extents(result))
        and not is_empty(extents(specs[0]))
    )


def _geometry(
    product: Operation, specs: Sequence[TensorSpec], result: TensorSpec, sized: bool
) -> Geometry | None:
    data, made = extents(specs[0]), extents(result)
    try:
        return geometry_of(product, data, specs[1].shape.static, made, sized)
    except KernelDeclined:
        return None


def _side(g: Geometry, room: int, target: Target) -> int:
    side = tile_for(g, target)
    while side and filter_bytes(g, side) > room:
        side = side - 2
    return side


def side_of(side: int, half: bool, target: Target) -> int:
    """The side of the tiles of a convolution that has such ones in f32: AMX multiplies pairs of
    bf16 so fast that all products are made.
    """
    return 0 if half and target.tiles else side


def _saved(g: Geometry, side: int, block: int, target: Target) -> float:
    """The time that blocks save, without changes of layout; negative where blocks are much shorter
    than vectors.
    """
    one, products = typical(g, PICTURE), _products(g)
    if g.groups > 1:
        moved = 0.0 if g.depth.trivial else _gathered(one) / TURNED
        part = 1 - (1 - _BY_CHANNEL) * target.lanes / block
        return products / (_rate(g) * target.lanes) * part + moved
    regions = regions_of(g)
    whole = known(one.plane.pixels) * g.rows.taps * g.columns.taps
    least = (
        _VOLUMES
        if not g.depth.trivial
        else _BY_ROWS
        if g.columns.inside and not g.rows.inside
        else _STRIDED
        if any(axis.stride > 1 and axis.taps > axis.stride for axis in (g.rows, g.columns))
        else _of_one_tap(g, one)
        if g.rows.taps == g.columns.taps == 1
        else _ELSE
    )
    part = least if regions is None else 1 - sum(region.products for region in regions) / whole
    spent = (1 - _BY_TILES.get(side, part)) * (
        target.lanes / block if side or g.outputs == block else 1
    )
    return products / (_DENSE * target.lanes) * (1 - spent)


def _of_one_tap(g: Geometry, one: Geometry) -> float:
    """The part that a convolution of single pixels saves; `one` has typical sizes."""
    if direct(g) and isinstance(g.data_size, int) and g.data_size * 4 % _PAGE == 0:
        return _MEETING
    numbers = g.channels * known(one.data_size) + g.outputs * known(one.pixels)
    size = numbers * _SINGLE.dtype.itemsize
    return next((part for most, part in _ONE_TAP.items() if size <= most), _LARGEST)


def _rate(g: Geometry) -> float:
    """Products in a nanosecond and lane, where channels are not in blocks."""
    return _DENSE if g.groups == 1 else _APART if g.channels == 1 else _GROUPED


def _unread(filters: StoredFilters) -> float:
    """The time that codes save which are read in place of filters of f32."""
    code = filters.matrix.codes.itemsize
    return prod(filters.shape) * (_SINGLE.dtype.itemsize - code) / _READ


def _gathered(g: Geometry) -> float:
    """The numbers that are gathered before a convolution of three axes that is done plane by plane,
    and scattered behind it.
    """
    seen = known(g.plane.data_size) * g.channels * g.depth.taps * known(g.depth.count)
    return known(g.images) * g.groups * (seen + g.outputs * known(g.pixels))


def _products(g: Geometry) -> float:
    """The products of a convolution, but for those of zeros between cells, with typical numbers for
    open sizes.
    """
    one = typical(g, PICTURE)
    zeros = prod(axis.lhs_dilation for axis in g.axes)
    return known(one.images) * known(one.pixels) * g.groups * g.outputs * g.inner / zeros
