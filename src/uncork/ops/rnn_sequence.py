"""RNNSequence-5: a plain recurrent unit (see rnn_cell.py) over sequences of their own lengths,
walked as in gru_sequence.py.

Page: operation-specs/sequence/rnn-sequence-5. Decisions: _recurrent.py.
"""

from __future__ import annotations

from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops._operation import register
from uncork.ops._ports import INTEGER, REAL, Input, Output
from uncork.ops.rnn_cell import RNN


@register("RNNSequence", 5)
class RNNSequence5(RecurrentSequence, RNN):
    X = Input(REAL, "T")
    H = Input(REAL, "T")
    sequence_lengths = Input(INTEGER, ids=True)
    W = Input(REAL, "T")
    R = Input(REAL, "T")
    B = Input(REAL, "T")
    Y = Output("T")
    Ho = Output("T")
