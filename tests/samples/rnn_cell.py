"""RNNCell-0 (opset1)."""

from __future__ import annotations

import numpy as np

from tests.samples._recurrent import attribute_refusals, cases, cell_loop
from tests.samples._sample import Refusal, Sample, Samples
from uncork.ops.rnn_cell import RNNCell0


def f32(*rows: object) -> np.ndarray:
    return np.array(rows, np.float32)


#   x W' = [3, -1, 2] with x = [1, 2];  h R' = [1, 4, 0] with h = [1, 2, 0];  sum with B = [5, 2,
# -1]
PLAIN = [
    f32([1, 2]),
    f32([1, 2, 0]),
    f32([1, 1], [1, -1], [0, 1]),
    f32([1, 0, 5], [0, 2, 0], [0, 0, 9]),
    f32(1, -1, -3),
]
RELU = {"hidden_size": 3, "activations": ("relu",)}
SMALL = [f32([1]), f32([0.5]), f32([0.5]), f32([0.25]), f32(0.1)]

EXAMPLES = [
    Sample("relu is a plain sum, cut at 0", PLAIN, [f32([5, 2, 0])], RELU),
    Sample("clip", PLAIN, [f32([3.5, 2, 0])], {**RELU, "clip": 3.5}),
    Sample(
        "tanh by default", SMALL, [f32([0.6199968680])], {"hidden_size": 1}
    ),  # tanh(.5 + .125 + .1)
    Sample(
        "an empty list is the default",
        SMALL,
        [f32([0.6199968680])],
        {"hidden_size": 1, "activations": ()},
    ),
    Sample(
        "sigmoid", SMALL, [f32([0.6737070995])], {"hidden_size": 1, "activations": ("Sigmoid",)}
    ),
    Sample("without a bias", PLAIN[:4], [f32([4, 3, 2])], RELU, openvino="OpenVINO's node needs B"),
    Sample(
        "the page's shapes",
        [
            np.ones((1, 16), "f4"),
            np.ones((1, 128), "f4"),
            np.ones((128, 16), "f4"),
            np.ones((128, 128), "f4"),
            np.full(128, -143, "f4"),
        ],
        [np.ones((1, 128), "f4")],
        {"hidden_size": 128, "activations": ("relu",)},
    ),
    Sample(
        "the sigmoid of a large number is right at both ends",
        [
            np.array([[-100.0], [-800.0], [40.0]]),
            np.zeros((3, 1)),
            np.ones((1, 1)),
            np.ones((1, 1)),
            np.zeros(1),
        ],
        [
            np.array([[3.720075976020836e-44], [0.0], [1.0]])
        ],  # exp(-100); exp(-800) is below the smallest double
        {"hidden_size": 1, "activations": ("sigmoid",)},
        rtol=1e-15,
        atol=0,
    ),
    Sample(
        "NaN goes through",
        [f32([np.nan], [1]), f32([0], [0]), f32([1]), f32([1]), f32(0)],
        [f32([np.nan], [1])],
        {"hidden_size": 1, "activations": ("relu",)},
        openvino="the relu of NaN is 0 there",
    ),
]
REFUSALS = [
    *attribute_refusals("RNN", SMALL),
    Refusal(
        "B of another size",
        [*SMALL[:4], f32(1, 2)],
        r"'B': expected \[hidden_size = 1\], got \[2\]",
        {"hidden_size": 1},
    ),
    Refusal(
        "W for other inputs",
        [SMALL[0], SMALL[1], f32([1, 2]), *SMALL[3:]],
        r"'W': expected \[hidden_size = 1, input_size = 1\], got",
        {"hidden_size": 1},
    ),
]

SAMPLES = [Samples(RNNCell0, EXAMPLES, REFUSALS, cases("RNN", False), cell_loop("RNN"))]
