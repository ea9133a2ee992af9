"""RNNCell-0: one step of a plain recurrent unit.

    h' = f(x W' + h R' + B)

Page: operation-specs/sequence/rnn-cell-0 (rnn-cell-3 in other editions); files write it as opset1.
The page wants B; where it is absent it counts as zeros, as in the other cells. Further decisions:
_recurrent.py.
"""

from __future__ import annotations

from uncork.ops._common.recurrent import Recurrent, State, activation_names, bias_parts
from uncork.ops._operation import register
from uncork.types import Array


class RNN(Recurrent):
    """One step of a plain recurrent unit, for the cell and the sequence."""

    gates = 1
    activations = activation_names("tanh")

    def step(self, x: Array, state: State, w: Array, r: Array, b: Array | None) -> State:
        (h,) = state
        (bias,) = bias_parts(b, 1, h)
        return (self.gate(0, x @ w.T + h @ r.T + bias),)


@register("RNNCell", 1)
class RNNCell0(RNN, states=("H",)):
    """One step for some rows."""
