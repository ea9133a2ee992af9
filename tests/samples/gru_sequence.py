"""GRUSequence-5: lengths and directions by running sums (see _recurrent.py), the formula by the
steps of gru_cell.py.
"""

from __future__ import annotations

import numpy as np

from tests.samples._recurrent import cases, sequence_loop, sequence_refusals, sequence_samples
from tests.samples._sample import Refusal, Sample, Samples
from tests.samples.gru_cell import AFTER, PLAIN, SMALL, SMALL_AFTER, f32
from uncork.ops.gru_sequence import GRUSequence5

RELU = {"hidden_size": 2, "activations": ("relu", "relu")}


def one_step(cell: list[np.ndarray]) -> list[np.ndarray]:
    """The inputs of a cell as those of a sequence of one step."""
    x, h, w, r, b = cell
    return [x[:, None], h[:, None], np.array([1] * len(x)), w[None], r[None], b[None]]


EXAMPLES = [
    Sample("one step", one_step(PLAIN), [f32([[[-5, 2]]]), f32([[-5, 2]])], RELU),
    Sample(
        "one step, linear_before_reset",
        one_step(AFTER),
        [f32([[[-4, 2]]]), f32([[-4, 2]])],
        {**RELU, "linear_before_reset": True, "direction": "reverse"},
    ),
    Sample(
        "one step, default activations",
        one_step(SMALL),
        [f32([[[0.5887284312]]]), f32([[0.5887284312]])],
        {"hidden_size": 1},
    ),
    Sample(
        "one step, empty list of activations",
        one_step(SMALL_AFTER),
        [f32([[[0.5544601563]]]), f32([[0.5544601563]])],
        {"hidden_size": 1, "linear_before_reset": True, "activations": ()},
    ),
    Sample(
        "the page's shapes: without weights a step halves the state",
        [
            np.ones((1, 4, 16), "f4"),
            np.full((1, 1, 128), 8, "f4"),
            np.array([4]),
            np.zeros((1, 384, 16), "f4"),
            np.zeros((1, 384, 128), "f4"),
            np.zeros((1, 384), "f4"),
        ],
        [
            f32([[[[4] * 128, [2] * 128, [1] * 128, [0.5] * 128]]])[0],
            np.full((1, 1, 128), 0.5, "f4"),
        ],
        {"hidden_size": 128},
    ),
    Sample(
        # r = 1, n = relu(x), z = relu(h): h' = (1 - h) x + h h.  Forward 2, (1-2)3+4 = 1, (1-1)1+1
        # = 1; reverse 1, 1, 1.
        "each direction has its own weights",
        [
            f32([[2], [3], [1]]),
            f32([[0], [0]]),
            np.array([3]),
            np.tile(f32([[0], [0], [1]]), (2, 1, 1)),
            f32([[1], [0], [0]], [[0], [0], [0]]),
            f32([0, 1, 0], [0.5, 1, 0]),  # reverse: z = 1/2: h' = x/2 + h/2
        ],
        # reverse: 1/2, 3/2 + 1/4 = 7/4, 1 + 7/8 = 15/8
        [f32([[[2], [1], [1]], [[1.875], [1.75], [0.5]]]), f32([[1], [1.875]])],
        {"hidden_size": 1, "direction": "bidirectional", "activations": ("relu", "relu")},
    ),
    *sequence_samples("GRU"),
]
BIAS = [*one_step(SMALL)[:5], np.ones((1, 4), "f4")]
REFUSALS = [
    *sequence_refusals("GRU"),
    Refusal(
        "B for linear_before_reset",
        BIAS,
        r"'B': expected \[num_directions = 1, 3 . hidden_size = 3\], got \[1,4\]",
        {"hidden_size": 1},
    ),
    Refusal(
        "B without linear_before_reset",
        one_step(SMALL),
        r"'B': expected \[num_directions = 1, 4 . hidden_size = 4\], got \[1,3\]",
        {"hidden_size": 1, "linear_before_reset": True},
    ),
]

SAMPLES = [Samples(GRUSequence5, EXAMPLES, REFUSALS, cases("GRU", True), sequence_loop("GRU"))]
