"""GRUCell-3. Worked by hand: relu makes every gate a plain sum, and one step with sigmoid and tanh
written out.
"""

from __future__ import annotations

import numpy as np

from tests.samples._recurrent import attribute_refusals, cases, cell_loop
from tests.samples._sample import Refusal, Sample, Samples
from uncork.ops.gru_cell import GRUCell3


def f32(*rows: object) -> np.ndarray:
    return np.array(rows, np.float32)


# Gates in the order z, r, h, two units each.
W = f32([1], [0], [0], [1], [2], [-1])
R = f32([0, 1], [1, 0], [1, 0], [0, 1], [1, 1], [0, 1])
RELU = {"hidden_size": 2, "activations": ("relu", "relu")}
#   z = [1+2-1, 0+1+1] = [2, 2]        r = [0+1+0, 1+2-1] = [1, 2]        r*h = [1, 4], its product
# with Rh = [5, 4]   n = [2+5+0, -1+4-1] = [7, 2]       h' = [(1-2)*7 + 2*1, (1-2)*2 + 2*2] = [-5,
# 2]
PLAIN = [f32([1]), f32([1, 2]), W, R, f32(-1, 1, 0, -1, 0, -1)]
#   h Rh' = [3, 2], with its bias [4, 2], times r = [4, 4];  n = [2+4+0, -1+4-1] = [6, 2];  h' =
# [-6+2, -2+4] = [-4, 2]
AFTER = [*PLAIN[:4], f32(-1, 1, 0, -1, 0, -1, 1, 0)]
ONE = {"hidden_size": 1}
#   z = sigmoid(.5 + .125 + .1) = .6737070995    r = sigmoid(-.25 + .25 + .2) = .5498339973
#   n = tanh(1 - r * .5 + .3) = .7719287826      h' = (1 - z) * n + z * .5
SMALL = [
    f32([1]),
    f32([0.5]),
    f32([0.5], [-0.25], [1]),
    f32([0.25], [0.5], [-1]),
    f32(0.1, 0.2, 0.3),
]
#   n = tanh(1 + r * (-.5 - .4) + .3) = .6669057348
SMALL_AFTER = [*SMALL[:4], f32(0.1, 0.2, 0.3, -0.4)]
#: f(0) = 1/2 and tanh(0) = 0: without weights the state is halved.
HALVED = [
    np.ones((1, 16), "f4"),
    np.full((1, 128), 3, "f4"),
    np.zeros((384, 16), "f4"),
    np.zeros((384, 128), "f4"),
]

EXAMPLES = [
    Sample("gate order and reset before the product", PLAIN, [f32([-5, 2])], RELU),
    Sample("linear_before_reset", AFTER, [f32([-4, 2])], {**RELU, "linear_before_reset": True}),
    #   clipped: z = [1.5, 1.5], r = [1, 1.5], r*h = [1, 3] -> [4, 3], n = [6, 1] -> [1.5, 1], h' =
    # [-.75 + 1.5, -.5 + 3]
    Sample(
        "clip limits the gates, not the state", PLAIN, [f32([0.75, 2.5])], {**RELU, "clip": 1.5}
    ),
    #   r = [1, 1.5] * [4, 2] = [4, 3], n = [6, 1] -> [1.5, 1]: the inner product of 4 is not
    # clipped
    Sample(
        "clip does not limit the inner product",
        AFTER,
        [f32([0.75, 2.5])],
        {**RELU, "clip": 1.5, "linear_before_reset": True},
    ),
    Sample("default activations", SMALL, [f32([0.5887284312])], ONE),
    Sample(
        "an empty list is the default", SMALL, [f32([0.5887284312])], {**ONE, "activations": ()}
    ),
    Sample(
        "default activations, linear_before_reset",
        SMALL_AFTER,
        [f32([0.5544601563])],
        {**ONE, "linear_before_reset": True},
    ),
    Sample(
        "without a bias",
        [f32([1]), f32([1, 2]), W, R],
        #   z = [3, 1], r = [1, 3], r*h = [1, 6] -> [7, 6], n = [9, 5], h' = [-2*9 + 3, 0*5 + 1*2]
        [f32([-15, 2])],
        RELU,
        openvino="OpenVINO's node needs B",
    ),
    Sample(
        "the page's shapes",
        [*HALVED, np.zeros(512, "f4")],
        [np.full((1, 128), 1.5, "f4")],
        {"hidden_size": 128, "linear_before_reset": True},
    ),
    Sample(
        "no rows",
        [np.zeros((0, 1), "f4"), np.zeros((0, 1), "f4"), *SMALL[2:]],
        [np.zeros((0, 1), "f4")],
        ONE,
        openvino="OpenVINO does not compile it",
    ),
    Sample(
        "gates far from 0 saturate without a warning",
        [
            f32([1000], [-1000]),
            f32([0.5], [0.5]),
            f32([1], [1], [1]),
            np.zeros((3, 1), "f4"),
            np.zeros(3, "f4"),
        ],
        #   z = 1: h' = h;  z = 0, n = -1: h' = -1
        [f32([0.5], [-1])],
        ONE,
    ),
    Sample(
        "f64 is f64",
        [
            np.array([[2.0**-40]]),
            np.array([[1.0]]),
            np.ones((3, 1)),
            np.ones((3, 1)),
            np.array([-1.0, 0, 0]),
        ],
        #   e = 2**-40: z = e, r = 1 + e, n = e + (1 + e) = 1 + 2e, h' = (1 - e)(1 + 2e) + e = 1 +
        # 2e up to e*e
        [np.array([[1 + 2.0**-39]])],
        {**ONE, "activations": ("relu", "relu")},
        rtol=0,
        atol=2.0**-52,
    ),
]
REFUSALS = [
    *attribute_refusals("GRU", SMALL),
    Refusal(
        "B for linear_before_reset",
        SMALL_AFTER,
        r"'B': expected \[3 . hidden_size = 3\], got \[4\]",
        ONE,
    ),
    Refusal(
        "B without linear_before_reset",
        SMALL,
        r"'B': expected \[4 . hidden_size = 4\], got \[3\]",
        {**ONE, "linear_before_reset": True},
    ),
    Refusal(
        "another batch",
        [SMALL[0], f32([1], [1]), *SMALL[2:]],
        "'initial_hidden_state': expected .batch_size = 1, hidden_size = 1",
        ONE,
    ),
    Refusal(
        "X of rank 3", [np.ones((1, 1, 1), "f4"), *SMALL[1:]], r"'X': expected .*got \[1,1,1\]", ONE
    ),
    Refusal(
        "R is not square",
        [*SMALL[:3], np.ones((3, 2), "f4"), SMALL[4]],
        r"'R': expected \[3 . hidden_size = 3, hidden_size = 1\], got",
        ONE,
    ),
]

SAMPLES = [Samples(GRUCell3, EXAMPLES, REFUSALS, cases("GRU", False), cell_loop("GRU"))]
