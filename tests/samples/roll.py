"""Roll-7. The numbered examples are those of the page."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.roll import Roll7

DATA = np.arange(1, 13, dtype=np.int32).reshape(4, 3)
I64 = np.int64

EXAMPLES = [
    Sample(
        "page example 1",
        [DATA, I64(1), I64(0)],
        [np.array([[10, 11, 12], [1, 2, 3], [4, 5, 6], [7, 8, 9]], np.int32)],
    ),
    Sample(
        "page example 2",
        [DATA, np.array([-1, 2]), np.array([0, 1])],
        [np.array([[5, 6, 4], [8, 9, 7], [11, 12, 10], [2, 3, 1]], np.int32)],
    ),
    Sample(
        "page example 3: an axis twice",
        [DATA, np.array([1, 2, 1]), np.array([0, 1, 0])],
        [np.array([[8, 9, 7], [11, 12, 10], [2, 3, 1], [5, 6, 4]], np.int32)],
    ),
    Sample(
        "one shift for two axes",
        [DATA[:2], I64(1), np.array([0, 1])],
        [np.array([[6, 4, 5], [3, 1, 2]], np.int32)],
        openvino="refuses it",
    ),
    Sample(
        "one shift in an element for two axes",
        [DATA[:2], np.array([1]), np.array([0, 1])],
        [np.array([[6, 4, 5], [3, 1, 2]], np.int32)],
        openvino="refuses it",
    ),
    Sample(
        "far",
        [DATA, I64(2**62 + 1), np.int32(-1)],
        [np.array([[2, 3, 1], [5, 6, 4], [8, 9, 7], [11, 12, 10]], np.int32)],
        openvino="narrows to 32 bits",
    ),
    Sample(
        "no axes",
        [DATA, I64(1), np.zeros((0,), I64)],
        [DATA],
        openvino="cannot read an empty constant",
    ),
    Sample(
        "strings",
        [np.array(["a", "b", "日本"], object), I64(1), I64(0)],
        [np.array(["日本", "a", "b"], object)],
        openvino="not for strings",
    ),
]
REFUSALS = [
    Refusal("axis", [DATA, I64(1), I64(2)], r"axes 2 is outside -2\.\.1 for rank 2"),
    Refusal(
        "numbers",
        [DATA, np.array([1, 2]), np.array([0, 1, 1])],
        r"one shift, or one for each axis: shift \[2\], axes \[3\]",
    ),
    Refusal(
        "shape of shift",
        [DATA, np.array([[1]]), I64(0)],
        r"'shift': expected a scalar or a 1-D tensor, got shape \[1,1\]",
    ),
    Refusal(
        "shape of axes",
        [DATA, I64(1), np.array([[0]])],
        r"'axes': expected a scalar or a 1-D tensor, got shape \[1,1\]",
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes(min_rank=1))
    axes = draw(st.lists(st.integers(-len(shape), len(shape) - 1), max_size=4))
    shifts = [draw(st.integers(-9, 9)) for _ in axes]
    data, name = draw(arrays(shape))
    if draw(st.booleans()):
        return Case(
            [data, np.array(draw(st.integers(-9, 9))), np.array(axes, np.int32)], {}, [name]
        )
    return Case([data, np.array(shifts, I64), np.array(axes, np.int32)], {}, [name])


def loop(case: Case) -> list[np.ndarray]:
    data, shift, axes = case.inputs
    total = [0] * data.ndim
    for k, axis in enumerate(axes.reshape(-1)):
        total[axis] += int(shift if shift.ndim == 0 else shift[k])
    output = np.empty(data.shape, data.dtype)
    for place in itertools.product(*map(range, data.shape)):
        output[tuple((p + t) % s for p, t, s in zip(place, total, data.shape, strict=True))] = data[
            place
        ]
    return [output]


SAMPLES = [Samples(Roll7, EXAMPLES, REFUSALS, cases(), loop)]
