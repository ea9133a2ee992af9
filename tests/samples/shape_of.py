"""ShapeOf-1, -3."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.shape_of import ShapeOf1, ShapeOf3
from uncork.types import ElementType

I32 = {"output_type": ElementType.i32}
EXAMPLES = [
    Sample("four dimensions", [np.zeros((2, 3, 0, 1), np.float32)], [np.array([2, 3, 0, 1])]),
    Sample("a scalar", [np.float32(1)], [np.zeros((0,), np.int64)]),
    Sample("strings", [np.array([["a", "b"]], object)], [np.array([1, 2])]),
    Sample("4-bit values", [np.array([1, 2, 3], np.int8)], [np.array([3])], types=["i4"]),
]
EXAMPLES_3 = [Sample("i32", [np.zeros((2, 3), np.float32)], [np.array([2, 3], np.int32)], I32)]
REFUSALS_3 = [
    Refusal(
        "too long for i32",
        [np.zeros((2**31, 0), bool)],
        r"shape \[2147483648, 0\] does not fit i32",
        I32,
    ),
    Refusal(
        "output type",
        [np.zeros(2)],
        "attribute 'output_type': expected i64 or i32, got u8",
        {"output_type": ElementType.u8},
    ),
]


@st.composite
def cases(draw: st.DrawFn, attributes: list[dict[str, object]]) -> Case:
    data, name = draw(arrays(draw(shapes(max_rank=5))))
    return Case([data], draw(st.sampled_from(attributes)), [name])


def loop(case: Case) -> list[np.ndarray]:
    sizes, level = [], case.inputs[0]
    for _ in range(case.inputs[0].ndim):
        sizes.append(len(level))
        level = np.moveaxis(level, 0, -1)
    return [np.array(sizes, np.int32 if case.attributes == I32 else np.int64)]


SAMPLES = [
    Samples(ShapeOf1, EXAMPLES, [], cases([{}]), loop),
    Samples(
        ShapeOf3,
        EXAMPLES + EXAMPLES_3,
        REFUSALS_3,
        cases([{}, {"output_type": ElementType.i64}, I32]),
        loop,
    ),
]
