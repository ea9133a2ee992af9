"""How the channels of each tensor lie in blocks, where layers are done over these.

What is computed element by element, pooled, resized or summed over pixels lies as its operands do.
Concat and what cuts tensors move whole blocks: where parts begin, blocks begin. Blocks are filled
with zeros where that makes few channels more; else a tensor lies in blocks that its channels fill,
and what would cut them takes it out of blocks.

Layers that might make an infinity of zeros (`finite_zeros`) keep what they read and make in blocks
that are full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from uncork.internal_ops.blocks import ChannelLayout, joined
from uncork.ir.model import Model, Node, Source
from uncork.kernels.convolution.select_pool import pooling_of
from uncork.kernels.convolution.tiles import block_of, block_widths
from uncork.kernels.elementwise.lowering import has_lowering
from uncork.kernels.runtime.target import Target
from uncork.ops._common.indices import normalised_axis
from uncork.ops.concat import Concat1
from uncork.ops.slice import Slice8
from uncork.passes.blocked_layers import (
    CONVOLUTIONS,
    NORMALISATIONS,
    REDUCTIONS,
    channels_of,
    is_depthwise,
    product_of_node,
    resizes_pixels,
)
from uncork.passes.finite_zeros import beside_infinities
from uncork.passes.match_parts import only_cut, split_axis

#: With zeros there are at most so many times as many channels: of a tensor in one run, and of one
#: in several, since cutting it outside of blocks costs less than more products.
_MOST_OF_ONE, _MOST_OF_SEVERAL = 1.25, 1.06
#: The time that a channel takes in blocks of half a vector, of that in blocks of a whole one.
_HALF = 1.15


def layouts_of(model: Model, target: Target) -> Mapping[Source, ChannelLayout]:
    """The layout of each tensor of f32 that can lie in blocks."""
    if not any(isinstance(product_of_node(node), CONVOLUTIONS) for node in model.nodes):
        return {}
    ties = _Ties(model, target)
    while True:
        found = ties.layouts()
        others = beside_infinities(model, found)
        if not others:
            return found
        ties.keep_full(others)


def deepened(layouts: Mapping[Source, ChannelLayout], width: int) -> Mapping[Source, ChannelLayout]:
    """These layouts, with blocks of a larger width where they would be full."""
    return {
        source: ChannelLayout(width, layout.runs)
        if all(run % width == 0 for run in layout.runs)
        else layout
        for source, layout in layouts.items()
    }


class _Part(Struct, frozen=True):
    """A tensor that is channels of another one, from `first` on."""

    whole: Source
    part: Source
    first: int


class _Ties:
    """Which tensors lie alike, and which are parts of others."""

    def __init__(self, model: Model, target: Target) -> None:
        self.model, self.target = model, target
        self.leaders: dict[Source, Source] = {}
        self.channels: dict[Source, int] = {}
        self.parts: list[_Part] = []
        self.full: set[Source] = set()
        #: What convolutions read and make.
        self.convolved: set[Source] = set()
        for node in model.nodes:
            self._tie(node)
            if isinstance(product_of_node(node), CONVOLUTIONS):
                self.convolved |= {node.inputs[0], Source(node.id, 0)}

    def _tie(self, node: Node) -> None:
        made = [Source(node.id, number) for number in range(len(node.outputs))]
        for source in made:
            if channels := channels_of(self.model.spec(source)):
                self.leaders[source], self.channels[source] = source, channels
        if not made or not all(source in self.channels for source in made):
            return
        parts = _parts_of(self.model, node)
        for part in parts:
            if part.whole in self.channels and part.part in self.channels:
                self.parts.append(part)
        if not parts:
            for source in _like(self.model, node):
                if self.channels.get(source) == self.channels[made[0]]:
                    self.leaders[self.leader(source)] = self.leader(made[0])

    def leader(self, source: Source) -> Source:
        """The tensor that stands for all that lie like this one."""
        while self.leaders[source] != source:
            self.leaders[source] = source = self.leaders[self.leaders[source]]
        return source

    def keep_full(self, sources: Iterable[Source]) -> None:
        """From now on blocks of these have no zeros."""
        self.full |= {self.leader(source) for source in sources}

    def layouts(self) -> dict[Source, ChannelLayout]:
        """The layout of each tensor that has one."""
        cut = set[Source]()
        while True:
            parts = [
                _Part(self.leader(part.whole), self.leader(part.part), part.first)
                for part in self.parts
            ]
            parts = [p for p in parts if not {p.whole, p.part} & (self.full | cut)]
            found, wasteful = self._filled(parts)
            if not wasteful - cut:
                break
            cut |= wasteful
        of_convolutions = {source for group in self._groups(parts) for source in group}
        for source in of_convolutions - set(found):
            channels = self.channels[source]
            if width := block_of(channels, self.target):
                found[source] = ChannelLayout(width, (channels,))
        leaders = {source: self.leader(source) for source in self.leaders}
        return {s: found[leader] for s, leader in leaders.items() if leader in found}

    def _filled(self, parts: Sequence[_Part]) -> tuple[dict[Source, ChannelLayout], set[Source]]:
        """Layouts with zeros where these are few, and tensors that would have too many as what they
        are parts of, or have as parts.
        """
        starts = self._starts(parts)
        found, wasteful = dict[Source, ChannelLayout](), set[Source]()
        for group in self._groups(parts):
            if self.full & set(group):
                continue
            ways = [
                [self._layout(source, starts[source], width) for source in group]
                for width in block_widths(self.target)
            ]
            for source, layout in zip(group, min(ways, key=self._cost), strict=True):
                most = _MOST_OF_ONE if len(layout.runs) == 1 else _MOST_OF_SEVERAL
                if layout.channels <= self.channels[source] * most:
                    found[source] = layout
                elif len(group) > 1:
                    wasteful.add(source)
        return found, wasteful

    def _layout(self, source: Source, starts: set[int], width: int) -> ChannelLayout:
        bounds = [*sorted(starts), self.channels[source]]
        return ChannelLayout(width, joined([b - a for a, b in pairwise(bounds)], width))

    def _starts(self, parts: Sequence[_Part]) -> dict[Source, set[int]]:
        """The channels at which blocks begin, of the tensors that stand for others."""
        starts = {leader: {0} for leader in map(self.leader, self.leaders)}
        before = -1
        while before != (now := sum(map(len, starts.values()))):
            before = now
            for part in (*parts, *reversed(parts)):
                whole, own, first = starts[part.whole], starts[part.part], part.first
                end = first + self.channels[part.part]
                whole |= {first + start for start in own}
                whole |= {end} - {self.channels[part.whole]}
                own |= {start - first for start in whole if first <= start < end}
        return starts

    def _groups(self, parts: Sequence[_Part]) -> list[list[Source]]:
        """The tensors that stand for others, those together whose blocks have one width; without
        those that no convolution reads or makes.
        """
        groups = {leader: [leader] for leader in map(self.leader, self.leaders)}
        for part in parts:
            whole, own = groups[part.whole], groups[part.part]
            if whole is not own:
                whole += own
                groups |= dict.fromkeys(own, whole)
        of_convolutions = set(map(self.leader, self.convolved & self.leaders.keys()))
        all_groups = {id(group): group for group in groups.values()}.values()
        return [group for group in all_groups if of_convolutions.intersection(group)]

    def _cost(self, layouts: Iterable[ChannelLayout]) -> float:
        """The time that blocks take, but for what all ways have in common."""
        return sum(
            layout.channels * (_HALF if layout.block < self.target.lanes else 1.0)
            for layout in layouts
        )


def _like(model: Model, node: Node) -> Iterator[Source]:
    """The inputs that lie as the result of a layer does, where they have as many channels."""
    product = product_of_node(node)
    if isinstance(product, CONVOLUTIONS):
        yield from node.inputs[2:]
        if is_depthwise(model, node):
            yield node.inputs[0]
    elif product is not None and (
        has_lowering(product)
        or pooling_of(product)
        or node.type_name in REDUCTIONS
        or isinstance(product, NORMALISATIONS)
        or resizes_pixels(model, node)
    ):
        rank = model.spec(Source(node.id, 0)).rank
        yield from (source for source in node.inputs if model.spec(source).rank == rank)


def _parts_of(model: Model, node: Node) -> list[_Part]:
    """What a layer joins or cuts along the channels; nothing of other layers."""
    operation = node.operation
    if isinstance(operation, Concat1):
        whole, parts, axis = Source(node.id, 0), [*node.inputs], operation.axis
    elif (cut := split_axis(model, node)) is not None:
        whole, axis = node.inputs[0], cut
        parts = [Source(node.id, number) for number in range(len(node.outputs))]
    elif isinstance(operation, Slice8):
        first = first_of_slice(model, node)
        return [] if first is None else [_Part(node.inputs[0], Source(node.id, 0), first)]
    else:
        return []
    rank = model.spec(whole).rank
    assert operation is not None
    if rank is None or normalised_axis(operation, axis, rank) != 1:
        return []
    found: list[_Part] = []
    first = 0
    for part in parts:
        found.append(_Part(whole, part, first))
        first += channels_of(model.spec(part))
    return found


def first_of_slice(model: Model, node: Node) -> int | None:
    """The first of the neighbouring channels that a Slice takes; None where it is another slice."""
    cut, channels = only_cut(model, node), channels_of(model.spec(node.inputs[0]))
    if cut is None or not channels or cut.step != 1 or cut.axis != 1:
        return None
    return slice(cut.start, cut.stop).indices(channels)[0]
