"""LSTMCell-1, -4: one step of a long short-term memory.

    f = f(x Wf' + h Rf' + Bf)    i = f(x Wi' + h Ri' + Bi)
    o = f(x Wo' + h Ro' + Bo)    n = g(x Wc' + h Rc' + Bc)
    c' = f * c + i * n           h' = o * h(c')               gate order in W, R and B: f, i, c, o

Page: operation-specs/sequence/lstm-cell-1 (it speaks for -4 too). `clip` limits the arguments of f
and g, not c' before h.

Version 1 has more in files than its page tells:
- `weights_format`: the page has one order, fico, and OpenVINO computes in that order whatever the
  attribute says; it even writes "ifco" into files that never had it. So the order is fico here too;
  with `strict` another word is refused.
- `input_forget` = true couples the gates: i = 1 - f (ONNX LSTM). OpenVINO's CPU plugin overlooks
  it.
- a seventh input P with weights of peepholes, which OpenVINO adds as zeros when it saves and
  ignores when it runs. Their order is told in two ways, so only zeros are taken.
Further decisions: _recurrent.py.
"""

from __future__ import annotations

import numpy as np

from uncork.errors import UnsupportedError
from uncork.ops._common.recurrent import Recurrent, State, activation_names, bias_parts
from uncork.ops._operation import register
from uncork.ops._ports import REAL, Attribute, Input, boolean, one_of
from uncork.types import Array, PartialShape, TensorSpec


class LSTM(Recurrent):
    """One step of a long short-term memory, for the cell and the sequence."""

    gates = 4
    activations = activation_names("sigmoid", "tanh", "tanh")

    def step(self, x: Array, state: State, w: Array, r: Array, b: Array | None) -> State:
        h, c = state
        wf, wi, wc, wo = np.split(w, 4)
        rf, ri, rc, ro = np.split(r, 4)
        bf, bi, bc, bo = bias_parts(b, 4, h)
        forget = self.gate(0, x @ wf.T + h @ rf.T + bf)
        enter = self.input_gate(x @ wi.T + h @ ri.T + bi, forget)
        leave = self.gate(0, x @ wo.T + h @ ro.T + bo)
        new = self.gate(1, x @ wc.T + h @ rc.T + bc)
        c = forget * c + enter * new
        return leave * self.activate(2, c), c

    def input_gate(self, values: Array, forget: Array) -> Array:
        return self.gate(0, values)


WEIGHTS_FORMATS = ("fico", "icof", "ifco", "ifoc", "iofc")


class LSTM1(LSTM):
    """The LSTM with the additions of version 1, for the cell and the sequence; see the top of this
    file.
    """

    weights_format = Attribute(one_of(*WEIGHTS_FORMATS), default="fico")
    input_forget = Attribute(boolean, default=False)

    def infer(self, *specs: TensorSpec | None) -> list[PartialShape]:
        if self.strict:
            self.require(
                self.weights_format == "fico",
                "attribute 'weights_format': expected fico, the page's order, got {}",
                self.weights_format,
            )
        peepholes = specs[-1]
        UnsupportedError.when(
            peepholes is not None and peepholes.value is not None and peepholes.value.any(),
            "input 'P': peephole weights other than 0 are not supported",
        )
        return super().infer(*specs)

    def input_gate(self, values: Array, forget: Array) -> Array:
        return 1 - forget if self.input_forget else super().input_gate(values, forget)


class _LSTMCell(LSTM, states=("initial_hidden_state", "initial_cell_state")):
    """One step for some rows."""


@register("LSTMCell", 1)
class LSTMCell1(LSTM1, _LSTMCell):
    P = Input(REAL, optional=True)


@register("LSTMCell", 4)
class LSTMCell4(_LSTMCell):
    """Without the additions of version 1."""
