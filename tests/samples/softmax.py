"""SoftMax-1, -8 and LogSoftmax-5. Worked by hand: the powers of 2 as e^(ln 2 * n)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays, shapes
from tests.samples._elementwise import numbers, of_type
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.softmax import LogSoftmax, SoftMax1, SoftMax8

LN2 = math.log(2)
DATA = np.array([[0, LN2], [LN2, LN2]], np.float32)
ROWS = np.array([[1 / 3, 2 / 3], [1 / 2, 1 / 2]], np.float32)
COLUMNS = np.array([[1 / 3, 1 / 2], [2 / 3, 1 / 2]], np.float32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


EXAMPLES = [
    Sample("the default axis is 1", [DATA], [ROWS]),
    Sample("axis 0", [DATA], [COLUMNS], {"axis": 0}),
    Sample("no overflow", [f32(1000, 1000, -1000)], [f32(0.5, 0.5, 0)], {"axis": 0}),
    Sample("a part of minus infinity", [f32(-np.inf, 0, 0)], [f32(0, 0.5, 0.5)], {"axis": 0}),
    Sample("only minus infinity", [f32(-np.inf, -np.inf)], [f32(np.nan, np.nan)], {"axis": 0}),
    Sample("empty", [np.zeros((2, 0), np.float32)], [np.zeros((2, 0), np.float32)]),
]
FROM_END = [Sample("axis from the end", [DATA], [COLUMNS], {"axis": -2})]
REFUSALS = [
    Refusal("axis past the rank", [f32(1, 2)], r"axis 1 is outside -1\.\.0 for rank 1"),
    Refusal(
        "integers",
        [np.array([[1]])],
        r"'data' \(port 0\): expected a floating-point type .* got i64",
    ),
]


@st.composite
def cases(draw: st.DrawFn, from_end: bool) -> Case:
    shape = draw(shapes(min_rank=1, max_rank=4, max_side=3))
    data, name = draw(arrays(shape, FLOATS))
    return Case(
        [data], {"axis": draw(st.integers(-len(shape) if from_end else 0, len(shape) - 1))}, [name]
    )


def loop(case: Case, formula: Callable[[float, list[float]], float]) -> list[np.ndarray]:
    data = numbers(case.inputs[0], case.types[0])
    axis = case.attributes["axis"] % data.ndim
    values = []
    for place in np.ndindex(*data.shape):
        row = [data[(*place[:axis], i, *place[axis + 1 :])] for i in range(data.shape[axis])]
        values.append(formula(data[place], row))
    return [of_type(values, data.shape, case.types[0])]


def softmax(x: float, row: list[float]) -> float:
    return math.exp(x) / sum(map(math.exp, row))


SAMPLES = [
    Samples(SoftMax8, EXAMPLES + FROM_END, REFUSALS, cases(True), lambda c: loop(c, softmax)),
    Samples(
        SoftMax1,
        EXAMPLES,
        [
            *REFUSALS,
            Refusal("negative axis", [DATA], r"'axis': expected at least 0, got -1", {"axis": -1}),
        ],
        cases(False),
        lambda c: loop(c, softmax),
    ),
    Samples(
        LogSoftmax,
        [
            Sample("the default axis is 1", [DATA], [np.log(ROWS)]),
            Sample("axis from the end", [DATA], [np.log(COLUMNS)], {"axis": -2}),
            Sample("no overflow", [f32(1000, 0)], [f32(0, -1000)], {"axis": 0}),
            Sample("empty", [np.zeros((0, 2), np.float32)], [np.zeros((0, 2), np.float32)]),
        ],
        REFUSALS,
        cases(True),
        lambda c: loop(c, lambda x, row: x - math.log(sum(map(math.exp, row)))),
    ),
]
