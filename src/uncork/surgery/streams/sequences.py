"""Recurrent layers: the initial state becomes a variable, the last one its Assign."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.ir.model import Node, Source
from uncork.surgery.streams.flow import Flow, Refusal
from uncork.surgery.streams.rules import streams
from uncork.surgery.streams.walk import Walk

#: Initial states of a layer, by its type.
_STATES = {"RNNSequence": 1, "GRUSequence": 1, "LSTMSequence": 2}
#: A length that no sequence reaches, which converters write for "all of it".
_ALL = 2**30


@streams(*_STATES, how="keeps its state; forward only")
def _sequence(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    flow, states = given[0], _STATES[node.type_name]
    operation = node.operation
    assert operation is not None
    Refusal.when(flow.kind != "time", "has weights or states that the sequence tells")
    if flow.axis == 0:
        return walk.at_once(node, given)
    walk.separate(flow)
    Refusal.when(flow.axis != 1, "has time in an axis that is none of its steps")
    direction = operation.direction  # type: ignore[attr-defined]
    Refusal.when(
        direction != "forward",
        f"is {direction}: it reads the sequence from its end",
        "train and export the model with one direction",
    )
    Refusal.when(
        any(state.kind not in ("still", "size") for state in given[1 : 1 + states]),
        "begins with a state that the sequence tells",
        "cut the model before it",
    )
    Refusal.when(
        any(weight.kind != "still" for weight in given[2 + states :]),
        "has weights that the sequence tells",
    )
    _check_lengths(walk, node, node.inputs[1 + states])
    if flow.shift < 0:
        return _late(walk, node, given, states)
    writer = walk.writer
    weights = [f.source for f in given[2 + states :]]
    initial = [f.source for f in given[1 : 1 + states]]
    past = None
    if flow.history is not None:
        before = walk.copy(node, [flow.history, *initial, _lengths(walk, flow.history), *weights])
        past, initial = before[0], before[1:]
    variables = [writer.variable(source) for source in initial]
    outputs = walk.copy(
        node, [flow.source, *(old for _, old in variables), _lengths(walk, flow.source), *weights]
    )
    for (name, _), last in zip(variables, outputs[1:], strict=True):
        writer.assign(name, last)
    steps = _steps(walk, node, flow, outputs[0], past)
    return [steps, *walk.last(node, flow, outputs[1:])]


def _lengths(walk: Walk, source: Source) -> Source:
    """For each row, all frames of the call; no constant, as the rows may become sessions."""
    length, batch = walk.writer.length(source, 1), walk.writer.length(source, 0)
    return walk.writer.add("Broadcast", 3, length, batch, mode="numpy")


def _steps(walk: Walk, node: Node, flow: Flow, source: Source, past: Source | None) -> Flow:
    moved = Flow(source, "time", 2, flow.shift, flow.every, past)
    return walk.flowing(Source(node.id, 0), moved)


def _late(walk: Walk, node: Node, given: Sequence[Flow], states: int) -> list[Flow]:
    """Frames that are nothing yet do not move the state: the layer gets the others, which may be
    none. OpenVINO's CPU does not read the lengths of an input, so the frames are cut off; and of
    no frames it gives a wrong last state, so that of before is selected then.
    """
    flow, writer = given[0], walk.writer
    count, after, frames = writer.counter(flow, most=-flow.shift)
    none, begins = (writer.constant(np.array([n], np.int32)) for n in (0, -flow.shift))
    left = writer.add("Maximum", 1, writer.add("Subtract", 1, begins, count), none)
    skipped = writer.add("Minimum", 1, frames, left)
    far, one = writer.constant(np.array([2**31 - 1])), writer.constant(np.array([1]))
    first = writer.add("Convert", 1, skipped, destination_type="i64")
    cut = writer.add("Slice", 8, flow.source, first, far, one, one)
    weights = [f.source for f in given[2 + states :]]
    variables = [writer.variable(state.source) for state in given[1 : 1 + states]]
    olds = [old for _, old in variables]
    outputs = walk.copy(node, [cut, *olds, _lengths(walk, cut), *weights])
    begun = writer.add("Greater", 1, after, begins)
    lasts = []
    for (name, old), last in zip(variables, outputs[1:], strict=True):
        lasts.append(writer.add("Select", 1, begun, last, old))
        writer.assign(name, lasts[-1])
    lead = writer.join(0, none, none, skipped, none)
    end = writer.constant(np.zeros(4, np.int32))
    back = writer.add("Pad", 12, outputs[0], lead, end, pad_mode="constant")
    return [_steps(walk, node, flow, back, None), *walk.last(node, flow, lasts)]


def _check_lengths(walk: Walk, node: Node, source: Source) -> None:
    """Refuse lengths that are not those of the whole sequence."""
    size = walk.spec(node.inputs[0]).shape[1].as_size()
    if _is_whole(walk, source, size):
        return
    raise Refusal(
        "has lengths of its rows: a stream does not know which frame is a row's last",
        "give every row all frames, and reset the state where a row begins anew",
    )


def _is_whole(walk: Walk, source: Source, size: object) -> bool:
    spec = walk.spec(source)
    if spec.elements and all(element == size for element in spec.sizes() or ()):
        return True
    if spec.value is not None:
        return bool((spec.value >= _ALL).all())
    producer = walk.producer(source)
    while producer.type_name in ("Convert", "Reshape", "Squeeze", "Unsqueeze", "Broadcast"):
        told = walk.spec(producer.inputs[0])
        if told.elements and all(element == size for element in told.sizes() or ()):
            return True
        if told.value is not None and bool((told.value >= _ALL).all()):
            return True
        producer = walk.producer(producer.inputs[0])
    return False
