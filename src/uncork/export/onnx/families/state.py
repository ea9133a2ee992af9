"""ReadValue and Assign: a variable becomes an additional input and output, which the caller carries
from one call to the next.

The input has a value for the first call, which holds when it is left out. Where the model computes
the first value there is a
second input, `is_set`, which says whether the first one is given; left out, it is false.
"""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.families.bodies import branches
from uncork.export.onnx.graph import BOOLEAN, Graph, State, Tensor
from uncork.export.onnx.registry import lowers
from uncork.export.onnx.signatures import carrier
from uncork.export.onnx.tensors import small_tensor
from uncork.ops.state import Assign3, ReadValue3
from uncork.types import PartialShape


@lowers("ReadValue")
def read_value(g: Graph, op: ReadValue3, initial: Tensor | None) -> Tensor:
    """The value of the variable before the call."""
    spec = g.outputs[0]
    if g.is_body:
        g.refuse("a variable that is read in a body")
    if spec.rank is None:
        g.refuse("the rank of the variable is not known")
    state = g.settings.states.get(op.variable_id)
    if state is None:
        name = g.settings.names.unique(op.variable_id)
        state = State(spec.element_type, Tensor(name, spec.element_type, spec.shape))
        g.settings.states[op.variable_id] = state
        start = initial.value if initial is not None and initial.value is not None else None
        if start is None:
            start = np.zeros([d.static_size or 0 for d in spec.shape], spec.element_type.dtype)
        state.initial[name] = small_tensor(name, start, carrier(spec.element_type))
    if initial is None or initial.value is not None:
        return state.value
    if state.is_set is None:
        name = g.settings.names.unique(f"{op.variable_id}.is_set")
        state.is_set = Tensor(name, BOOLEAN, PartialShape([]))
        state.initial[name] = small_tensor(name, np.array(False), BOOLEAN)
    return branches(g, state.is_set, [state.value], [initial], [spec])[0]


@lowers("Assign")
def assign(g: Graph, op: Assign3, value: Tensor) -> Tensor:
    """The value of the variable after the call."""
    if g.is_body:
        g.refuse("a variable that is assigned in a body")
    state = g.settings.states.get(op.variable_id)
    if state is None:
        g.refuse(f"variable '{op.variable_id}' is assigned and never read")
    state.new = value
    return value
