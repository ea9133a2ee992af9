"""LSTMSequence-1, -5: lengths and directions by running sums (see _recurrent.py), the formula by
the steps of lstm_cell.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from tests.samples._recurrent import cases, sequence_loop, sequence_refusals, sequence_samples
from tests.samples._sample import Refusal, Sample, Samples
from tests.samples.lstm_cell import PLAIN, SMALL, WEIGHTS_FORMATS, f32
from uncork.ops.lstm_sequence import LSTMSequence1, LSTMSequence5


def one_step(cell: list[np.ndarray]) -> list[np.ndarray]:
    x, h, c, w, r, b = cell
    return [x[:, None], h[:, None], c[:, None], np.array([1] * len(x)), w[None], r[None], b[None]]


ONE = {"hidden_size": 1}
RELU = {**ONE, "activations": ("relu", "relu", "relu")}
EXAMPLES = [
    Sample("one step", one_step(PLAIN), [f32([[[90]]]), f32([[90]]), f32([[18]])], RELU),
    Sample(
        "one step, clipped",
        one_step(PLAIN),
        [f32([[[30.625]]]), f32([[30.625]]), f32([[12.25]])],
        {**RELU, "clip": 2.5},
    ),
    Sample(
        "one step, default activations",
        one_step(SMALL),
        [f32([[[0.1162565660]]]), f32([[0.1162565660]]), f32([[0.1966832169]])],
        ONE,
    ),
    Sample(
        "one step, empty list of activations",
        one_step(SMALL),
        [f32([[[0.1162565660]]]), f32([[0.1162565660]]), f32([[0.1966832169]])],
        {**ONE, "activations": (), "direction": "reverse"},
    ),
    Sample(
        "the page's shapes: without weights a step halves the cell state",
        [
            np.ones((1, 4, 16), "f4"),
            np.ones((1, 1, 128), "f4"),
            np.full((1, 1, 128), 8, "f4"),
            np.array([4]),
            np.zeros((1, 512, 16), "f4"),
            np.zeros((1, 512, 128), "f4"),
            np.zeros((1, 512), "f4"),
        ],
        [
            f32([[[2] * 128, [1] * 128, [0.5] * 128, [0.25] * 128]]),
            np.full((1, 1, 128), 0.25, "f4"),
            np.full((1, 1, 128), 0.5, "f4"),
        ],
        {"hidden_size": 128, "activations": ("sigmoid", "tanh", "relu")},
    ),
    Sample(
        # f = i = o = 1, n = x + k h with k = 0 forward and 1 in reverse, both from h = 0, c = 1
        "h and c are carried apart, each direction has its own weights",
        [
            f32([[2], [3]]),
            f32([[5], [5]]),
            f32([[1], [1]]),
            np.array([2]),
            np.tile(f32([[0], [0], [1], [0]]), (2, 1, 1)),
            f32([[0], [0], [0], [0]], [[0], [0], [1], [0]]),
            f32([1, 1, 0, 2], [1, 1, 0, 1]),
        ],
        # forward: c 3, 6, o = 2: h 6, 12; reverse: n = 3 + 5 = 8: c = h = 9; n = 2 + 9 = 11: c = h
        # = 20
        [f32([[[6], [12]], [[20], [9]]]), f32([[12], [20]]), f32([[6], [20]])],
        {**RELU, "direction": "bidirectional"},
    ),
    *sequence_samples("LSTM"),
]
EXTRA = {"input_forget": st.booleans(), "weights_format": st.sampled_from(WEIGHTS_FORMATS)}
ONLY_1 = [
    Sample(
        "zero peepholes",
        [*one_step(PLAIN), np.zeros((1, 3), "f4")],
        [f32([[[90]]]), f32([[90]]), f32([[18]])],
        RELU,
    ),
    # f = 2, i = 1 - 2: c' = 2*3 - 4, h' = 5*2
    Sample(
        "input_forget",
        one_step(PLAIN),
        [f32([[[10]]]), f32([[10]]), f32([[2]])],
        {**RELU, "input_forget": True},
    ),
]
REFUSALS_1 = [
    Refusal(
        "peepholes",
        [*one_step(PLAIN), np.full((1, 3), np.nan, "f4")],
        "'P': peephole weights other than 0 are not supported",
        RELU,
    ),
    Refusal(
        "peepholes of one direction",
        [*one_step(PLAIN), np.zeros((2, 3), "f4")],
        r"'P': expected \[num_directions = 1, 3 . hid",
        RELU,
    ),
]
#: OpenVINO no longer has version 1.
OLD = [replace(s, openvino="OpenVINO 2026 has no LSTMSequence-1") for s in EXAMPLES + ONLY_1]

SAMPLES = [
    Samples(
        LSTMSequence5,
        EXAMPLES,
        sequence_refusals("LSTM"),
        cases("LSTM", True),
        sequence_loop("LSTM"),
    ),
    Samples(
        LSTMSequence1,
        OLD,
        sequence_refusals("LSTM") + REFUSALS_1,
        cases("LSTM", True, EXTRA),
        sequence_loop("LSTM"),
    ),
]
