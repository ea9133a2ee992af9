"""Pairs of tensors that are called the same, without those that cannot be the same tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uncork.ir.model import Model, Source
from uncork.types import PartialShape


def consistent(
    model: Model,
    pairs: Mapping[Source, str],
    inputs: Mapping[str, Sequence[str]],
    shapes: Mapping[str, Sequence[int | None] | None],
) -> dict[Source, str]:
    """The pairs that may be the same tensor: their shapes agree, and of their nearest ancestors in
    pairs one side has all that the other has (one side may have folded what the other computes).
    """
    kept: dict[Source, str] = {}
    paired: set[str] = set()
    above: dict[Source, frozenset[str]] = {}  # the nearest ancestors in pairs, by the peer's keys
    for node in model.nodes:
        ours = frozenset[str]().union(*(above[source] for source in node.inputs))
        for output, port in enumerate(node.outputs):
            source = Source(node.id, output)
            key = pairs.get(source)
            above[source] = ours
            if key is None or not _fits(port.spec.shape, shapes.get(key)):
                continue
            theirs = _nearest(key, inputs, paired)
            if bool(ours) == bool(theirs) and (ours <= theirs or theirs <= ours):
                kept[source] = key
                paired.add(key)
                above[source] = frozenset([key])
    return kept


def _fits(shape: PartialShape, theirs: Sequence[int | None] | None) -> bool:
    """Whether a tensor of the one shape may be of the other, too."""
    return theirs is None or shape.merge(PartialShape(theirs)) is not None


def _nearest(key: str, inputs: Mapping[str, Sequence[str]], paired: set[str]) -> set[str]:
    """The nearest ancestors of a tensor of the peer that are in pairs."""
    result: set[str] = set()
    waiting, seen = list(inputs.get(key, ())), set[str]()
    while waiting:
        other = waiting.pop()
        if other in paired:
            result.add(other)
        elif other not in seen:
            seen.add(other)
            waiting.extend(inputs.get(other, ()))
    return result
