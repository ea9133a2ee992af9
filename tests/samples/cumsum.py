"""CumSum-3. The numbered examples are those of the specification page."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._elementwise import NUMBERS, numbers, of_type
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.cumsum import CumSum

ROW = np.array([1, 2, 3, 4, 5], np.float32)
ZERO = np.array(0)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


EXAMPLES = [
    Sample("page example 1", [ROW, ZERO], [f32(1, 3, 6, 10, 15)]),
    Sample("page example 2: exclusive", [ROW, ZERO], [f32(0, 1, 3, 6, 10)], {"exclusive": True}),
    Sample("page example 3: reverse", [ROW, ZERO], [f32(15, 14, 12, 9, 5)], {"reverse": True}),
    Sample(
        "page example 4: both",
        [ROW, ZERO],
        [f32(14, 12, 9, 5, 0)],
        {"exclusive": True, "reverse": True},
    ),
    Sample(
        "no axis is axis 0",
        [np.array([[1, 2], [3, 4]], np.float32)],
        [np.array([[1, 2], [4, 6]], np.float32)],
        openvino="OpenVINO wants the axis",
    ),
    Sample(
        "axis from the end",
        [np.array([[1, 2], [3, 4]], np.float32), np.array(-1)],
        [np.array([[1, 3], [3, 7]], np.float32)],
    ),
    Sample("i8 wraps", [np.array([100, 100], np.int8), ZERO], [np.array([100, -56], np.int8)]),
    Sample(
        "empty",
        [np.zeros((0, 2), np.float32), ZERO],
        [np.zeros((0, 2), np.float32)],
        {"exclusive": True},
    ),
    Sample(
        "f16 adds in f32",
        [np.array([2048, 1, 1], np.float16), ZERO],
        [np.array([2048, 2048, 2050], np.float16)],
    ),
]
REFUSALS = [
    Refusal("axis past the rank", [ROW, np.array(1)], r"axis 1 is outside -1\.\.0 for rank 1"),
    Refusal(
        "two axes",
        [ROW, np.array([0, 0])],
        r"'axis': expected a scalar or one element, got shape \[2\]",
    ),
    Refusal(
        "a scalar", [np.float32(1), ZERO], r"'data': expected at least one dimension, got a scalar"
    ),
    Refusal("a float axis", [ROW, f32(0)], r"'axis' \(port 1\): expected one of i64, i32, got f32"),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes(min_rank=1, max_rank=4, max_side=3))
    data, name = draw(arrays(shape, NUMBERS))
    attributes = draw(
        st.fixed_dictionaries({}, optional={"exclusive": st.booleans(), "reverse": st.booleans()})
    )
    if draw(st.integers(0, 4)) == 0:
        return Case([data], attributes, [name])
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return Case(
        [data, draw(st.sampled_from([np.array(axis), np.array([axis], np.int32)]))],
        attributes,
        [name],
    )


def loop(case: Case) -> list[np.ndarray]:
    data = numbers(case.inputs[0], case.types[0])
    axis = (int(case.inputs[1].reshape(-1)[0]) if len(case.inputs) > 1 else 0) % data.ndim
    values = []
    for place in np.ndindex(*data.shape):
        j, size = place[axis], data.shape[axis]
        taken = range(j, size) if case.attributes.get("reverse") else range(j + 1)
        own = {j} if case.attributes.get("exclusive") else set()
        values.append(
            sum(data[(*place[:axis], i, *place[axis + 1 :])] for i in taken if i not in own)
        )
    return [of_type(values, data.shape, case.types[0])]


SAMPLES = [Samples(CumSum, EXAMPLES, REFUSALS, cases(), loop)]
