"""LSTMSequence-1, -5: a long short-term memory (see lstm_cell.py) over sequences of their own
lengths, walked as in gru_sequence.py.

Pages: operation-specs/sequence/lstm-sequence-1, -5; they say the same. Version 1 has in files what
LSTMCell-1 has. Decisions: _recurrent.py.
"""

from __future__ import annotations

from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops._operation import register
from uncork.ops._ports import REAL, Input
from uncork.ops.lstm_cell import LSTM, LSTM1


class _LSTMSequence(RecurrentSequence, LSTM, states=("initial_hidden_state", "initial_cell_state")):
    """Steps for some rows."""


@register("LSTMSequence", 1)
class LSTMSequence1(LSTM1, _LSTMSequence):
    P = Input(REAL, optional=True)


@register("LSTMSequence", 5)
class LSTMSequence5(_LSTMSequence):
    """Without the additions of version 1."""
