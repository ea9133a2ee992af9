"""Causal attention over time: keys and values of frames before are kept.

The scores of queries and keys have time in two axes, and so has the mask, which no data make but
the length alone. It is computed for a length, and read by distance: how many frames a key is before
its query. Distances below 0, the future, must be hidden; those beyond a limit are, where the mask
is a band, or where it was said how many frames a stream keeps. In the stream the scores have the
columns of the frames that are kept, and those of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from uncork.ir.model import Node, Source
from uncork.surgery.streams.distances import Distances, Window, of_every_distance
from uncork.surgery.streams.flow import Flow, Refusal, refused
from uncork.surgery.streams.rules import stream_at_once

if TYPE_CHECKING:
    from uncork.surgery.streams.walk import Walk

#: What adds no less than this to a score hides it: exporters write -inf, or the least float.
HIDES = -1e4
_LATER = "attends to all frames, later ones too: known after the last one only"
_TRAIN = "train and export it with a causal mask, or cut the model before that layer"

stream_at_once(
    ("ScaledDotProductAttention",),
    "causal attention over time keeps keys and values; at once along other axes",
)


@dataclass(frozen=True)
class Scores:
    """Scores of queries and keys, or the probabilities made of them."""

    query: Flow
    key: Flow
    #: Makes the scores of the keys that are kept and those of the call.
    product: Callable[[Source], Source]
    #: What is done with the scores afterwards, one after the other.
    steps: tuple[Callable[[Source, Window], Source], ...] = ()
    #: What hides the future, and perhaps what is long ago.
    hiding: tuple[Distances, ...] = ()
    #: The tensor of the stream, and its window, when there are probabilities.
    source: Source | None = None
    window: Window | None = None


def attended(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow] | None:
    """The outputs of a layer of attention over time; None for any other layer."""
    if node.type_name == "ScaledDotProductAttention":
        return _whole(walk, node, given)
    scores = [walk.scores.get(source) for source in node.inputs]
    known = [s for s in scores if s is not None]
    if node.type_name == "MatMul":
        if known:
            return _summed(walk, node, given, scores)
        return _product(walk, node, given)
    if not known:
        return None
    Refusal.when(len(known) > 1, "joins the scores of two attentions over time")
    made = _next(walk, node, given, scores.index(known[0]), known[0])
    walk.scores[Source(node.id, 0)] = made
    return [_pending()]


def _pending() -> Flow:
    """Scores of attention for any layer that does not know of them."""
    return refused(Refusal("is made of the scores of attention over time", _TRAIN))


# ---- layers one by one


def _product(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow] | None:
    """Scores, where each input has time, in its rows and columns."""
    whole = Source(node.id, 0)
    rank = walk.spec(whole).rank
    if rank is None or walk.time_axes(whole) != [rank - 2, rank - 1]:
        return None
    if any(flow.kind != "time" for flow in given):
        return None
    _check(given)
    query, key = given

    def product(keys: Source) -> Source:
        return walk.copy(node, [query.source, keys])[0]

    walk.scores[whole] = Scores(query, key, product)
    return [_pending()]


def _next(walk: Walk, node: Node, given: Sequence[Flow], at: int, scores: Scores) -> Scores:
    """The scores behind a layer that takes them as input `at`."""
    rank = walk.spec(node.inputs[at]).rank or 0
    operation = node.operation
    assert operation is not None
    if node.type_name == "SoftMax":
        if operation.axis % rank != rank - 1:  # type: ignore[attr-defined]
            raise Refusal("makes probabilities along the queries")
        return _probabilities(walk, node, scores)
    Refusal.when(
        not (operation.elementwise or node.type_name in ("Select", "Convert", "ConvertLike")),
        f"is no layer that a stream knows behind scores of attention: {_LATER}",
    )
    others = {
        i: None if flow.kind == "still" else of_every_distance(walk, node.inputs[i])
        for i, flow in enumerate(given)
        if i != at
    }
    hiding = _hidden(walk, node, given, at, others)

    def step(source: Source, window: Window) -> Source:
        inputs = [flow.source for flow in given]
        inputs[at] = source
        for i, distances in others.items():
            if distances is not None:
                inputs[i] = window.tensor(distances)
        return walk.copy(node, inputs)[0]

    if scores.source is not None and scores.window is not None:
        return replace(scores, source=step(scores.source, scores.window))
    return replace(scores, steps=(*scores.steps, step), hiding=(*scores.hiding, *hiding))


def _hidden(
    walk: Walk,
    node: Node,
    given: Sequence[Flow],
    at: int,
    others: dict[int, Distances | None],
) -> list[Distances]:
    """What a layer hides scores by: a mask that is added or that selects."""
    if node.type_name == "Select" and at > 0 and others[0] is not None:
        value = walk.value(node, 3 - at)
        if value is None or not bool((value <= HIDES).all()):
            return []
        return [others[0].shown_where(at == 1)]
    if (node.type_name in ("Add", "Subtract") and at == 0) or node.type_name == "Add":
        mask = others[1 - at]
        sign = -1 if node.type_name == "Subtract" else 1
        return [] if mask is None else [mask.shown_above(HIDES, sign)]
    return []


def _probabilities(walk: Walk, node: Node, scores: Scores) -> Scores:
    window = window_of(walk, scores.query, scores.hiding)
    keys = walk.writer.kept(scores.key, window.keep)
    source = scores.product(keys)
    for step in scores.steps:
        source = step(source, window)
    # What long ago lies beyond the limit, or before the first frame, whatever the mask says of it.
    source = walk.writer.add("Select", 1, window.shown, source, _least(walk, source))
    made = walk.copy(node, [source])[0]
    return replace(scores, source=made, window=window, steps=(), hiding=())


def _least(walk: Walk, source: Source) -> Source:
    kind = walk.writer.spec(source).element_type
    return walk.writer.constant(np.array(-np.inf, kind.dtype))


def _summed(
    walk: Walk, node: Node, given: Sequence[Flow], scores: Sequence[Scores | None]
) -> list[Flow]:
    """The values, summed by probabilities: time is that of the queries."""
    operation, own, value = node.operation, scores[0], given[1]
    if own is None or scores[1] is not None or operation.transpose_a:  # type: ignore[union-attr]
        raise Refusal("multiplies scores of attention otherwise than values by them")
    if own.source is None or own.window is None:
        raise Refusal(_LATER, _TRAIN)
    rank = walk.writer.rank(value.source)
    inner = rank - 1 if operation.transpose_b else rank - 2  # type: ignore[union-attr]
    Refusal.when(
        value.kind != "time" or value.axis != inner,
        "multiplies scores of attention otherwise than values by them",
    )
    _check([own.query, value])
    kept = walk.writer.kept(value, own.window.keep)
    made = walk.copy(node, [own.source, kept])[0]
    axis = walk.writer.rank(made) - 2
    flow = Flow(made, "time", axis, 0, own.query.every)
    return [walk.flowing(Source(node.id, 0), flow)]


# ---- attention as one layer


def _whole(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow] | None:
    """ScaledDotProductAttention, where queries and keys have time in their rows."""
    operation = node.operation
    query, key, value = given[:3]
    places = [walk.writer.rank(f.source) - 2 if f.kind == "time" else -1 for f in given[:3]]
    if all(f.kind != "time" or f.axis != at for f, at in zip(given[:3], places, strict=True)):
        return None  # time is among the batches
    Refusal.when(
        any(f.kind != "time" or f.axis != at for f, at in zip(given[:3], places, strict=True)),
        _LATER,
        _TRAIN,
    )
    _check([query, key, value])
    causal = operation.causal  # type: ignore[union-attr]
    rest = given[4:]
    Refusal.when(
        any(flow.kind != "still" for flow in rest), "has a scale or a sink that the sequence tells"
    )
    if causal:
        mask = Distances.causal()
    elif len(given) > 3 and len(walk.time_axes(node.inputs[3])) == 2:
        mask = of_every_distance(walk, node.inputs[3])
    else:
        raise Refusal(_LATER, _TRAIN)
    hiding = mask.shown_where(True) if mask.is_boolean else mask.shown_above(HIDES, 1)
    window = window_of(walk, query, [hiding])
    shown = window.shown
    if mask.is_boolean:
        shown = walk.writer.add("LogicalAnd", 1, shown, window.tensor(mask))
    else:
        added = window.tensor(mask)
        shown = walk.writer.add("Select", 1, shown, added, _least(walk, added))
    kept = [walk.writer.kept(flow, window.keep) for flow in (key, value)]
    plain = operation.replace(causal=False)  # type: ignore[union-attr]
    inputs = [query.source, *kept, shown, *(flow.source for flow in rest)]
    made = walk.copy(node, inputs, plain)[0]
    flow = Flow(made, "time", query.axis, 0, query.every)
    return [walk.flowing(Source(node.id, 0), flow)]


# ---- what both share


def _check(flows: Sequence[Flow]) -> None:
    """Refuse sequences of which some frames are padding, or nothing yet."""
    Refusal.when(
        any(flow.joined for flow in flows), "attends to an axis in which time is joined with others"
    )
    if any(flow.shift or flow.history is not None for flow in flows):
        raise Refusal(
            "attends to frames behind padding or look-ahead", "cut the model before that layer"
        )
    Refusal.when(len({flow.every for flow in flows}) > 1, "attends to frames of another rate")


def window_of(walk: Walk, query: Flow, hiding: Sequence[Distances]) -> Window:
    """The frames that a query sees. Refused where it sees later ones, or too many."""
    Refusal.when(not any(mask.hides_the_future for mask in hiding), _LATER, _TRAIN)
    bands = [mask.reach for mask in hiding if mask.reach is not None]
    keep = min([*bands, *([walk.keep] if walk.keep is not None else [])], default=None)
    if keep is None:
        raise Refusal(
            "attends to all frames so far, and a stream keeps a number of them",
            "say how many by keep=N (--keep N)",
        )
    if not bands or keep < min(bands):
        walk.limited((keep + 1) * query.every)
    return Window(walk.writer, query, max(keep, 1))
