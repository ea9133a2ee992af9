"""GRUSequence-5: a gated recurrent unit (see gru_cell.py) over sequences of their own lengths.

    h_0 = initial_hidden_state
    h_{k+1} = step(X[b, t_k], h_k)  for k < sequence_lengths[b],  Y[b, d, t_k] = h_{k+1}
    forward: t_k = k;  reverse: t_k = sequence_lengths[b] - 1 - k
    bidirectional: d = 0 forward, d = 1 reverse

Page: operation-specs/sequence/gru-sequence-5. Decisions: _recurrent.py.
"""

from __future__ import annotations

from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops._operation import register
from uncork.ops.gru_cell import GRU


@register("GRUSequence", 5)
class GRUSequence5(RecurrentSequence, GRU, states=("initial_hidden_state",)):
    """Steps for some rows."""
