"""BatchNormInference-1, -5 and GroupNormalization-12. Worked by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays, shapes
from tests.samples._elementwise import numbers, of_type
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.batch_norm import BatchNormInference1, BatchNormInference5, GroupNormalization


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


DATA = np.array([[5, 7], [1, 3]], np.float32)
GAMMA, BETA, MEAN, VARIANCE = f32(2, 3), f32(10, 20), f32(1, 3), f32(4, 16)
#: Channel 0: 2 * (x - 1) / 2 + 10; channel 1: 3 * (x - 3) / 4 + 20.
RESULT = np.array([[14, 23], [10, 20]], np.float32)
THREE = f32(1, 2, 3)


def in_order(version: int, data, gamma=GAMMA, beta=BETA, mean=MEAN, variance=VARIANCE):
    return (
        [data, gamma, beta, mean, variance] if version == 5 else [gamma, beta, data, mean, variance]
    )


@st.composite
def cases(draw: st.DrawFn, version: int) -> Case:
    data, name = draw(arrays(draw(shapes(min_rank=2, max_rank=4, max_side=3)), FLOATS))
    parameters = [draw(arrays((data.shape[1],), (name,), low, 3))[0] for low in (-2, -2, -2, 0)]
    return Case(
        in_order(version, data, *parameters),
        {"epsilon": draw(st.sampled_from([0.25, 1.0]))},
        [name] * 5,
    )


def loop(case: Case, version: int) -> list[np.ndarray]:
    gamma, beta, data, mean, variance = (
        numbers(a, t) for a, t in zip(case.inputs, case.types, strict=True)
    )
    if version == 5:
        data, gamma, beta = gamma, beta, data
    values = []
    for place in np.ndindex(*data.shape):
        c = place[1]
        values.append(
            gamma[c] * (data[place] - mean[c]) / math.sqrt(variance[c] + case.attributes["epsilon"])
            + beta[c]
        )
    return [of_type(values, data.shape, case.types[0])]


def entry(operation, version: int) -> Samples:
    exact = {"epsilon": 0.0}
    return Samples(
        operation,
        [
            Sample("two channels", in_order(version, DATA), [RESULT], exact),
            Sample(
                "epsilon", in_order(version, DATA, variance=f32(3, 15)), [RESULT], {"epsilon": 1.0}
            ),
            Sample(
                "spatial places",
                in_order(version, DATA.T.reshape(1, 2, 2)),
                [RESULT.T.reshape(1, 2, 2)],
                exact,
            ),
            Sample("empty", in_order(version, DATA[:0]), [RESULT[:0]], exact),
        ],
        [
            Refusal(
                "one dimension",
                in_order(version, DATA[0]),
                r"'data': expected at least 2 dimensions, got shape \[2\]",
                exact,
            ),
            Refusal(
                "too many gammas",
                in_order(version, DATA, gamma=THREE),
                r"'gamma': expected 2 values, one for each channel, got shape \[3\]",
                exact,
            ),
            Refusal(
                "too many variances",
                in_order(version, DATA, variance=THREE),
                r"'variance': expected 2 values, one for",
                exact,
            ),
            Refusal(
                "a mean of rank 2",
                in_order(version, DATA, mean=DATA),
                r"'mean': expected a 1-D tensor, got shape \[2,2\]",
                exact,
            ),
            Refusal(
                "negative epsilon",
                in_order(version, DATA),
                r"'epsilon': expected at least 0, got -1",
                {"epsilon": -1.0},
            ),
            Refusal("no epsilon", in_order(version, DATA), r"'epsilon' is missing"),
        ],
        cases(version),
        lambda case: loop(case, version),
    )


@st.composite
def group_cases(draw: st.DrawFn) -> Case:
    groups, each = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    batch, rest = draw(st.integers(0, 2)), draw(shapes(max_rank=2, max_side=2))
    data, name = draw(arrays((batch, groups * each, *rest), FLOATS))
    parameters = [draw(arrays((groups * each,), (name,), -2, 2))[0] for _ in range(2)]
    return Case(
        [data, *parameters],
        {"num_groups": groups, "epsilon": draw(st.sampled_from([0.25, 1.0]))},
        [name] * 3,
    )


def group_loop(case: Case) -> list[np.ndarray]:
    data, scale, bias = (numbers(a, t) for a, t in zip(case.inputs, case.types, strict=True))
    each = data.shape[1] // case.attributes["num_groups"]
    values = []
    for place in np.ndindex(*data.shape):
        first = place[1] // each * each
        items = [
            data[p]
            for p in itertools.product(
                [place[0]], range(first, first + each), *map(range, data.shape[2:])
            )
        ]
        mean = math.fsum(items) / len(items)
        variance = math.fsum((x - mean) ** 2 for x in items) / len(items)
        values.append(
            scale[place[1]]
            * (data[place] - mean)
            / math.sqrt(variance + case.attributes["epsilon"])
            + bias[place[1]]
        )
    return [of_type(values, data.shape, case.types[0])]


PAIRS = np.array([[[1], [3], [0], [4]]], np.float32)
FOUR = f32(1, 2, 3, 4)
GROUPS = {"num_groups": 2, "epsilon": 0.0}
SAMPLES = [
    entry(BatchNormInference5, 5),
    entry(BatchNormInference1, 1),
    Samples(
        GroupNormalization,
        [
            Sample(
                "two groups of two",
                [PAIRS, FOUR, f32(0, 0, 10, 10)],
                [np.array([[[-1], [2], [7], [14]]], np.float32)],
                GROUPS,
            ),
            Sample(
                "one group",
                [PAIRS, f32(1, 1, 1, 1), f32(0, 0, 0, 0)],
                [(PAIRS - 2) / np.float32(2.5**0.5)],
                GROUPS | {"num_groups": 1},
            ),
            Sample(
                "epsilon",
                [PAIRS, f32(1, 1, 1, 1), f32(0, 0, 0, 0)],
                [np.array([[[-0.5], [0.5], [-2 / 7**0.5], [2 / 7**0.5]]], np.float32)],
                GROUPS | {"epsilon": 3.0},
            ),
            Sample("empty", [PAIRS[:0], FOUR, FOUR], [PAIRS[:0]], GROUPS),
        ],
        [
            Refusal(
                "groups that do not divide",
                [PAIRS, FOUR, FOUR],
                r"num_groups 3 does not divide the 4 channels of data \[1,4,1\]",
                GROUPS | {"num_groups": 3},
            ),
            Refusal(
                "no groups",
                [PAIRS, FOUR, FOUR],
                r"'num_groups': expected at least 1, got 0",
                GROUPS | {"num_groups": 0},
            ),
            Refusal(
                "too few scales",
                [PAIRS, f32(1), FOUR],
                r"'scale': expected 4 values, one for each channel, got shape \[1\]",
                GROUPS,
            ),
            Refusal(
                "one dimension",
                [FOUR, FOUR, FOUR],
                r"'data': expected at least 2 dimensions, got shape \[4\]",
                GROUPS,
            ),
        ],
        group_cases(),
        group_loop,
    ),
]
