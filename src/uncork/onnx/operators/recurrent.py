"""GRU, LSTM and RNN: sequences of steps, one or two directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import lowering
from uncork.types import ElementType

T = ElementType
_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
_ACTIVATIONS = {
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "RNN": ("Tanh",),
}


@lowering("GRU", "LSTM", "RNN")
def _recurrent(
    g: Graph, call: Call, data: Source, weights: Source, recurrence: Source
) -> tuple[Source, ...]:
    kind = call.op_type
    hidden = call.integer("hidden_size") or g.sizes(recurrence)[-1]
    if not hidden or hidden < 1:
        raise ValidationError("attribute 'hidden_size': expected 1 or more")
    walk = call.one_of("direction", "forward", "forward", "reverse", "bidirectional")
    walks = 2 if walk == "bidirectional" else 1
    batch_first = bool(call.integer("layout"))
    if not batch_first:
        data = g.transpose(data, [1, 0, 2])
    lengths = _lengths(g, call, data)
    states = [_state(g, call, 5, data, walks, hidden, batch_first)]
    if kind == "LSTM":
        states.append(_state(g, call, 6, data, walks, hidden, batch_first))
    attributes: dict[str, Any] = {
        "hidden_size": hidden,
        "direction": walk,
        "activations": _activations(call, walks),
    }
    if call.get("clip"):
        attributes["clip"] = call.number("clip")
    before_reset = kind == "GRU" and bool(call.integer("linear_before_reset"))
    bias = _bias(g, call, walks, hidden, before_reset)
    order = [2, 0, 3, 1]  # of the gates of LSTM: here i, o, f, c, there f, i, c, o
    if kind == "LSTM":
        weights, recurrence = (_gates(g, w, hidden, order) for w in (weights, recurrence))
        bias = _gates(g, bias, hidden, order)
        if call.has(7) or call.integer("input_forget"):
            raise call.refuse(
                "LSTM with peepholes (P) or input_forget",
                "no exporter of today writes them: make the steps of single operators",
            )
    if kind == "GRU":
        attributes["linear_before_reset"] = before_reset
    found = g.several(
        f"{kind}Sequence",
        data,
        *states,
        lengths,
        weights,
        recurrence,
        bias,
        opset=5,
        **attributes,
    )
    return _outputs(g, found, batch_first)


def _outputs(g: Graph, found: Sequence[Source], batch_first: bool) -> tuple[Source, ...]:
    """Y and the last states, laid out as ONNX has them."""
    every, *last = found
    if batch_first:
        return g.transpose(every, [0, 2, 1, 3]), *last
    return g.transpose(every, [2, 1, 0, 3]), *(g.transpose(s, [1, 0, 2]) for s in last)


def _lengths(g: Graph, call: Call, data: Source) -> Source:
    """How many steps each row has; all of them where nothing is said."""
    if call.has(4):
        return call[4]
    batch, steps, _ = g.sizes(data)
    if batch is not None and steps is not None:
        return g.constant(np.full(batch, steps, np.int64), T.i64)
    return g.broadcast(g.size_of(data, 1), g.size_of(data, 0))


def _state(
    g: Graph, call: Call, position: int, data: Source, walks: int, hidden: int, batch_first: bool
) -> Source:
    """An initial state, [batch, walks, hidden]; zeros where none is given."""
    if call.has(position):
        given = call[position]
        return given if batch_first else g.transpose(given, [1, 0, 2])
    batch = g.sizes(data)[0]
    kind = g.type(data)
    if batch is not None:
        return g.constant(np.zeros((batch, walks, hidden), kind.dtype), kind)
    shape = g.concat([g.size_of(data, 0), g.i64([walks, hidden])], 0)
    return g.broadcast(g.like(0.0, data), shape)


def _bias(g: Graph, call: Call, walks: int, hidden: int, before_reset: bool) -> Source:
    """The biases of both products added, but for the hidden gate of GRU where that is apart."""
    gates = _GATES[call.op_type]
    kind = g.type(call[0])
    if not call.has(3):
        count = gates + 1 if before_reset else gates
        return g.constant(np.zeros((walks, count * hidden), kind.dtype), kind)
    value = g.known(call[3])
    if value is not None and kind in (T.f32, T.f64):
        width = gates * hidden
        w, r = value[:, :width], value[:, width:]
        if before_reset:
            gate = 2 * hidden
            total = np.concatenate([w[:, :gate] + r[:, :gate], w[:, gate:], r[:, gate:]], axis=1)
        else:
            total = w + r
        return g.constant(np.ascontiguousarray(total), kind)
    own, other = g.split(call[3], [gates * hidden, gates * hidden], 1)
    if not before_reset:
        return g.plus(own, other)
    parts = [g.split(b, [2 * hidden, hidden], 1) for b in (own, other)]
    return g.concat([g.plus(parts[0][0], parts[1][0]), parts[0][1], parts[1][1]], 1)


def _gates(g: Graph, source: Source, hidden: int, order: Sequence[int]) -> Source:
    """Weights with their gates, which are along axis 1, in another order."""
    value = g.known(source)
    if value is not None:
        parts = np.split(value, len(order), axis=1)
        joined = np.concatenate([parts[i] for i in order], axis=1)
        return g.constant(joined, g.type(source))
    tensors = g.split(source, [hidden] * len(order), 1)
    return g.concat([tensors[i] for i in order], 1)


def _activations(call: Call, walks: int) -> tuple[str, ...]:
    """The activations, which are the same in both directions."""
    defaults = _ACTIVATIONS[call.op_type]
    given = call.texts("activations") or list(defaults) * walks
    count = len(defaults)
    ValidationError.when(
        len(given) < count * walks, f"attribute 'activations': expected {count * walks} names"
    )
    one = [name.lower() for name in given[:count]]
    call.refuse_if(
        walks == 2 and [name.lower() for name in given[count : 2 * count]] != one,
        "other activations backwards than forwards",
        "make two layers of one direction each",
    )
    return tuple(one)
