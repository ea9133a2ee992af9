"""NormalizeL2-1, GRN-1, LRN-1. Worked by hand: 3, 4 has the norm 5."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays, shapes
from tests.samples._elementwise import numbers, of_type
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.normalization import GRN, LRN, NormalizeL2

DATA = np.array([[3, 4], [6, 8]], np.float32)
UNIT = np.array([[0.6, 0.8], [0.6, 0.8]], np.float32)
LAST = np.array([-1])
L2 = {"eps": 0.0, "eps_mode": "add"}
WINDOW = {"alpha": 1.0, "beta": 1.0, "bias": 0.0, "size": 3}
AXES = [
    Refusal("axis past the rank", [DATA, np.array([2])], r"axes 2 is outside -2\.\.1 for rank 2"),
    Refusal("axis twice", [DATA, np.array([0, 0])], r"axes \[0, 0\] name an axis twice"),
    Refusal(
        "axes of rank 2",
        [DATA, np.array([[0]])],
        r"'axes': expected a scalar or a 1-D tensor, got shape \[1,1\]",
    ),
]


def with_attributes(attributes):
    return [Refusal(r.name, r.inputs, r.message, attributes) for r in AXES]


@st.composite
def cases(
    draw: st.DrawFn,
    attributes: st.SearchStrategy,
    axes: bool = True,
    ranks: tuple[int, int] = (1, 4),
) -> Case:
    shape = draw(shapes(*ranks, max_side=3))
    data, name = draw(arrays(shape, FLOATS))
    inputs = [data]
    if axes:
        chosen = draw(st.lists(st.integers(0, len(shape) - 1), max_size=len(shape), unique=True))
        inputs.append(
            np.array([a - len(shape) if draw(st.booleans()) else a for a in chosen], np.int64)
        )
    return Case(inputs, draw(attributes), [name])


def sum_of_squares(data, place, axes, reach=None):
    total = 0.0
    sides = []
    for i, size in enumerate(data.shape):
        whole = (
            range(size)
            if reach is None
            else range(max(0, place[i] - reach), min(size, place[i] + reach + 1))
        )
        sides.append(whole if i in axes else [place[i]])
    for other in itertools.product(*sides):
        total += data[other] ** 2
    return total


def each(case: Case, formula, axes=None, reach=None) -> list[np.ndarray]:
    data = numbers(case.inputs[0], case.types[0])
    axes = {int(a) % data.ndim for a in case.inputs[1]} if axes is None else axes
    values = [
        formula(data[p], sum_of_squares(data, p, axes, reach)) for p in np.ndindex(*data.shape)
    ]
    return [of_type(values, data.shape, case.types[0])]


def l2(case: Case) -> list[np.ndarray]:
    eps, mode = case.attributes["eps"], case.attributes["eps_mode"]
    return each(case, lambda x, s: x / math.sqrt(s + eps if mode == "add" else max(s, eps)))


def grn(case: Case) -> list[np.ndarray]:
    return each(case, lambda x, s: x / math.sqrt(s + case.attributes["bias"]), {1})


def lrn(case: Case) -> list[np.ndarray]:
    a = case.attributes
    scale = a["alpha"] / a["size"] ** len(case.inputs[1])
    return each(case, lambda x, s: x / (a["bias"] + scale * s) ** a["beta"], None, a["size"] // 2)


ROW = np.array([[1, 2, 3, 4]], np.float32)
SAMPLES = [
    Samples(
        NormalizeL2,
        [
            Sample("rows", [DATA, LAST], [UNIT], L2),
            Sample(
                "eps is added",
                [DATA, LAST],
                [np.array([[0.5, 4 / 6], [6 / 111**0.5, 8 / 111**0.5]], np.float32)],
                L2 | {"eps": 11.0},
            ),
            Sample(
                "eps is the least",
                [DATA, LAST],
                [np.array([[0.5, 4 / 6], [0.6, 0.8]], np.float32)],
                {"eps": 36.0, "eps_mode": "max"},
            ),
            Sample(
                "no axes: ones",
                [DATA, np.zeros((0,), np.int64)],
                [np.ones((2, 2), np.float32)],
                L2,
                openvino="OpenVINO refuses an empty constant",
            ),
            Sample("a scalar axis", [DATA, np.array(1)], [UNIT], L2),
        ],
        [
            *with_attributes(L2),
            Refusal(
                "no eps_mode",
                [DATA, LAST],
                "'eps_mode' is missing: expected one of add, max",
                {"eps": 1.0},
            ),
        ],
        cases(
            st.fixed_dictionaries(
                {"eps": st.sampled_from([0.5, 2.0]), "eps_mode": st.sampled_from(["add", "max"])}
            )
        ),
        l2,
    ),
    Samples(
        GRN,
        [
            Sample("channels", [DATA], [UNIT], {"bias": 0.0}),
            Sample(
                "bias",
                [DATA],
                [np.array([[0.5, 4 / 6], [6 / 111**0.5, 8 / 111**0.5]], np.float32)],
                {"bias": 11.0},
            ),
            Sample(
                "spatial places",
                [DATA.reshape(1, 2, 2)],
                [np.array([[[3 / 45**0.5, 4 / 80**0.5], [6 / 45**0.5, 8 / 80**0.5]]], np.float32)],
                {"bias": 0.0},
            ),
        ],
        [
            Refusal(
                "one dimension",
                [DATA[0]],
                r"'data': expected 2 to 4 dimensions, got shape \[2\]",
                {"bias": 0.0},
            ),
            Refusal(
                "five dimensions",
                [DATA[None, None, None]],
                r"expected 2 to 4 dimensions, got shape \[1,1,1,2,2\]",
                {"bias": 0.0},
            ),
            Refusal("no bias", [DATA], "'bias' is missing", {}),
        ],
        cases(st.fixed_dictionaries({"bias": st.sampled_from([0.5, 2.0])}), False, (2, 4)),
        grn,
    ),
    Samples(
        LRN,
        [
            Sample(
                "a window of 3",
                [ROW, np.array([1])],
                [np.array([[3 / 5, 6 / 14, 9 / 29, 12 / 25]], np.float32)],
                WINDOW,
            ),
            Sample(
                "bias and exponent",
                [ROW, np.array([1])],
                [
                    np.array([[1, 2, 3, 4]], np.float32)
                    / np.sqrt(1 + np.array([[5, 14, 29, 25]], np.float32) / 3)
                ],
                WINDOW | {"bias": 1.0, "beta": 0.5},
            ),
            Sample(
                "an even size reaches size // 2 to both sides",
                [ROW, np.array([1])],
                [np.array([[2 / 5, 4 / 14, 6 / 29, 8 / 25]], np.float32)],
                WINDOW | {"size": 2},
                openvino="OpenVINO reaches (size - 1) // 2",
            ),
            Sample(
                "two axes",
                [DATA, np.array([0, 1])],
                [DATA * 9 / 125],
                WINDOW,
                openvino="OpenVINO sums over the spatial dimensions whatever the axes",
            ),
            Sample(
                "no axes: each alone",
                [ROW, np.zeros((0,), np.int64)],
                [1 / ROW],
                WINDOW,
                openvino="OpenVINO refuses an empty constant",
            ),
        ],
        [
            *with_attributes(WINDOW),
            Refusal(
                "size 0", [DATA, LAST], "'size': expected at least 1, got 0", WINDOW | {"size": 0}
            ),
        ],
        cases(
            st.fixed_dictionaries(
                {
                    "alpha": st.sampled_from([0.5, 2.0]),
                    "beta": st.sampled_from([0.75, 1.0]),
                    "bias": st.sampled_from([1.0, 2.0]),
                    "size": st.integers(1, 5),
                }
            ),
            ranks=(1, 3),
        ),
        lrn,
    ),
]
