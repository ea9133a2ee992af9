"""SparseFillEmptyRows-16."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.sparse_fill_empty_rows import SparseFillEmptyRows16

SIZES = np.array([5, 6])
PLACES = np.array([[0, 1], [0, 3], [2, 0], [3, 1]])
VALUES = np.array([1, 2, 3, 4], np.float32)
FILL = np.float32(42)
NONE = np.zeros((0, 2), np.int64)

EXAMPLES = [
    Sample(
        "page example 1",
        [VALUES, SIZES, PLACES, FILL],
        [
            np.array([[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]]),
            np.array([1, 2, 42, 3, 4, 42], np.float32),
            np.array([False, True, False, False, True]),
        ],
    ),
    Sample(
        "the page's layer",
        [
            np.array([1, 3], np.float32),
            np.array([3, 3], np.int32),
            np.array([[0, 0], [2, 2]], np.int32),
            FILL,
        ],
        [
            np.array([[0, 0], [1, 0], [2, 2]], np.int32),
            np.array([1, 42, 3], np.float32),
            np.array([False, True, False]),
        ],
    ),
    Sample(
        "entries out of order, and two at one place",
        [
            np.array([1, 2, 3], np.int32),
            np.array([2, 4]),
            np.array([[1, 3], [1, 0], [1, 3]]),
            np.int32(0),
        ],
        [
            np.array([[0, 0], [1, 0], [1, 3], [1, 3]]),
            np.array([0, 2, 1, 3], np.int32),
            np.array([True, False]),
        ],
    ),
    Sample(
        "no entries",
        [VALUES[:0], np.array([2, 3]), NONE, FILL],
        [np.array([[0, 0], [1, 0]]), np.array([42, 42], np.float32), np.array([True, True])],
        openvino="may give what lies in memory",
    ),
    Sample(
        "no rows",
        [VALUES[:0], np.array([0, 3]), NONE, FILL],
        [NONE, VALUES[:0], np.zeros((0,), bool)],
    ),
    Sample(
        "strings",
        [np.array(["日本"], object), np.array([2, 1]), np.array([[1, 0]]), np.array("-", object)],
        [np.array([[0, 0], [1, 0]]), np.array(["-", "日本"], object), np.array([True, False])],
        openvino="untested: one string cannot be given",
    ),
]
REFUSALS = [
    Refusal(
        "row",
        [VALUES[:2], SIZES, np.array([[0, 1], [5, 1]]), FILL],
        r"indices\[1, 0\] is 5, expected an index within .* \[5, 6\]",
    ),
    Refusal(
        "column",
        [VALUES[:2], SIZES, np.array([[0, 1], [1, -1]]), FILL],
        r"indices\[1, 1\] is -1, expected an index within",
    ),
    Refusal(
        "lengths",
        [VALUES, SIZES, PLACES[:3], FILL],
        r"'indices': expected shape \[4,2\], two indices .* got \[3,2\]",
    ),
    Refusal(
        "three indices",
        [VALUES, SIZES, np.zeros((4, 3), np.int64), FILL],
        r"'indices': expected shape \[4,2\], .* got \[4,3\]",
    ),
    Refusal(
        "values",
        [VALUES[None], SIZES, PLACES, FILL],
        r"'values': expected a 1-D tensor, got shape \[1,4\]",
    ),
    Refusal(
        "default",
        [VALUES, SIZES, PLACES, VALUES],
        r"'default_value': expected a scalar, got shape \[4\]",
    ),
    Refusal(
        "three sizes",
        [VALUES, np.array([1, 2, 3]), PLACES, FILL],
        r"'dense_shape': expected 2 numbers, got shape \[3\]",
    ),
    Refusal(
        "a negative size",
        [VALUES, np.array([4, -1]), PLACES, FILL],
        r"'dense_shape': expected no negative numbers, got \[4, -1\]",
    ),
    Refusal(
        "types",
        [VALUES, SIZES.astype(np.int32), PLACES, FILL],
        r"'indices' \(port 2\): expected i32 as 'dense_shape' has, got i64",
    ),
    Refusal(
        "too many rows",
        [VALUES, np.array([2**60, 6]), PLACES, FILL],
        "more than this machine's memory",
    ),
    Refusal(
        "no columns",
        [VALUES[:0], np.array([2, 0]), NONE, FILL],
        "row 0 is empty and has no column for the default",
        strict=True,
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rows, columns = draw(st.integers(0, 5)), draw(st.integers(1, 4))
    place = st.tuples(st.integers(0, max(rows - 1, 0)), st.integers(0, columns - 1))
    places = draw(st.lists(place, max_size=6)) if rows else []
    values, name = draw(arrays((len(places) + 1,)))
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    return Case(
        [
            values[:-1],
            np.array([rows, columns], dtype),
            np.array(places, dtype).reshape(-1, 2),
            np.array(values[-1], values.dtype),
        ],
        {},
        [name, None, None, name],
    )


def loop(case: Case) -> list[np.ndarray]:
    values, sizes, places, fill = case.inputs
    rows: list[list[tuple[int, object]]] = [[] for _ in range(int(sizes[0]))]
    for value, (row, column) in zip(values, places.tolist(), strict=True):
        after = sum(c <= column for c, _ in rows[row])
        rows[row].insert(after, (column, value))
    empty = [not entries for entries in rows]
    filled = [
        (row, *entry) for row, entries in enumerate(rows) for entry in (entries or [(0, fill[()])])
    ]
    output = np.empty(len(filled), values.dtype)
    for position, (_, _, value) in enumerate(filled):
        output[position] = value
    return [
        np.array([entry[:2] for entry in filled], places.dtype).reshape(-1, 2),
        output,
        np.array(empty, bool),
    ]


SAMPLES = [Samples(SparseFillEmptyRows16, EXAMPLES, REFUSALS, cases(), loop)]
