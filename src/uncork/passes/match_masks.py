"""The matcher of the masks of an attention: several that are added to its scores, also where these
are seen with their first axis in two parts, as windows of pictures are, or that select scores.

    [pictures * windows, heads, rows, keys] -> [pictures, windows, heads, rows, keys] -> Add -> back
    Select(mask, scores, number)            Select(mask, number, scores)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import certainly, extents, has_extents, same, same_extents
from uncork.kernels.select import is_view
from uncork.ops import Operation
from uncork.ops.arithmetic import Add
from uncork.ops.logical import LogicalAnd, LogicalNot
from uncork.passes.match_moves import sizes_of, unstretched
from uncork.passes.match_scores import SCORES, constant_scalar
from uncork.passes.rewrite import NewLayers, only_before
from uncork.symbolic import SizeLike
from uncork.types import Dimension, ElementType, PartialShape

#: Masks that are added one after the other, or that select.
_MOST = 3


class Addition(Struct, frozen=True):
    """A mask that a layer adds to scores; the sizes that these are seen with, where it is another
    shape than their own.
    """

    layer: Node
    mask: Source
    seen: tuple[SizeLike, ...] | None = None


class Selection(Struct, frozen=True):
    """A mask by which a layer selects scores: where it holds, or does not, they stay, and become a
    number elsewhere.
    """

    mask: Source
    shows: bool
    hidden: float


class Masks(Struct, frozen=True):
    """One mask for all that is added to scores, and whether it recurs (`FusedAttention`)."""

    source: Source
    recurs: bool = False


def additions_before(
    model: Model,
    read_by: Mapping[Source, list[Node]],
    last: Node | None,
    back: Node | None = None,
    most: int = _MOST,
) -> tuple[Node, tuple[Addition, ...]] | None:
    """The product, or what scales or caps it, whose scores are this layer's with masks added, and
    what is added, in order; None where it is anything else. Where the scores, or the weights, are
    still seen in another shape, `back` is the view that gives them their own.
    """
    if last is None or (back is None and last.type_name in SCORES):
        return None if last is None else (last, ())
    if back is not None and is_view(last.operation):
        if not _is_back(model, last, back):
            return None
        return additions_before(model, read_by, only_before(model, read_by, last, 0), None, most)
    added: Node | None = last
    if back is None and is_view(last.operation):
        added, back = only_before(model, read_by, last, 0), last
    if added is None or not isinstance(added.operation, Add) or not most:
        return None
    if added.operation.auto_broadcast != "numpy":
        return None
    whole = sizes_of(model, Source(added.id, 0))
    for place in (0, 1):
        shape = sizes_of(model, added.inputs[place])
        before = only_before(model, read_by, added, place)
        if shape is None or whole is None or before is None or not same_extents(shape, whole):
            continue
        found = additions_before(model, read_by, before, back, most - 1)
        if found is not None:
            seen = None if back is None else whole
            return found[0], (*found[1], Addition(added, added.inputs[1 - place], seen))
    return None


def _is_back(model: Model, first: Node, last: Node) -> bool:
    """Whether the second of two views has the shape that the first one changed, whose first axis
    it divided in two.
    """
    shapes = [sizes_of(model, s) for s in (first.inputs[0], Source(first.id, 0))]
    own, seen = shapes
    back = sizes_of(model, Source(last.id, 0))
    return (
        own is not None
        and seen is not None
        and back is not None
        and len(seen) == len(own) + 1
        and same_extents(own, back)
        and same_extents(own[1:], seen[2:])
    )


def one_mask(
    layers: NewLayers, scores: Sequence[SizeLike], additions: Sequence[Addition]
) -> Masks | None:
    """One mask that is the sum of these, which are some, by layers; None where there is none."""
    _, *others = additions
    seen = [added.seen for added in additions if added.seen is not None]
    if any(not same_extents(seen[0], other) for other in seen[1:]):
        return None
    masks = [
        _as_seen(layers, added, scores, seen[0])
        if seen
        else unstretched(layers.old, added.mask) or added.mask
        for added in additions
    ]
    total = masks[0]
    for added, mask in zip(others, masks[1:], strict=True):
        if total is None or mask is None:
            return None
        total = _put(layers, added.layer, added.layer.checked_operation, total, mask)
    if total is None:
        return None
    if not seen:
        return Masks(total)
    spec = layers.spec(total)
    if not has_extents(spec):
        return None
    aligned: list[SizeLike] = [1] * (len(seen[0]) - len(extents(spec)))
    aligned += extents(spec)
    outer, inner, *rest = aligned
    pictures, windows = seen[0][:2]
    batches: SizeLike
    if certainly(outer, 1) and (certainly(inner, 1) or same(inner, windows)):
        batches = inner
    elif same(outer, pictures) and same(inner, windows):
        batches = scores[0]
    elif same(outer, pictures) and certainly(inner, 1) and isinstance(windows, int):
        # a mask for each picture: every window of it has its own copy
        zeros = layers.constant(np.zeros((windows, 1, 1)), ElementType.f32)
        total = _put(layers, additions[-1].layer, Add(), total, zeros)
        batches = scores[0]
    else:
        return None
    shape = PartialShape([Dimension.of(size) for size in (batches, *rest)])
    source = _put(layers, additions[-1].layer, View(shape), total)
    recurs = not certainly(batches, 1) and not same(batches, scores[0])
    return Masks(source, recurs)


def _as_seen(
    layers: NewLayers, added: Addition, scores: Sequence[SizeLike], seen: Sequence[SizeLike]
) -> Source | None:
    """A mask that fits scores as they are seen; None where its sizes are not known."""
    sizes = sizes_of(layers.old, added.mask)
    if sizes is None:
        return None
    if added.seen is not None or len(sizes) < len(scores) or certainly(sizes[0], 1):
        return added.mask
    if not same(sizes[0], scores[0]):
        return None
    shape = PartialShape([Dimension.of(size) for size in (*seen[:2], *sizes[1:])])
    return _put(layers, added.layer, View(shape), added.mask)


def _put(layers: NewLayers, like: Node, operation: Operation, *inputs: Source) -> Source:
    """The output of a layer that is called as another one; a constant of known inputs."""
    specs = [layers.spec(source) for source in inputs]
    if any(spec.value is None for spec in specs):
        return layers.put(operation, *inputs, name=like.name)
    (spec,) = operation.evaluate(specs)
    return layers.constant(spec.known, spec.element_type, like.name)


def selections_before(
    model: Model, read_by: Mapping[Source, list[Node]], last: Node | None
) -> tuple[Node | None, tuple[Selection, ...]]:
    """The layer whose scores the masks before this layer's select from, and these."""
    found: list[Selection] = []
    while last is not None and len(found) < _MOST and (step := _selected(model, last)) is not None:
        place, hidden = step
        if found and hidden != found[0].hidden:
            break
        found.append(Selection(last.inputs[0], place == 1, hidden))
        last = only_before(model, read_by, last, place)
    return last, tuple(found)


def _selected(model: Model, node: Node) -> tuple[int, float] | None:
    """The input of a Select that has scores, and the number that they are elsewhere, which is no
    NaN.
    """
    if node.type_name != "Select" or getattr(node.operation, "auto_broadcast", "") != "numpy":
        return None
    whole = sizes_of(model, Source(node.id, 0))
    for place in (1, 2):
        shape = sizes_of(model, node.inputs[place])
        hidden = constant_scalar(model, node, 3 - place)
        if hidden is None or not hidden < math.inf:
            continue
        if shape is not None and whole is not None and same_extents(shape, whole):
            return place, hidden
    return None


def one_selection(layers: NewLayers, like: Node, selections: Sequence[Selection]) -> Source:
    """One mask that holds where scores stay by all of these, which are some, by layers that are
    called as another one.
    """
    masks = [unstretched(layers.old, each.mask) or each.mask for each in selections]
    masks = [
        mask if selection.shows else layers.put(LogicalNot(), mask, name=like.name)
        for mask, selection in zip(masks, selections, strict=True)
    ]
    total = masks[0]
    for mask in masks[1:]:
        total = layers.put(LogicalAnd(), total, mask, name=like.name)
    return total
