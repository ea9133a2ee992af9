"""Which layers are done over blocks of channels: those where that brings more than the changes of
layout that it takes. Layers between convolutions go with them, where that spares changes of layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

from uncork.internal_ops.blocks import ChannelLayout
from uncork.ir.model import Model, Source
from uncork.kernels.convolution.tiles import DEEP_BLOCK
from uncork.kernels.extents import extents, pixels_of_picture
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import multiplies_pairs
from uncork.passes.between_blocks import between
from uncork.passes.block_borders import transpose_before, transposes_behind
from uncork.passes.block_candidates import (
    TURNED,
    Candidate,
    candidate_between,
    candidate_of,
    candidates_of,
)
from uncork.passes.channel_layouts import deepened, layouts_of
from uncork.passes.rewrite import readers

#: Numbers that are converted to or from bf16 in a nanosecond.
_CONVERTED = 20.0
_ROUNDS = 4


def chosen_of(model: Model, target: Target) -> tuple[dict[int, Candidate], set[int]]:
    """The layers that are done over blocks, and which of them in bf16."""
    layouts = layouts_of(model, target)
    candidates = candidates_of(model, layouts, target)
    chosen, halves = _choice(model, candidates, target)
    alone = {n for n, candidate in chosen.items() if candidate.few and n not in halves}
    if alone:
        candidates = {n: candidate for n, candidate in candidates.items() if n not in alone}
        chosen, halves = _choice(model, candidates, target)
    if target.tiles:
        chosen = _deepened(model, chosen, halves, deepened(layouts, DEEP_BLOCK), target)
    return chosen, halves


def _choice(
    model: Model, candidates: Mapping[int, Candidate], target: Target
) -> tuple[dict[int, Candidate], set[int]]:
    """Those of some candidates that pay, and which of them are in bf16. What bf16 saves may be what
    makes blocks pay; layers that stay f32 have to pay without it.
    """
    if not candidates:
        return {}, set()
    borders = _Borders(model, candidates)
    if not multiplies_pairs(target):
        return _profitable(borders, candidates, {}), set()
    hoped = {n: c.halved for n, c in candidates.items() if c.halved}
    halves = _halves(model, _profitable(borders, candidates, hoped))
    kept = {n: time for n, time in hoped.items() if n in halves}
    chosen = _profitable(borders, candidates, kept)
    return chosen, _halves(model, chosen)


class _Borders:
    """What changes of layout cost, for a choice of convolutions over blocks."""

    def __init__(self, model: Model, candidates: Mapping[int, Candidate]) -> None:
        self.read_by = readers(model)
        self.sources = {number: {*c.sources} for number, c in candidates.items()}
        self.tensors = {number: c.tensors for number, c in candidates.items()}
        layouts = {s: made for c in candidates.values() for s, made in c.layouts}
        self.costs = {s: self._cost(model, s, made) for s, made in layouts.items()}

    def _cost(self, model: Model, source: Source, layout: ChannelLayout) -> float:
        spec = model.spec(source)
        if spec.value is not None or (layout.is_full and self._is_transposed(model, source)):
            return 0.0
        images, *others = extents(spec)
        numbers = images if isinstance(images, int) else 1
        return numbers * prod(map(pixels_of_picture, others)) / TURNED

    def _is_transposed(self, model: Model, source: Source) -> bool:
        """Whether a tensor is made by a transpose of channels that come last, and only layers that
        may be over blocks read it; or only transposes that put its channels last do. These become
        its changes of layout.
        """
        before = transpose_before(model, source)
        if before is None:
            return bool(transposes_behind(model, self.read_by, source))
        own = self.read_by.get(source, [])
        return all(source in self.sources.get(reader.id, ()) for reader in own)

    def of(self, source: Source, chosen: set[int]) -> float:
        """The change of layout of a tensor, if there is one."""
        in_blocks = source.node in chosen
        for reader in self.read_by.get(source, ()):
            wants = reader.id in chosen and source in self.sources[reader.id]
            if wants != in_blocks:
                return self.costs[source]
        return 0.0

    def around(self, numbers: Iterable[int], chosen: set[int]) -> float:
        """The changes of layout of all tensors of some nodes."""
        tensors = {source for number in numbers for source in self.tensors[number]}
        return sum(self.of(source, chosen) for source in tensors)


def _profitable(
    borders: _Borders, candidates: Mapping[int, Candidate], halved: Mapping[int, float]
) -> dict[int, Candidate]:
    """Those of some candidates that save more than changes of layout at their borders take, where
    bf16 saves what is `halved` of them.
    """
    saved = {n: candidate.saved + halved.get(n, 0.0) for n, candidate in candidates.items()}
    chosen = set(candidates)
    for _ in range(_ROUNDS):
        dropped = False
        for number in candidates:
            if number in chosen:
                without = chosen - {number}
                spent = borders.around([number], without) + saved[number]
                if spent < borders.around([number], chosen):
                    chosen, dropped = without, True
        if not dropped:
            break
    for group in _connected(candidates, chosen):
        if borders.around(group, chosen) >= sum(saved[n] for n in group):
            chosen -= group
    return {number: candidate for number, candidate in candidates.items() if number in chosen}


def _halves(model: Model, chosen: Mapping[int, Candidate]) -> set[int]:
    """Those of the chosen layers whose tensors are held as bf16: groups that hand blocks to each
    other, where all may be rounded and that saves more than conversions at their borders take.
    """
    found: set[int] = set()
    borders = _Borders(model, chosen)
    for group in _connected(chosen, set(chosen)):
        saved = [chosen[number].halved for number in group if chosen[number].other is None]
        if not saved or any(time is None for time in saved):
            continue
        spent = borders.around(group, group) * (TURNED / _CONVERTED)
        gained = sum(time for time in saved if time is not None)
        # Between transposes that are there already these move half the bytes.
        if gained > spent or not spent:
            found |= group
    return found


def _deepened(
    model: Model,
    chosen: Mapping[int, Candidate],
    halves: set[int],
    layouts: Mapping[Source, ChannelLayout],
    target: Target,
) -> dict[int, Candidate]:
    """The chosen layers, those of bf16 over blocks that fill rows of AMX's tiles. Layers that hand
    blocks to each other stay as they are where one of them cannot be done so.
    """
    found = dict(chosen)
    for group in _connected(chosen, set(chosen) & halves):
        deep = [_deep(model, chosen[number], layouts, target) for number in group]
        if all(deep):
            found |= {candidate.node.id: candidate for candidate in deep if candidate}
    return found


def _deep(
    model: Model, candidate: Candidate, layouts: Mapping[Source, ChannelLayout], target: Target
) -> Candidate | None:
    """A layer in deep layouts; None where it cannot be done so. Sums are direct."""
    node = candidate.node
    if candidate.other is None:
        found = candidate_of(model, node, layouts, target, 0)
        return found and found[0]
    other = between(model, node, layouts)
    return None if other is None else candidate_between(node, other)


def _connected(candidates: Mapping[int, Candidate], chosen: set[int]) -> Iterator[set[int]]:
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
