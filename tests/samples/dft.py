"""DFT-7, IDFT-7, RDFT-9, IRDFT-9: signals of a few numbers, whose transforms are known, and the
pages' shapes with zeros.
"""

from __future__ import annotations

import cmath
import itertools
import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import plain
from uncork.ops.dft import DFT7, IDFT7, IRDFT9, RDFT9


def pairs(values: Any, dtype: str = "f4") -> np.ndarray:
    """Complex numbers as pairs."""
    exact = np.asarray(values, complex)
    return np.stack([exact.real, exact.imag], axis=-1).astype(dtype)


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


LINE = [1, 2j, -1, 4]
#: Sums with the factors 1, -i, -1, i.
SPECTRUM = [1 + 2j - 1 + 4, 1 + 2 + 1 + 4j, 1 - 2j - 1 - 4, 1 - 2 + 1 - 4j]
FIRST = np.array([0])
REAL_LINE = f32([1, 2, 3, 4])
HALF = [10, -2 + 2j, -2]
KEPT = "takes a signal_size of -1 for a size"

FORWARD = [
    Sample("four numbers", [pairs(LINE), FIRST], [pairs(SPECTRUM)]),
    Sample(
        "filled up with zeros",
        [pairs([1, 2j]), FIRST, np.array([4])],
        [pairs([1 + 2j, 1 + 2, 1 - 2j, 1 - 2])],
    ),
    Sample("cut", [pairs([1, 2j, 7, 7]), FIRST, np.array([2])], [pairs([1 + 2j, 1 - 2j])]),
    Sample(
        "a size of -1 keeps it",
        [pairs(LINE), np.array([-1], np.int32), np.array([-1], np.int32)],
        [pairs(SPECTRUM)],
    ),
    Sample("two axes", [pairs([[1, 2], [3, 4]]), np.array([0, 1])], [pairs([[10, -2], [-4, 0]])]),
    Sample(
        "one of two axes", [pairs([[1, 2], [3, 4]]), np.array([-2])], [pairs([[4, 6], [-2, -2]])]
    ),
    Sample(
        "the page's unsorted axes, smaller",
        [np.zeros((2, 6, 5, 4, 2), "f4"), np.array([3, 1, 2]), np.array([3, -1, 8])],
        [np.zeros((2, 6, 8, 3, 2), "f4")],
    ),
    Sample("no axes", [pairs(LINE), np.zeros(0, "i8")], [pairs(LINE)], openvino="refuses it"),
    Sample(
        "f64",
        [pairs([1e-300, 1e300], "f8"), FIRST],
        [pairs([1e300, -1e300], "f8")],
        openvino="computes in f32",
    ),
    Sample(
        "an axis without cells",
        [np.zeros((0, 2), "f4"), FIRST],
        [np.zeros((0, 2), "f4")],
        openvino="not for empty tensors",
    ),
    Sample(
        "an axis without cells filled up",
        [np.zeros((0, 2), "f4"), FIRST, np.array([3])],
        [np.zeros((3, 2), "f4")],
        openvino="not for empty tensors",
    ),
]
BACKWARD = [
    Sample("four numbers", [pairs(SPECTRUM), FIRST], [pairs(LINE)]),
    Sample("filled up with zeros", [pairs([4]), FIRST, np.array([4])], [pairs([1, 1, 1, 1])]),
    Sample("two axes", [pairs([[10, -2], [-4, 0]]), np.array([1, 0])], [pairs([[1, 2], [3, 4]])]),
]
TO_HALF = [
    Sample("four numbers", [REAL_LINE, FIRST], [pairs(HALF)]),
    Sample("an odd number", [REAL_LINE[:3], FIRST], [pairs([6, -1.5 + 0.75**0.5 * 1j])]),
    Sample("cut", [REAL_LINE, np.array([-1]), np.array([2])], [pairs([3, -1])]),
    Sample(
        "filled up with zeros",
        [REAL_LINE[:2], FIRST, np.array([4])],
        [pairs([3, 1 - 2j, -1])],
        openvino="reads past the data",
    ),
    Sample(
        "the last of the axes is halved",
        [f32([[1, 2], [3, 4], [5, 6]]), np.array([1, 0])],
        [pairs([[21, -3], [-6 + 12**0.5 * 1j, 0]])],
    ),
    Sample(
        "the page's unsorted axes, smaller",
        [np.zeros((2, 6, 5, 4), "f4"), np.array([3, 1, 2]), np.array([3, -1, 5])],
        [np.zeros((2, 6, 3, 3, 2), "f4")],
        openvino=KEPT,
    ),
    Sample(
        "no rows",
        [np.zeros((0, 4), "f4"), np.array([1])],
        [np.zeros((0, 3, 2), "f4")],
        openvino="not for empty tensors",
    ),
    Sample(
        "an axis without cells",
        [np.zeros(0, "f4"), FIRST],
        [np.zeros((1, 2), "f4")],
        openvino="not for empty tensors",
    ),
]
FROM_HALF = [
    Sample("four numbers", [pairs(HALF), FIRST], [REAL_LINE]),
    Sample(
        "an odd number", [pairs([6, -1.5 + 0.75**0.5 * 1j]), FIRST, np.array([3])], [REAL_LINE[:3]]
    ),
    Sample(
        "what cannot be real is left out", [pairs([10 + 5j, -2 + 2j, -2 + 9j]), FIRST], [REAL_LINE]
    ),
    Sample("cut to what is needed", [pairs([3, -1, 7]), FIRST, np.array([2])], [f32([1, 2])]),
    Sample(
        "filled up with zeros",
        [pairs([4]), FIRST, np.array([4])],
        [f32([1, 1, 1, 1])],
        openvino="reads past the data",
    ),
    Sample(
        "the last of the axes is doubled",
        [pairs([[21, -3], [-6 + 12**0.5 * 1j, 0]]), np.array([1, 0]), np.array([-1, 3])],
        [f32([[1, 2], [3, 4], [5, 6]])],
        rtol=1e-5,
        openvino=KEPT,
    ),
    Sample(
        "the page's unsorted axes, smaller",
        [np.zeros((2, 6, 5, 4, 2), "f4"), np.array([3, 1, 2]), np.array([3, -1, 8])],
        [np.zeros((2, 6, 8, 3), "f4")],
        openvino=KEPT,
    ),
    Sample(
        "one number is none",
        [pairs([1]), FIRST],
        [np.zeros(0, "f4")],
        openvino="not for empty tensors",
    ),
]
REFUSALS = [
    Refusal(
        "axis outside", [pairs([LINE]), np.array([2])], r"axes 2 is outside -2\.\.1 for rank 2"
    ),
    Refusal("an axis twice", [pairs([LINE]), np.array([0, -2])], "name an axis twice"),
    Refusal("a matrix of axes", [pairs(LINE), np.array([[0]])], "'axes': expected a 1-D tensor"),
    Refusal(
        "size 0",
        [pairs(LINE), FIRST, np.array([0])],
        r"signal_size\[0\] is 0, expected a size or -1",
    ),
    Refusal("size -2", [pairs(LINE), FIRST, np.array([-2])], r"signal_size\[0\] is -2"),
    Refusal(
        "two sizes",
        [pairs(LINE), FIRST, np.array([2, 2])],
        r"a size for each of axes \[0\], got \[2, 2\]",
    ),
    Refusal(
        "integers",
        [np.zeros((3, 2), "i4"), FIRST],
        "'data' .port 0.: expected a floating-point type",
    ),
]
NO_PAIRS = Refusal(
    "no pairs",
    [f32([1, 2, 3]), FIRST],
    r"'data': expected pairs in a last dimension of 2, got shape \[3\]",
)
NO_AXES = Refusal(
    "no axes", [pairs([LINE]), np.zeros(0, "i8")], "'axes': expected at least one axis"
)
REAL_REFUSALS = [
    Refusal("axis outside", [REAL_LINE, np.array([1])], r"axes 1 is outside -1\.\.0 for rank 1"),
    Refusal("no axes", [REAL_LINE, np.zeros(0, "i8")], "'axes': expected at least one axis"),
    Refusal(
        "two sizes",
        [REAL_LINE, FIRST, np.array([2, 2])],
        r"a size for each of axes \[0\], got \[2, 2\]",
    ),
]


