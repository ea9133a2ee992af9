"""LSTMCell-1, -4. Worked by hand: relu makes every gate a plain sum, and one step with sigmoid and
tanh written out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from tests.samples._recurrent import attribute_refusals, cases, cell_loop
from tests.samples._sample import Refusal, Sample, Samples
from uncork.ops.lstm_cell import WEIGHTS_FORMATS, LSTMCell1, LSTMCell4


def f32(*rows: object) -> np.ndarray:
    return np.array(rows, np.float32)


# One unit, gates in the order f, i, c, o, x = 1, h = 2, c = 3:
#   f = 1 + 2 - 1 = 2    i = 0 + 4 - 1 = 3    n = 2 + 2 + 0 = 4    o = 1 + 0 + 4 = 5
#   c' = 2*3 + 3*4 = 18    h' = 5*18 = 90
PLAIN = [
    f32([1]),
    f32([2]),
    f32([3]),
    f32([1], [0], [2], [1]),
    f32([1], [2], [1], [0]),
    f32(-1, -1, 0, 4),
]
RELU = {"hidden_size": 1, "activations": ("relu", "relu", "relu")}
#   f = sigmoid(.5 + .125 + .1) = .6737070995    i = sigmoid(-.25 + .25 + .2) = .5498339973
#   n = tanh(1 - .5 + .3) = .6640367703          o = sigmoid(.25 - .25 + .4) = .5986876601
#   c' = f * -.25 + i * n                        h' = o * tanh(c')
SMALL = [
    f32([1]),
    f32([0.5]),
    f32([-0.25]),
    f32([0.5], [-0.25], [1], [0.25]),
    f32([0.25], [0.5], [-1], [-0.5]),
    f32(0.1, 0.2, 0.3, 0.4),
]
SMALL_AFTER = [f32([0.1162565660]), f32([0.1966832169])]
ONE = {"hidden_size": 1}

EXAMPLES = [
    Sample("gate order", PLAIN, [f32([90]), f32([18])], RELU),
    #   f = 2, i = 2.5, n = 2.5, o = 2.5: c' = 6 + 6.25, which is not clipped before h; h' = 2.5 *
    # 12.25
    Sample(
        "clip limits the gates, not the cell state",
        PLAIN,
        [f32([30.625]), f32([12.25])],
        {**RELU, "clip": 2.5},
    ),
    Sample("default activations", SMALL, SMALL_AFTER, ONE),
    Sample("an empty list is the default", SMALL, SMALL_AFTER, {**ONE, "activations": ()}),
    Sample(
        "the page's shapes: without weights f = i = o = 1/2, n = 0",
        [
            np.ones((1, 16), "f4"),
            np.ones((1, 128), "f4"),
            np.full((1, 128), 6, "f4"),
            np.zeros((512, 16), "f4"),
            np.zeros((512, 128), "f4"),
            np.zeros(512, "f4"),
        ],
        [np.full((1, 128), 1.5, "f4"), np.full((1, 128), 3, "f4")],
        {"hidden_size": 128, "activations": ("sigmoid", "tanh", "relu")},
    ),
]
#   f = 3, i = 4, n = 4, o = 1: c' = 9 + 16, h' = 25
NO_BIAS = Sample("without a bias", PLAIN[:5], [f32([25]), f32([25])], RELU)
ONLY_4 = [replace(NO_BIAS, openvino="OpenVINO's LSTMCell-4 needs B")]
ONLY_1 = [
    NO_BIAS,
    Sample(
        "the order is fico whatever the attribute says",
        SMALL,
        SMALL_AFTER,
        {**ONE, "weights_format": "ifco"},
    ),
    Sample("peepholes of 0", [*SMALL, np.zeros(3, "f4")], SMALL_AFTER, ONE),
    Sample(
        # i = 1 - f: c' = f * -.25 + (1 - f) * n = .0482437090
        "input_forget couples the gates",
        SMALL,
        [f32([0.0288605262]), f32([0.0482437090])],
        {**ONE, "input_forget": True},
        openvino="the CPU plugin overlooks input_forget",
    ),
]
REFUSALS = [
    *attribute_refusals("LSTM", SMALL),
    Refusal(
        "another cell state",
        [*SMALL[:2], f32([1, 2]), *SMALL[3:]],
        r"'initial_cell_state': expected .*got \[1,2\]",
        ONE,
    ),
    Refusal(
        "three gates",
        [*SMALL[:3], f32([1], [1], [1]), *SMALL[4:]],
        r"'W': expected \[4 . hidden_size = 4, input_size = 1\], got \[3,1\]",
        ONE,
    ),
    Refusal(
        "B of three gates",
        [*SMALL[:5], f32(1, 1, 1)],
        r"'B': expected \[4 . hidden_size = 4\], got \[3\]",
        ONE,
    ),
]
REFUSALS_1 = [
    Refusal(
        "peepholes",
        [*SMALL, f32(0, 1, 0)],
        "'P': peephole weights other than 0 are not supported",
        ONE,
    ),
    Refusal(
        "peepholes of another size",
        [*SMALL, f32(0, 0)],
        r"'P': expected \[3 . hidden_size = 3\], got \[2\]",
        ONE,
    ),
    Refusal(
        "unknown order",
        SMALL,
        "'weights_format': expected one of fico, .*got 'zrh'",
        {**ONE, "weights_format": "zrh"},
    ),
    Refusal(
        "strict: another order",
        SMALL,
        "expected fico, the page's order, got ifco",
        {**ONE, "weights_format": "ifco"},
        strict=True,
    ),
]
EXTRA = {"input_forget": st.booleans(), "weights_format": st.sampled_from(WEIGHTS_FORMATS)}

SAMPLES = [
    Samples(LSTMCell4, EXAMPLES + ONLY_4, REFUSALS, cases("LSTM", False), cell_loop("LSTM")),
    Samples(
        LSTMCell1,
        EXAMPLES + ONLY_1,
        REFUSALS + REFUSALS_1,
        cases("LSTM", False, EXTRA),
        cell_loop("LSTM"),
    ),
]
