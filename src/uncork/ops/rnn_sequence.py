"""RNNSequence-5: a plain recurrent unit (see rnn_cell.py) over sequences of their own lengths,
walked as in gru_sequence.py.

Page: operation-specs/sequence/rnn-sequence-5. Decisions: _recurrent.py.
"""

from __future__ import annotations

from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops._operation import register
from uncork.ops.rnn_cell import RNN


@register("RNNSequence", 5)
class RNNSequence5(RecurrentSequence, RNN, states=("H",)):
    """Steps for some rows."""
