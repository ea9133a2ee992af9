"""SearchSorted-15."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.search_sorted import SearchSorted15
from uncork.types import ElementType

RIGHT = {"right_mode": True}
ROWS = np.array([[1, 3, 5, 7, 9], [0, 2, 4, 6, 8]], np.float32)
VALUES = np.array([[3, 6, 9], [3, 6, 9]], np.float32)
#: The example of torch.searchsorted.
EXAMPLES = [
    Sample("the first place", [ROWS, VALUES], [np.array([[1, 3, 4], [2, 3, 5]])]),
    Sample("the last place", [ROWS, VALUES], [np.array([[2, 3, 5], [2, 4, 5]])], RIGHT),
    Sample("one row for all values", [ROWS[0], VALUES], [np.array([[1, 3, 4], [1, 3, 4]])]),
    Sample("a scalar", [ROWS[0], np.float32(4)], [np.int64(2)]),
    Sample(
        "i32",
        [ROWS[0], VALUES[0]],
        [np.array([1, 3, 4], np.int32)],
        {"output_type": ElementType.i32},
    ),
    Sample("equal elements", [np.array([1, 1, 1]), np.array([1])], [np.array([3])], RIGHT),
    Sample(
        "an empty row",
        [np.zeros((1, 0), np.float32), np.array([[1, 2]], np.float32)],
        [np.array([[0, 0]])],
        openvino="gives what lies in memory",
    ),
    Sample("no values", [ROWS, np.zeros((2, 0), np.float32)], [np.zeros((2, 0), np.int64)]),
    Sample(
        "NaN is the greatest",
        [np.array([1, 2], np.float32), np.array([np.nan], np.float32)],
        [np.array([2])],
        openvino="gives 0",
    ),
    Sample(
        "NaN in the row",
        [np.array([1, np.nan]), np.array([5, np.nan])],
        [np.array([1, 1])],
        openvino="compares f64 as f32",
    ),
    Sample(
        "u64",
        [np.array([2**63, 2**63 + 2], np.uint64), np.array([2**63 + 1], np.uint64)],
        [np.array([1])],
        openvino="compares in 32 bits",
    ),
]
REFUSALS = [
    Refusal(
        "unsorted",
        [np.array([[1, 2], [4, 3]]), np.array([[0], [0]])],
        r"sorted_sequence\[1, 1\] is 3, expected at least the one",
    ),
    Refusal("a scalar row", [np.float32(1), VALUES], "'sorted_sequence' is a scalar"),
    Refusal(
        "other rows",
        [ROWS, VALUES[:1]],
        r"expected equal dimensions but the last, got sorted_sequence \[2,5\] and values \[1,3\]",
    ),
    Refusal(
        "other rank", [ROWS, VALUES[0]], r"expected equal dimensions but the last, .* values \[3\]"
    ),
    Refusal(
        "other types",
        [ROWS, VALUES.astype(np.int32)],
        r"'values' \(port 1\): expected f32 as 'sorted_sequence' has, got i32",
    ),
    Refusal(
        "another output type",
        [ROWS, VALUES],
        "expected i32 or i64, got f32",
        {"output_type": ElementType.f32},
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    lead = draw(shapes(max_rank=2, max_side=3))
    row, name = draw(arrays((*lead, draw(st.integers(0, 5))), FLOATS + INTEGERS))
    row = np.take_along_axis(
        row,
        np.argsort(storage.decode(row, ElementType.parse(name)), axis=-1, kind="stable"),
        axis=-1,
    )
    shape = (*lead, draw(st.integers(0, 3))) if lead else draw(shapes(max_rank=3, max_side=3))
    values, _ = draw(arrays(shape, (name,)))
    return Case(
        [row, values],
        draw(st.sampled_from([{}, RIGHT, {"output_type": ElementType.i32}])),
        [name, name],
    )


def loop(case: Case) -> list[np.ndarray]:
    rows, values = (storage.decode(a, t) for a, t in zip(case.inputs, case.types, strict=True))
    output = np.zeros(values.shape, case.attributes.get("output_type", ElementType.i64).dtype)
    for place in np.ndindex(*values.shape):
        row = rows if rows.ndim == 1 else rows[place[:-1]]
        count = 0
        while count < len(row) and (
            row[count] < values[place]
            or (row[count] == values[place] and "right_mode" in case.attributes)
        ):
            count += 1
        output[place] = count
    return [output]


SAMPLES = [Samples(SearchSorted15, EXAMPLES, REFUSALS, cases(), loop)]
