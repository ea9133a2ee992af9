"""Eye-9. The numbered examples are the page's."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.eye import Eye9
from uncork.types import ElementType

I64 = np.int64
AS_I32 = {"output_type": ElementType.i32}


def i32(*rows: list[int]) -> np.ndarray:
    return np.array(rows, np.int32)


EXAMPLES = [
    Sample(
        "page example 1",
        [I64(3), I64(4), I64(2)],
        [i32([0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0])],
        AS_I32,
    ),
    Sample(
        "page example 2",
        [I64(3), I64(4), I64(-1)],
        [i32([0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0])],
        AS_I32,
    ),
    Sample(
        "page example 3",
        [np.array([2], np.int32), np.int32(2), np.array([5], np.int32), np.array([1, 2], np.int32)],
        [np.zeros((1, 2, 2, 2), np.float16)],
        {"output_type": ElementType.f16},
    ),
    Sample(
        "more columns than rows: the formula rules",
        [I64(1), I64(4), I64(3)],
        [i32([0, 0, 0, 1])],
        AS_I32,
    ),
    Sample("more rows than columns", [I64(4), I64(1), I64(-3)], [i32([0], [0], [0], [1])], AS_I32),
    Sample("an index far off", [I64(1), I64(1), I64(-(2**63))], [i32([0])], AS_I32),
    Sample("no rows", [I64(0), I64(2), I64(0)], [np.zeros((0, 2), np.int32)], AS_I32),
    Sample(
        "a batch of none",
        [I64(2), I64(2), I64(0), np.zeros((0,), I64)],
        [i32([1, 0], [0, 1])],
        AS_I32,
        openvino="gives what lies in memory",
    ),
    Sample(
        "bf16",
        [I64(1), I64(2), I64(0)],
        [np.array([[0x3F80, 0]], np.uint16)],
        {"output_type": ElementType.bf16},
        output_types=["bf16"],
    ),
]
REFUSALS = [
    Refusal(
        "negative", [I64(2), I64(-1), I64(0)], r"'num_columns' is -1, expected at least 0", AS_I32
    ),
    Refusal(
        "two numbers",
        [np.array([2, 2]), I64(1), I64(0)],
        r"'num_rows': expected a scalar or one element, got shape \[2\]",
        AS_I32,
    ),
    Refusal(
        "a negative batch",
        [I64(2), I64(1), I64(0), np.array([2, -1])],
        r"'batch_shape': expected no negative .* \[2, -1\]",
        AS_I32,
    ),
    Refusal(
        "a scalar batch",
        [I64(2), I64(1), I64(0), I64(2)],
        r"'batch_shape': expected a 1-D tensor, got shape \[\]",
        AS_I32,
    ),
    Refusal(
        "too much", [I64(2**40), I64(2**40), I64(0)], "more than this machine's memory", AS_I32
    ),
    Refusal(
        "booleans",
        [I64(2), I64(1), I64(0)],
        "expected a numeric type",
        {"output_type": ElementType.boolean},
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    numbers = [draw(st.integers(0, 4)), draw(st.integers(0, 4)), draw(st.integers(-5, 5))]
    inputs = [np.array([n] if draw(st.booleans()) else n, dtype) for n in numbers]
    if draw(st.booleans()):
        inputs.append(np.array(draw(st.lists(st.integers(0, 2), max_size=2)), dtype))
    return Case(
        inputs,
        {
            "output_type": ElementType.parse(
                draw(st.sampled_from((*FLOATS, *INTEGERS, "f8e4m3", "u4", "nf4")))
            )
        },
    )


def loop(case: Case) -> list[np.ndarray]:
    rows, columns, diagonal = (int(n.reshape(-1)[0]) for n in case.inputs[:3])
    batch = tuple(case.inputs[3].tolist()) if len(case.inputs) > 3 else ()
    output = np.zeros((*batch, rows, columns), np.float32)
    for *lead, i, j in np.ndindex(*output.shape):
        output[(*lead, i, j)] = 1 if j == i + diagonal else 0
    return [storage.encode(output, case.attributes["output_type"])]


SAMPLES = [Samples(Eye9, EXAMPLES, REFUSALS, cases(), loop)]
