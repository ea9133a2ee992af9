"""RNNSequence-5: lengths and directions by running sums (see _recurrent.py)."""

from __future__ import annotations

import numpy as np

from tests.samples._recurrent import cases, sequence_loop, sequence_refusals, sequence_samples
from tests.samples._sample import Sample, Samples
from tests.samples.rnn_cell import PLAIN, SMALL, f32
from uncork.ops.rnn_sequence import RNNSequence5


def one_step(cell: list[np.ndarray]) -> list[np.ndarray]:
    x, h, w, r, b = cell
    return [x[:, None], h[:, None], np.array([1] * len(x)), w[None], r[None], b[None]]


EXAMPLES = [
    Sample(
        "one step",
        one_step(PLAIN),
        [f32([[[5, 2, 0]]]), f32([[5, 2, 0]])],
        {"hidden_size": 3, "activations": ("relu",)},
    ),
    Sample(
        "one step, tanh by default",
        one_step(SMALL),
        [f32([[[0.6199968680]]]), f32([[0.6199968680]])],
        {"hidden_size": 1},
    ),
    Sample(
        "one step, empty list of activations",
        one_step(SMALL),
        [f32([[[0.6199968680]]]), f32([[0.6199968680]])],
        {"hidden_size": 1, "activations": (), "direction": "reverse"},
    ),
    Sample(
        # 1 -> 1 + 2 - 3/2 = 3/2 -> 3/2 + 2 - 3/2 ...: every unit adds 1/128 of all, 16/16 of x and
        # a bias of -1/2
        "the page's shapes",
        [
            np.ones((1, 4, 16), "f4"),
            np.ones((1, 1, 128), "f4"),
            np.array([4]),
            np.full((1, 128, 16), 1 / 16, "f4"),
            np.full((1, 128, 128), 1 / 128, "f4"),
            np.full((1, 128), -0.5, "f4"),
        ],
        [f32([[[1.5] * 128, [2] * 128, [2.5] * 128, [3] * 128]]), np.full((1, 1, 128), 3, "f4")],
        {"hidden_size": 128, "activations": ("relu",)},
    ),
    Sample(
        "each direction has its own weights",
        [
            f32([[2], [3]]),
            f32([[0], [0]]),
            np.array([2]),
            f32([[1]], [[2]]),
            f32([[1]], [[10]]),
            f32([1], [0]),
        ],
        # forward 2+1 = 3, 3+1+3 = 7; reverse 2*3 = 6, 2*2 + 10*6 = 64
        [f32([[[3], [7]], [[64], [6]]]), f32([[7], [64]])],
        {"hidden_size": 1, "direction": "bidirectional", "activations": ("relu",)},
    ),
    *sequence_samples("RNN"),
]

SAMPLES = [
    Samples(
        RNNSequence5, EXAMPLES, sequence_refusals("RNN"), cases("RNN", True), sequence_loop("RNN")
    )
]
