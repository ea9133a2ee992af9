"""Which kernel runs a GRU, LSTM or RNN cell: that of a sequence of one step, whose rows have no
lengths.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.ir.hints import Hints
from uncork.kernels.extents import extents
from uncork.kernels.kernel_plan import Selection
from uncork.kernels.recurrent.select import planned
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import selects_with_hints
from uncork.ops import Operation
from uncork.ops._common.recurrent import Recurrent
from uncork.ops.gru_cell import GRUCell3
from uncork.ops.lstm_cell import LSTMCell1, LSTMCell4
from uncork.ops.rnn_cell import RNNCell0
from uncork.types import Dimension, ElementType, PartialShape, TensorSpec


@selects_with_hints(GRUCell3, LSTMCell1, LSTMCell4, RNNCell0)
def select_cell(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec],
    target: Target,
    hints: Hints,
) -> Selection:
    assert isinstance(operation, Recurrent)
    if isinstance(operation, LSTMCell1) and operation.input_forget:
        return "no kernel for coupled gates"
    states = 2 if isinstance(operation, (LSTMCell1, LSTMCell4)) else 1
    x, *given = inputs[: 1 + states + 3]
    w, r, *biases = given[states:]
    assert x is not None and w is not None and r is not None
    b = biases[0] if biases else None
    if b is None:
        b = _zeros(operation, x.element_type)
        if w.value is None or r.value is None:
            return "weights of the call without B"
    batch, inner = extents(x)
    weights = [_with_direction(source) for source in (w, r, b)]
    return planned(operation, x, (batch, 1, inner), weights, "", (False,), target, hints, True)


def _zeros(operation: Recurrent, element_type: ElementType) -> TensorSpec:
    """Biases of zeros, for a cell that has none."""
    count = operation.bias_count() * operation.hidden_size
    return TensorSpec(element_type, PartialShape([count]), np.zeros(count, element_type.dtype))


def _with_direction(spec: TensorSpec) -> TensorSpec:
    """The weights of a cell as those of a sequence of one direction."""
    shape = PartialShape([Dimension(1, 1), *spec.shape.dims])
    return TensorSpec(spec.element_type, shape, None if spec.value is None else spec.value[None])
