"""Which kernel runs a GRU, LSTM or RNN cell: that of a sequence of one step, whose rows have no
lengths.
"""

from __future__ import annotations

import numpy as np

from uncork.kernels.extents import extents
from uncork.kernels.kernel_plan import Selection
from uncork.kernels.layer import Layer
from uncork.kernels.recurrent.select import Walked, planned, require_no_additions
from uncork.ops._common.recurrent import Recurrent
from uncork.ops.lstm_cell import LSTM, LSTM1
from uncork.types import Dimension, ElementType, PartialShape, TensorSpec


def select_cell(layer: Layer) -> Selection:
    operation = layer.of(Recurrent)
    if isinstance(operation, LSTM1):
        require_no_additions(layer)
    states = 2 if isinstance(operation, LSTM) else 1
    x, w, r = (layer.input(position) for position in (0, 1 + states, 2 + states))
    b = layer.optional(3 + states)
    if b is None:
        b = _zeros(operation, x.element_type)
        if w.value is None or r.value is None:
            return "weights of the call without B"
    batch, inner = extents(x)
    weights = [_with_direction(source) for source in (w, r, b)]
    return planned(operation, Walked(x, (batch, 1, inner), "", (False,)), weights, layer, True)


def _zeros(operation: Recurrent, element_type: ElementType) -> TensorSpec:
    """Biases of zeros, for a cell that has none."""
    count = operation.bias_count() * operation.hidden_size
    return TensorSpec(element_type, PartialShape([count]), np.zeros(count, element_type.dtype))


def _with_direction(spec: TensorSpec) -> TensorSpec:
    """The weights of a cell as those of a sequence of one direction."""
    shape = PartialShape([Dimension(1, 1), *spec.shape.dims])
    return TensorSpec(spec.element_type, shape, None if spec.value is None else spec.value[None])
