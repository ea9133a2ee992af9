"""Convolutions over blocks of channels: data stay in blocks from layer to layer, and are brought
into them at the borders only.

In bf16 a convolution of few channels, as the first of a network mostly is, reads these as the only
block of its data, which is short, beside zeros where they are an odd number.

A convolution is moved to blocks where that brings more than the changes of layout that it takes;
costs are rough, and in one unit for all. Layers between convolutions go with them, where that
spares changes of layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.blocks import (
    BlockedConvolution,
    BlockedPooling,
    FromBlocks,
    ToBlocks,
    blocked_shape,
    to_blocks,
)
from uncork.internal_ops.fused import product_of
from uncork.internal_ops.held import HALF
from uncork.internal_ops.stored_filters import StoredConstant, StoredFilters
from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node, Source
from uncork.kernels.convolution.blocks_apart import filter_bytes, groups_fit, tile_for
from uncork.kernels.convolution.geometry import Geometry, all_finite, geometry_of, known, typical
from uncork.kernels.convolution.group_places import lie_in_blocks
from uncork.kernels.convolution.layout import direct
from uncork.kernels.convolution.phases import are_spread, have_phases
from uncork.kernels.convolution.select import given_sizes
from uncork.kernels.convolution.spec_blocks import multiplies_transformed
from uncork.kernels.convolution.tap_regions import regions_of
from uncork.kernels.convolution.tiles import block_of, block_of_few, is_few
from uncork.kernels.epilogue import ELEMENT
from uncork.kernels.extents import (
    PICTURE,
    KernelDeclined,
    extents,
    has_extents,
    is_empty,
    pixels_of_picture,
)
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import epilogue_of
from uncork.kernels.stored_types import multiplies_pairs
from uncork.ops import Operation
from uncork.ops.convert import Convert1
from uncork.ops.convolution import Convolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1
from uncork.passes.between_blocks import MOVES, Between, between
from uncork.passes.rewrite import NewLayers, readers
from uncork.storage import encode
from uncork.types import ElementType, TensorSpec

#: Transformed filters of a model take at most so many bytes; what comes after that is summed
#: directly.
_MOST_FILTERS = 1 << 29
#: Products in a nanosecond per lane: of dense convolutions, of those of each channel for itself,
#: and of those of small groups.
_DENSE, _APART, _GROUPED = 6.0, 1.0, 3.0
#: Numbers that change their layout in a nanosecond.
_TURNED = 5.0
#: The part of its time that a convolution saves over blocks: by Winograd's tiles, of groups of
#: channels, of those whose windows are strided and overlap, of all others, and of those over planes
#: that lie so many bytes apart that they meet in the same sets of a cache.
_BY_TILES, _BY_CHANNEL, _STRIDED = {4: 0.6, 2: 0.4}, 0.6, 0.4
_ELSE, _MEETING = 0.06, 0.25
#: The part that one of three axes saves: else planes are gathered and scattered. And that of
#: windows that leave the data above and below alone: else rows are laid out with zeros.
_VOLUMES, _BY_ROWS = 0.5, 0.3
_PAGE = 1 << 12
#: The part of its time that a convolution saves in bf16, and numbers that are converted in a
#: nanosecond.
_HALVED, _CONVERTED = 0.5, 20.0
#: Bytes that are read from memory in a nanosecond.
_READ = 10.0
_SINGLE = ElementType.f32
_ROUNDS = 4
_CONVOLUTIONS = Convolution1, ConvolutionBackpropData1
#: The input of a transposed convolution that may give the sizes of its result.
_SIZES = 2


class _Candidate(Struct, frozen=True):
    """A layer that could be done over blocks: which inputs would lie in them, and what that would
    save.
    """

    node: Node
    lies: tuple[bool, ...]
    block: int
    side: int
    saved: float
    #: How it is done where it is no convolution.
    other: Between | None = None
    #: What bf16 saves of it; None where it may not be rounded, or has no kernel for that.
    halved: float | None = None
    #: Its blocks, and those of what it reads, are `deep`.
    deep: bool = False
    #: The channels of the only block of its data where these are few, which pays in bf16; else 0.
    few: int = 0

    @property
    def sources(self) -> list[Source]:
        """The inputs that would lie in blocks."""
        return [source for source, lies in zip(self.node.inputs, self.lies, strict=True) if lies]

    @property
    def tensors(self) -> set[Source]:
        """What would lie in blocks: these inputs, and all results."""
        return {*self.sources, *(Source(self.node.id, n) for n in range(len(self.node.outputs)))}


def block_channels(model: Model, target: Target) -> Model:
    """The model with convolutions over blocks where that pays."""
    candidates = _candidates(model, target)
    chosen, halves = _choice(model, candidates, target)
    alone = {n for n, candidate in chosen.items() if candidate.few and n not in halves}
    if alone:
        candidates = {n: candidate for n, candidate in candidates.items() if n not in alone}
        chosen, halves = _choice(model, candidates, target)
    if target.tiles:
        chosen = _deepened(model, chosen, halves, target)
    return _rewritten(model, chosen, halves, target) if chosen else model


def _candidates(model: Model, target: Target) -> dict[int, _Candidate]:
    """All layers that could be done over blocks."""
    candidates: dict[int, _Candidate] = {}
    filters = 0
    for node in model.nodes:
        found = _candidate(model, node, target, _MOST_FILTERS - filters)
        if found is not None:
            candidates[node.id], bytes_of_filters = found
            filters += bytes_of_filters
    if candidates:
        for node in model.nodes:
            other = None if node.id in candidates else between(model, node, target)
            if other is not None:
                candidates[node.id] = _Candidate(
                    node, other.lies, other.block, 0, other.saved, other
                )
    return candidates


def _choice(
    model: Model, candidates: Mapping[int, _Candidate], target: Target
) -> tuple[dict[int, _Candidate], set[int]]:
    """Those of some candidates that pay, and which of them are in bf16."""
    chosen = _profitable(model, candidates) if candidates else {}
    return chosen, _halves(model, chosen) if multiplies_pairs(target) else set()


def _candidate(
    model: Model, node: Node, target: Target, room: int, *, deep: bool = False
) -> tuple[_Candidate, int] | None:
    """The candidate that a convolution is, over blocks that may be `deep`, with the bytes of its
    transformed filters, for which there is `room` left.
    """
    operation = node.checked_operation
    product = product_of(operation)
    specs = [model.spec(source) for source in node.inputs]
    if not isinstance(product, _CONVOLUTIONS):
        return None
    sized = given_sizes(operation, specs)
    read = [spec for number, spec in enumerate(specs) if not (sized and number == _SIZES)]
    if not _is_plain(read, node.outputs[0].spec):
        return None
    filters, stored = specs[1].value, _stored(model, node)
    if filters is None and stored is None:
        return None
    g = _geometry(product, specs, node.outputs[0].spec, sized)
    if g is None or is_few(g.plane) or not (filters is None or all_finite(filters)):
        return None
    inner, block = (
        block_of(g.groups * each, target, deep=deep) for each in (g.channels, g.outputs)
    )
    few = 0
    ordered = isinstance(product, Convolution1)
    if not inner and ordered and node.hints.precision == "bf16" and multiplies_pairs(target):
        few = inner = _block_of_few(g, specs)
    if not inner or not block:
        return None
    added = (few - g.channels) / g.channels * _products(g) if few else 0.0
    if few:
        g = replace(g, channels=few)
    apart = groups_fit(g, inner, block)
    if are_spread(g.axes) and (apart or not have_phases(g.axes)):
        return None
    if g.groups > 1 and not apart and not lie_in_blocks(g, inner, block):
        return None
    try:
        epilogue, others = epilogue_of(operation, specs, node.outputs[0].spec, 1)
    except KernelDeclined:
        return None
    like = {
        position
        for position, kind in zip(others, epilogue.operands, strict=True)
        if kind == ELEMENT
    }
    if any(specs[position].value is not None for position in like):
        return None
    most = 0 if few or node.hints.direct_sums else _side(g, room, target)
    saved, side = max((_saved(g, side, block, target), side) for side in {0, most})
    saved -= added / (_DENSE * target.lanes)
    lies = tuple(position == 0 or position in like for position in range(len(specs)))
    if stored is not None and not side and not apart:
        saved += _unread(stored)
    halved = None
    if node.hints.precision == "bf16" and (apart or gcd(g.channels, inner) % 2 == 0):
        multiplied = not _side_of(side, True, target) or multiplies_transformed(True, side)
        halved = 0.0 if apart or not multiplied else _HALVED
        halved *= _products(g) / (_DENSE * target.lanes)
    found = _Candidate(node, lies, block, side, saved, halved=halved, deep=deep, few=few)
    return found, filter_bytes(g, side) if side else 0


def _block_of_few(g: Geometry, specs: Sequence[TensorSpec]) -> int:
    """The block of data that have few channels, 0 where they cannot lie in one."""
    plain = g.groups == 1 and specs[0].value is None and specs[1].value is not None
    return block_of_few(g.channels) if plain else 0


def _stored(model: Model, node: Node) -> StoredFilters | None:
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


def _side_of(side: int, half: bool, target: Target) -> int:
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
        rate = _APART if g.channels == 1 else _GROUPED
        moved = 0.0 if g.depth.trivial else _gathered(one) / _TURNED
        part = 1 - (1 - _BY_CHANNEL) * target.lanes / block
        return products / (rate * target.lanes) * part + moved
    regions = regions_of(g.plane)
    whole = known(one.plane.pixels) * g.rows.taps * g.columns.taps
    least = (
        _VOLUMES
        if not g.depth.trivial
        else _BY_ROWS
        if g.columns.inside and not g.rows.inside
        else _STRIDED
        if any(axis.stride > 1 and axis.taps > axis.stride for axis in (g.rows, g.columns))
        else _MEETING
        if direct(g) and isinstance(g.data_size, int) and g.data_size * 4 % _PAGE == 0
        else _ELSE
    )
    part = least if regions is None else 1 - sum(region.products for region in regions) / whole
    spent = (1 - _BY_TILES.get(side, part)) * (
        target.lanes / block if side or g.outputs == block else 1
    )
    return products / (_DENSE * target.lanes) * (1 - spent)


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


# ---- which of them pay


class _Borders:
    """What changes of layout cost, for a choice of convolutions over blocks."""

    def __init__(self, model: Model, candidates: Mapping[int, _Candidate]) -> None:
        self.candidates = candidates
        self.read_by = readers(model)
        self.costs = {s: self._cost(model.spec(s)) for c in candidates.values() for s in c.tensors}

    def _cost(self, spec: TensorSpec) -> float:
        if spec.value is not None:
            return 0.0
        images, *others = extents(spec)
        numbers = images if isinstance(images, int) else 1
        return numbers * prod(map(pixels_of_picture, others)) / _TURNED

    def of(self, source: Source, chosen: set[int]) -> float:
        """The change of layout of a tensor, if there is one."""
        in_blocks = source.node in chosen
        for reader in self.read_by.get(source, ()):
            wants = reader.id in chosen and source in self.candidates[reader.id].sources
            if wants != in_blocks:
                return self.costs[source]
        return 0.0

    def around(self, candidate: _Candidate, chosen: set[int]) -> float:
        """The changes of layout of all tensors of a node."""
        return sum(self.of(source, chosen) for source in candidate.tensors)


def _profitable(model: Model, candidates: Mapping[int, _Candidate]) -> dict[int, _Candidate]:
    borders = _Borders(model, candidates)
    chosen = set(candidates)
    for _ in range(_ROUNDS):
        dropped = False
        for number, candidate in candidates.items():
            if number in chosen:
                without = chosen - {number}
                if borders.around(candidate, without) + candidate.saved < borders.around(
                    candidate, chosen
                ):
                    chosen, dropped = without, True
        if not dropped:
            break
    for group in _connected(candidates, chosen):
        tensors = {source for n in group for source in candidates[n].tensors}
        if sum(borders.of(s, chosen) for s in tensors) >= sum(candidates[n].saved for n in group):
            chosen -= group
    return {number: candidate for number, candidate in candidates.items() if number in chosen}


def _halves(model: Model, chosen: Mapping[int, _Candidate]) -> set[int]:
    """Those of the chosen layers whose tensors are held as bf16: groups that hand blocks to each
    other, where all may be rounded and that saves more than conversions at their borders take.
    """
    found: set[int] = set()
    borders = _Borders(model, chosen)
    for group in _connected(chosen, set(chosen)):
        saved = [chosen[number].halved for number in group if chosen[number].other is None]
        if not saved or any(time is None for time in saved):
            continue
        tensors = {source for n in group for source in chosen[n].tensors}
        spent = sum(borders.of(s, group) for s in tensors) * (_TURNED / _CONVERTED)
        if sum(time for time in saved if time is not None) > spent:
            found |= group
    return found


def _deepened(
    model: Model, chosen: Mapping[int, _Candidate], halves: set[int], target: Target
) -> dict[int, _Candidate]:
    """The chosen layers, those of bf16 over blocks that fill rows of AMX's tiles. Layers that hand
    blocks to each other stay as they are where one of them cannot be done so.
    """
    found = dict(chosen)
    for group in _connected(chosen, set(chosen) & halves):
        deep = [_deep(model, chosen[number], target) for number in group]
        if all(deep):
            found |= {candidate.node.id: candidate for candidate in deep if candidate}
    return found


def _deep(model: Model, candidate: _Candidate, target: Target) -> _Candidate | None:
    """A layer over deep blocks; None where it cannot be done so. Sums are direct."""
    node = candidate.node
    if candidate.other is None:
        found = _candidate(model, node, target, 0, deep=True)
        return found and found[0]
    other = between(model, node, target, deep=True)
    if other is None:
        return None
    return _Candidate(node, other.lies, other.block, 0, other.saved, other, deep=True)


def _connected(candidates: Mapping[int, _Candidate], chosen: set[int]) -> Iterator[set[int]]:
    """Chosen convolutions that hand blocks to each other."""
    neighbours: dict[int, set[int]] = {number: set() for number in chosen}
    made: dict[Source, list[int]] = {}
    for number in chosen:
        for source in candidates[number].tensors:
            made.setdefault(source, []).append(number)
    for numbers in made.values():
        for number in numbers:
            neighbours[number].update(numbers)
    left = set(chosen)
    while left:
        waiting, group = [left.pop()], set[int]()
        while waiting:
            number = waiting.pop()
            group.add(number)
            waiting += neighbours[number] - group
        left -= group
        yield group


# ---- the other model


def _rewritten(
    model: Model, chosen: Mapping[int, _Candidate], halves: set[int], target: Target
) -> Model:
    """The model with the chosen layers over blocks; tensors between those of `halves` are bf16, and
    all that is computed element by element is computed in f32 between two conversions.
    """
    layers = NewLayers(model)
    added, nodes = layers.add, layers.nodes
    names = {node.id: node.name for node in model.nodes}
    changed: dict[tuple[Source, bool], Source] = {}
    converted: dict[tuple[Source, ElementType], Source] = {}

    def held(source: Source, spec: TensorSpec, element_type: ElementType) -> Source:
        """A tensor of the spec's type as one of another type."""
        if spec.element_type is element_type:
            return source
        key = source, element_type
        if key not in converted:
            operation = Convert1(destination_type=element_type)
            made = replace(spec, element_type=element_type, value=None, elements=None)
            name = f"{names.get(source.node, 'blocks')}/{element_type}"
            converted[key] = added(name, operation, (source,), made)
        return converted[key]

    def lying(source: Source, block: int) -> TensorSpec:
        """The spec of a tensor that a chosen layer makes."""
        spec = model.spec(source)
        kind = HALF if source.node in halves else spec.element_type
        shape = blocked_shape(spec.shape, block)
        return replace(spec, element_type=kind, shape=shape, value=None, elements=None)

    def turned(
        source: Source, operation: ToBlocks | FromBlocks, spec: TensorSpec, there: Source
    ) -> Source:
        """A tensor, which lies `there` in f32, in the other layout, made where it is first read."""
        key = source, isinstance(operation, ToBlocks)
        if key not in changed:
            name = f"{model.by_id[source.node].name} ({'in' if key[1] else 'out of'} blocks)"
            value = model.spec(source).value
            if value is not None and isinstance(operation, ToBlocks):
                turned_value = to_blocks(np.asarray(value), operation.block)
                changed[key] = layers.constant(turned_value, spec.element_type, name)
            else:
                # Of one pixel the channels lie in their order in blocks as well.
                pixels = spec.shape.dims[2:-1] if key[1] else spec.shape.dims[2:]
                moves = any(dim.static_size != 1 for dim in pixels)
                how = operation if moves else View(spec.shape)
                changed[key] = added(name, how, (there,), spec)
        return changed[key]

    def given(node: Node, position: int) -> Source:
        source, candidate = node.inputs[position], chosen.get(node.id)
        if (
            candidate is not None
            and candidate.other is not None
            and position in candidate.other.constants
        ):
            return layers.constant(
                candidate.other.constants[position],
                model.spec(source).element_type,
                f"{node.name} (input {position} over blocks)",
            )
        spec, lies = model.spec(source), candidate is not None and candidate.lies[position]
        if not lies and source.node not in chosen:
            return source
        maker = chosen.get(source.node)
        if maker is None:
            deep = candidate is not None and candidate.deep
            few = candidate.few if candidate is not None and position == 0 else 0
            block = few or block_of(int(spec.shape[1]), target, deep=deep)
        else:
            block = maker.block
        if not lies:
            return turned(source, FromBlocks(), spec, held(source, lying(source, block), _SINGLE))
        # What is computed element by element is given f32.
        kind = HALF if node.id in halves and not _in_f32(candidate) else _SINGLE
        if source.node in chosen:
            return held(source, lying(source, block), kind)
        blocked = replace(spec, shape=blocked_shape(spec.shape, block))
        there = turned(source, ToBlocks(block), blocked, source)
        if kind is HALF and spec.value is not None:
            halves_ = encode(to_blocks(spec.value, block), HALF)
            return layers.constant(halves_, HALF, f"{names[source.node]} (bf16)")
        return held(there, blocked, kind)

    def with_zeros(node: Node, channels: int) -> Source:
        """The filters of a convolution for so many channels, the last of which are zeros."""
        filters = model.spec(node.inputs[1])
        assert filters.value is not None
        product = product_of(node.checked_operation)
        assert isinstance(product, Convolution1)
        axis = product.lead - 1
        around = [(0, 0)] * filters.value.ndim
        around[axis] = (0, channels - filters.value.shape[axis])
        name = f"{names[node.inputs[1].node]} (with zeros)"
        return layers.constant(np.pad(filters.value, around), filters.element_type, name)

    for node in model.nodes:
        inputs = tuple(given(node, position) for position in range(len(node.inputs)))
        candidate = chosen.get(node.id)
        if candidate is not None and candidate.few:
            inputs = (inputs[0], with_zeros(node, candidate.few), *inputs[2:])
        stored = None if candidate is None or candidate.other else _stored(model, node)
        if stored is not None and candidate is not None:
            name = f"{names[node.inputs[1].node]} (codes)"
            matrix = stored.matrix
            codes = layers.constant(matrix.codes, matrix.element_type, name)
            inputs = (inputs[0], codes, *inputs[2:])
            if not candidate.side and node.id not in halves:
                note = f"filters in {matrix.element_type}{' by f16' if matrix.half else ''}"
                node = replace(node, hints=replace(node.hints, note=note))
        if candidate is None:
            nodes.append(replace(node, inputs=inputs) if inputs != node.inputs else node)
            continue
        other = candidate.other
        half = node.id in halves
        blocked = (
            BlockedConvolution(
                node.checked_operation,
                candidate.lies,
                candidate.block,
                half,
                _side_of(candidate.side, half, target),
                stored,
            )
            if other is None
            else other.operation
        )
        if half and isinstance(blocked, BlockedPooling):
            blocked = blocked.replace(half=True)
        lying_ones = [lying(Source(node.id, n), candidate.block) for n in range(len(node.outputs))]
        if half and _in_f32(candidate):
            made = replace(lying_ones[0], element_type=_SINGLE)
            wide = added(f"{node.name}/f32", blocked, inputs, made)
            inputs, blocked = (wide,), Convert1(destination_type=HALF)
        ports = tuple(
            replace(port, spec=spec) for port, spec in zip(node.outputs, lying_ones, strict=True)
        )
        nodes.append(replace(node, inputs=inputs, outputs=ports, operation=blocked))
    return replace(model, nodes=tuple(nodes))


def _in_f32(candidate: _Candidate | None) -> bool:
    """Whether a layer over blocks of bf16 computes in f32, between two conversions: element by
    element, or a mean.
    """
    other = None if candidate is None else candidate.other
    return other is not None and not isinstance(other.operation, (BlockedPooling, *MOVES))
