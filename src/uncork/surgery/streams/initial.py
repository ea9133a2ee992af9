"""Inputs that are nothing but initial states: in a stream the state is inside, and they go."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from uncork.ir.model import Model
from uncork.types import Array

#: The ports of initial states, by the type of the layer.
_PORTS = {"RNNSequence": (1,), "GRUSequence": (1,), "LSTMSequence": (1, 2)}

#: Layers behind which a tensor is more than an initial state.
_ENDS = frozenset({*_PORTS, "Result", "Assign", "ReadValue"})


def initial_inputs(model: Model, timed: Collection[int]) -> list[int]:
    """The positions of inputs that recurrent layers alone read, as what they begin with."""
    found = []
    for position, number in enumerate(model.parameters):
        shape = model.inputs[position].shape
        if position not in timed and shape.is_static and _begins_alone(model, number):
            found.append(position)
    return found


def _begins_alone(model: Model, number: int) -> bool:
    """Whether all that is made of an input ends in initial states, and something does."""
    behind = {number}
    ends = False
    for node in model.nodes:
        ports = [port for port, source in enumerate(node.inputs) if source.node in behind]
        if not ports:
            continue
        others = [source.node for source in node.inputs if source.node not in behind]
        if set(ports) <= set(_PORTS.get(node.type_name, ())):
            ends = True
        elif node.type_name in _ENDS or not all(_is_constant(model, other) for other in others):
            return False
        else:
            behind.add(node.id)
    return ends


def _is_constant(model: Model, number: int) -> bool:
    return model.by_id[number].type_name == "Const"


def zeros(model: Model, position: int) -> Array:
    """What an initial state is where nobody says it."""
    port = model.inputs[position]
    return np.zeros(port.shape.static, port.element_type.dtype)