@st.composite
def cases(draw: st.DrawFn, from_complex: bool, to_complex: bool) -> Case:
    shape = draw(shapes(1, 3, 4, 1))
    data, name = draw(arrays(shape + ((2,) if from_complex else ()), FLOATS))
    axes = draw(
        st.lists(
            st.integers(0, len(shape) - 1),
            unique=True,
            min_size=0 if from_complex and to_complex else 1,
            max_size=2,
        )
    )
    sizes = [draw(st.sampled_from([-1, 1, 2, 3, 5])) for _ in axes]
    signed = [a - len(shape) if draw(st.booleans()) else a for a in axes]
    kind = draw(st.sampled_from(["i4", "i8"]))
    inputs = [data, np.array(signed, kind)]
    if draw(st.booleans()):
        inputs.append(np.array(sizes, draw(st.sampled_from(["i4", "i8"]))))
    return Case(inputs, {}, [name])


def along(line: list[complex], size: int, sign: int) -> list[complex]:
    """One transform, by the page's sum."""
    line = [*line, *[0] * size][:size]
    result = [
        sum(x * cmath.exp(sign * 2j * math.pi * m * j / size) for j, x in enumerate(line))
        for m in range(size)
    ]
    return [v / size for v in result] if sign > 0 else result


def loop(case: Case, from_complex: bool, to_complex: bool, sign: int) -> list[np.ndarray]:
    data = plain(case, 0).astype(np.float64)
    values = (data[..., 0] + 1j * data[..., 1] if from_complex else data.astype(complex)).astype(
        object
    )
    axes = [int(a) % values.ndim for a in case.inputs[1]]
    given = case.inputs[2].tolist() if len(case.inputs) > 2 else [-1] * len(axes)
    for i, axis in enumerate(axes):
        last = i == len(axes) - 1
        size = values.shape[axis] if given[i] == -1 else given[i]
        if last and not to_complex:
            size = 2 * (values.shape[axis] - 1) if given[i] == -1 else size
        shape = list(values.shape)
        shape[axis] = size // 2 + 1 if last and not from_complex else size
        result = np.zeros(shape, object)
        for place in itertools.product(
            *(range(n) for k, n in enumerate(values.shape) if k != axis)
        ):
            here = (*place[:axis], slice(None), *place[axis:])
            line = list(values[here])
            if last and not to_complex:
                line = [*line, *[0] * size][: size // 2 + 1]
                line = [
                    line[k] if k <= size // 2 else complex(line[size - k]).conjugate()
                    for k in range(size)
                ]
            if size:
                result[here] = along(line, size, sign)[: shape[axis]]
        values = result
    exact = values.astype(complex)
    return [np.stack([exact.real, exact.imag], axis=-1) if to_complex else exact.real]


SAMPLES = [
    Samples(
        DFT7,
        FORWARD,
        [*REFUSALS, NO_PAIRS],
        cases(True, True),
        lambda c: loop(c, True, True, -1),
        atol=1e-4,
    ),
    Samples(
        IDFT7,
        BACKWARD,
        [*REFUSALS, NO_PAIRS],
        cases(True, True),
        lambda c: loop(c, True, True, 1),
        atol=1e-4,
    ),
    Samples(
        RDFT9,
        TO_HALF,
        REAL_REFUSALS,
        cases(False, True),
        lambda c: loop(c, False, True, -1),
        atol=1e-4,
    ),
    Samples(
        IRDFT9,
        FROM_HALF,
        [*REFUSALS, NO_PAIRS, NO_AXES],
        cases(True, False),
        lambda c: loop(c, True, False, 1),
        atol=1e-4,
    ),
]
