"""Recurrent layers step by step, in a Loop: for f64, which onnxruntime's GRU, LSTM and RNN lack.

Tensors lie as in the IR: x [batch, steps, inputs], states [batch, directions, hidden], and W, R, B
with a first axis of directions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from uncork.export.onnx.families.bodies import repeated
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.ops._common.recurrent import WALKS, Recurrent
from uncork.ops.gru_cell import GRU
from uncork.ops.lstm_cell import LSTM1

_NODES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}


class Steps:
    """The steps of one direction: W [gates * hidden, inputs], R [gates * hidden, hidden], and B or
    none.
    """

    def __init__(self, op: Recurrent, w: Tensor, r: Tensor, b: Tensor | None) -> None:
        self._op, self._w, self._r, self._b = op, w, r, b

    def step(self, g: Graph, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        """The states after a step; x [batch, inputs], states [batch, hidden]."""
        given = g.op("MatMul", x, g.transpose(self._w, [1, 0]))
        if isinstance(self._op, GRU):
            return [self._gru(g, given, states[0])]
        total = g.op("Add", given, g.op("MatMul", states[0], g.transpose(self._r, [1, 0])))
        if self._b is not None:
            total = g.op("Add", total, self._b)
        if self._op.gates == 4:
            return self._lstm(g, total, states[1])
        return [self._active(g, total, 0)]

    def _gru(self, g: Graph, given: Tensor, h: Tensor) -> Tensor:
        """The state after a step of a GRU, from its update and reset gates."""
        assert isinstance(self._op, GRU)
        x = [self._biased(g, self._gate(g, given, i), i) for i in range(3)]
        own = [g.transpose(g.slice(self._r, *self._range(i), 0), [1, 0]) for i in range(3)]
        update, reset = (
            self._active(g, g.op("Add", x[i], g.op("MatMul", h, own[i])), 0) for i in range(2)
        )
        if self._op.linear_before_reset:
            inner = g.op("Mul", reset, self._biased(g, g.op("MatMul", h, own[2]), 3))
        else:
            inner = g.op("MatMul", g.op("Mul", reset, h), own[2])
        new = self._active(g, g.op("Add", x[2], inner), 1)
        rest = g.op("Sub", g.number(1, update), update)
        return g.op("Add", g.op("Mul", rest, new), g.op("Mul", update, h))

    def _lstm(self, g: Graph, total: Tensor, c: Tensor) -> list[Tensor]:
        """The states after a step of an LSTM, whose gates stand as f, i, c, o."""
        f, i, n, o = (self._gate(g, total, index) for index in range(4))
        forget = self._active(g, f, 0)
        coupled = isinstance(self._op, LSTM1) and self._op.input_forget
        enter = g.op("Sub", g.number(1, forget), forget) if coupled else self._active(g, i, 0)
        kept, added = g.op("Mul", forget, c), g.op("Mul", enter, self._active(g, n, 1))
        cell = g.op("Add", kept, added)
        shown = g.op(_NODES[self._op.functions()[2]], cell)
        return [g.op("Mul", self._active(g, o, 0), shown), cell]

    def _range(self, gate: int) -> tuple[int, int]:
        return gate * self._op.hidden_size, (gate + 1) * self._op.hidden_size

    def _gate(self, g: Graph, tensor: Tensor, gate: int) -> Tensor:
        return g.slice(tensor, *self._range(gate), 1)

    def _biased(self, g: Graph, tensor: Tensor, gate: int) -> Tensor:
        if self._b is None:
            return tensor
        return g.op("Add", tensor, g.slice(self._b, *self._range(gate), 0))

    def _active(self, g: Graph, tensor: Tensor, function: int) -> Tensor:
        clip = self._op.clip
        if 0 < clip < math.inf:
            tensor = g.op("Clip", tensor, g.number(-clip, tensor), g.number(clip, tensor))
        return g.op(_NODES[self._op.functions()[function]], tensor)


def sequence_by_steps(
    g: Graph,
    op: Recurrent,
    direction: str,
    x: Tensor,
    states: Sequence[Tensor],
    lengths: Tensor,
    weights: Sequence[Tensor],
) -> list[Tensor]:
    """Y and the last states; a row that has ended keeps its states, and gives zeros."""
    live_until = g.unsqueeze(g.cast(lengths, I64), [1])
    count = g.scalar(g.dim(x, 1))
    last_step = g.op("Sub", count, g.constant(1, I64))
    outputs: list[list[Tensor]] = []
    for index, backwards in enumerate(WALKS[direction]):
        w, r, b = (g.op("Gather", t, g.constant(index, I64), axis=0) for t in weights)
        layer = Steps(op, w, r, b)

        def step(
            inner: Graph,
            iteration: Tensor,
            now: Sequence[Tensor],
            layer: Steps = layer,
            backwards: bool = backwards,
        ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
            number = inner.op("Sub", last_step, iteration) if backwards else iteration
            live = inner.op("Less", number, live_until)
            new = layer.step(inner, inner.op("Gather", x, number, axis=1), now)
            kept = [inner.op("Where", live, n, old) for n, old in zip(new, now, strict=True)]
            return kept, [inner.op("Where", live, new[0], inner.number(0, new[0]))]

        starts = [g.op("Gather", s, g.constant(index, I64), axis=1) for s in states]
        *last, y = repeated(g, count, starts, step)
        if backwards:
            y = g.op("Slice", y, [-1], [-(2**63) + 1], [0], [-1])
        outputs.append([g.op("Transpose", y, perm=[1, 0, 2]), *last])
    return [g.concat([g.unsqueeze(t, [1]) for t in each], 1) for each in zip(*outputs, strict=True)]
