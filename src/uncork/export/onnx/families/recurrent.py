"""GRU, LSTM, RNN: sequences and cells as ONNX's own recurrent nodes.

ONNX has the steps in front and the batch second, the biases of input and state apart, the gates of
LSTM in another order, and the
initial state, where the IR has zeros, as the last state of a row of length 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from uncork.export.onnx.families.recurrent_steps import Steps, sequence_by_steps
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._common.recurrent import WALKS, Recurrent, RecurrentSequence
from uncork.ops.gru_cell import GRU
from uncork.ops.lstm_cell import LSTM, LSTM1
from uncork.types import ElementType

_NAMES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
_NODES = {1: "RNN", 3: "GRU", 4: "LSTM"}
#: The gates f, i, c, o of the IR in ONNX's order i, o, f, c.
_LSTM_ORDER = (1, 3, 0, 2)


@lowers("GRUSequence", "RNNSequence", "LSTMSequence")
def sequence(g: Graph, op: RecurrentSequence, x: Tensor, *rest: Tensor) -> list[Tensor]:
    """ONNX's GRU, LSTM or RNN; the last state of a row whose length may be 0 is made zeros."""
    count = _states(op)
    states, lengths, w, r, b = rest[:count], *rest[count : count + 4]
    steps, known = x.shape[1].static_size if x.rank == 3 else None, lengths.known()
    if x.type is ElementType.f64:
        made = sequence_by_steps(g, op, op.direction, x, states, lengths, [w, r, b])
        return _without_empty(g, made, lengths, known)
    whole = known is not None and steps is not None and steps > 0 and all(n == steps for n in known)
    given = None if whole else _lengths(g, lengths)
    y, *last = _node(
        g,
        op,
        g.transpose(x, [1, 0, 2]),
        [g.transpose(s, [1, 0, 2]) for s in states],
        given,
        w,
        r,
        b,
    )
    outputs = [g.transpose(y, [2, 1, 0, 3]), *(g.transpose(s, [1, 0, 2]) for s in last)]
    return outputs if whole else _without_empty(g, outputs, lengths, known)


def _lengths(g: Graph, lengths: Tensor) -> Tensor:
    """Lengths in i32, as ONNX has them; those beyond it stay longer than any row."""
    if lengths.value is None and lengths.type.bits > 31 and lengths.type is not ElementType.i32:
        wide = g.cast(lengths, I64)
        most, least = (g.constant(n, I64) for n in (2**31 - 1, 0))
        is_row = g.op("And", g.op("GreaterOrEqual", wide, least), g.op("LessOrEqual", wide, most))
        lengths = g.op("Where", is_row, wide, most)
    return g.cast(lengths, ElementType.i32)


def _without_empty(
    g: Graph, outputs: list[Tensor], lengths: Tensor, known: list[int] | None
) -> list[Tensor]:
    """The outputs with zeros as the last states of rows without steps."""
    if known is not None and all(n > 0 for n in known):
        return outputs
    blank = g.unsqueeze(g.op("Equal", g.cast(lengths, I64), g.constant(0, I64)), [1, 2])
    return [outputs[0], *(g.op("Where", blank, g.number(0, s), s) for s in outputs[1:])]


def _node(
    g: Graph,
    op: Recurrent,
    x: Tensor,
    states: Sequence[Tensor],
    lengths: Tensor | None,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
) -> list[Tensor]:
    """The outputs of ONNX's recurrent node: Y and the last states, in ONNX's layout."""
    count = len(WALKS[op.direction]) if isinstance(op, RecurrentSequence) else 1
    attributes: dict[str, Any] = {
        "hidden_size": op.hidden_size,
        "direction": op.direction if isinstance(op, RecurrentSequence) else "forward",
        "activations": [_NAMES[name] for name in op.functions()] * count,
    }
    if 0 < op.clip < math.inf:
        attributes["clip"] = float(op.clip)
    if isinstance(op, GRU):
        attributes["linear_before_reset"] = int(op.linear_before_reset)
    if isinstance(op, LSTM1) and op.input_forget:
        w, r = _coupled(g, op, w), _coupled(g, op, r)
        b = None if b is None else _coupled(g, op, b)
    order = _LSTM_ORDER if op.gates == 4 else tuple(range(op.gates))
    weights = [_ordered(g, t, op.gates, op.hidden_size, order) for t in (w, r)]
    bias = None if b is None else _bias(g, op, b, order)
    return g.ops(
        _NODES[op.gates],
        x,
        *weights,
        bias,
        lengths,
        *states,
        types=[None] * (1 + len(states)),
        **attributes,
    )


def _coupled(g: Graph, op: Recurrent, tensor: Tensor) -> Tensor:
    """The weights of the gate i = 1 - f, which is f of the negated sum; ONNX's own coupling is the
    other way round.
    """
    if op.functions()[0] != "sigmoid":
        g.refuse("input_forget with another activation than sigmoid")
    hidden = op.hidden_size
    forget = g.slice(tensor, 0, hidden, 1)
    return g.op(
        "Concat",
        forget,
        g.op("Neg", forget),
        g.slice(tensor, 2 * hidden, 4 * hidden, 1),
        axis=1,
        shape=tensor.shape,
    )


def _ordered(g: Graph, tensor: Tensor, gates: int, hidden: int, order: Sequence[int]) -> Tensor:
    """Weights with their blocks of hidden_size, along the second axis, in another order."""
    if list(order) == list(range(gates)):
        return tensor
    parts = [g.slice(tensor, i * hidden, (i + 1) * hidden, 1) for i in order]
    return g.op("Concat", *parts, axis=1, shape=tensor.shape)


def _bias(g: Graph, op: Recurrent, b: Tensor, order: Sequence[int]) -> Tensor:
    """The biases of the input, then those of the state: zeros, or with linear_before_reset the
    fourth block.
    """
    hidden = op.hidden_size
    split = isinstance(op, GRU) and op.linear_before_reset
    parts = [g.slice(b, i * hidden, (i + 1) * hidden, 1) for i in order]
    blank = g.op("Sub", parts[0], parts[0])
    state = [blank, blank, g.slice(b, 3 * hidden, 4 * hidden, 1)] if split else [blank] * op.gates
    return g.op("Concat", *parts, *state, axis=1)


@lowers("GRUCell", "RNNCell", "LSTMCell")
def cell(g: Graph, op: Recurrent, x: Tensor, *given: Tensor) -> list[Tensor]:
    """ONNX's GRU, LSTM or RNN, as a sequence of one step."""
    count = _states(op)
    states, w, r = given[:count], given[count], given[count + 1]
    b = given[count + 2] if len(given) > count + 2 else None
    if x.type is ElementType.f64:
        return Steps(op, w, r, b).step(g, x, states)
    first, *lifted, wide, own = (g.unsqueeze(t, [0]) for t in (x, *states, w, r))
    bias = None if b is None else g.unsqueeze(b, [0])
    _, *last = _node(g, op, first, lifted, None, wide, own, bias)
    return [g.op("Squeeze", t, [0]) for t in last]


def _states(op: Recurrent) -> int:
    """How many states there are: LSTMs have a cell beside the hidden one."""
    return 2 if isinstance(op, LSTM) else 1
