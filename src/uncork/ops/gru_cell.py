"""GRUCell-3: one step of a gated recurrent unit.

    z = f(x Wz' + h Rz' + Bz)        r = f(x Wr' + h Rr' + Br)
    linear_before_reset = false:  n = g(x Wh' + (r * h) Rh' + Bh)          B = [Bz, Br, Bh]
    linear_before_reset = true :  n = g(x Wh' + r * (h Rh' + Rbh) + Wbh)   B = [Bz, Br, Wbh, Rbh]
    h' = (1 - z) * n + z * h         gate order in W and R: z, r, h

Page: operation-specs/sequence/gru-cell-3. Its example has a B of 768 for a hidden size of 128 with
linear_before_reset; the text, 4 * hidden_size, holds. `clip` limits the three arguments of f and g,
not the inner h Rh' + Rbh. Further decisions: _recurrent.py.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.recurrent import Recurrent, State, activation_names, bias_parts
from uncork.ops._operation import register
from uncork.ops._ports import Attribute, boolean
from uncork.types import Array


class GRU(Recurrent):
    """One step of a gated recurrent unit, for the cell and the sequence."""

    gates = 3
    activations = activation_names("sigmoid", "tanh")
    linear_before_reset = Attribute(boolean, default=False)

    def bias_count(self) -> int:
        return self.gates + self.linear_before_reset

    def step(self, x: Array, state: State, w: Array, r: Array, b: Array | None) -> State:
        (h,) = state
        wz, wr, wh = np.split(w, 3)
        rz, rr, rh = np.split(r, 3)
        bz, br, *bh = bias_parts(b, self.bias_count(), h)
        update = self.gate(0, x @ wz.T + h @ rz.T + bz)
        reset = self.gate(0, x @ wr.T + h @ rr.T + br)
        if self.linear_before_reset:
            input_bias, recurrent_bias = bh
            new = self.gate(1, x @ wh.T + reset * (h @ rh.T + recurrent_bias) + input_bias)
        else:
            new = self.gate(1, x @ wh.T + (reset * h) @ rh.T + bh[0])
        return ((1 - update) * new + update * h,)


@register("GRUCell", 3)
class GRUCell3(GRU, states=("initial_hidden_state",)):
    """One step for some rows."""
