"""EmbeddingSegmentsSum-3. The example named after the page is the page's."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import integer_arrays
from tests.samples._embedding import (
    F32,
    I32,
    I64,
    TABLE,
    UNWRITTEN,
    by_hand,
    nan_samples,
    table_refusals,
    tables,
    type_samples,
    weights_like,
)
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.embedding_segments_sum import EmbeddingSegmentsSum3

IDS = np.array([0, 2, 3, 4])
SEGMENTS = np.array([0, 0, 2, 2])
HALVES = np.full(4, 0.5, F32)
NONE = np.zeros(0, I64)
MINUS_ONE = "OpenVINO refuses a default of -1 when a segment is empty"
UNSORTED = "OpenVINO is wrong for segment ids that are not grouped"


def in_one_bag(table: Any, indices: list[int], weights: Any) -> list[Any]:
    """All indices in one segment, with no other; weights need a default before them in the file."""
    inputs = [table, np.array(indices, I64), np.zeros(len(indices), I64), I64(1)]
    return inputs if weights is None else [*inputs, I64(-1), weights]


EXAMPLES = [
    Sample(
        "page example: weights and a default row",
        [TABLE, IDS, SEGMENTS, I64(3), I64(0), HALVES],
        [np.array([[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]], F32)],
    ),
    Sample(
        "page example with ids of 32 bits",
        [TABLE, IDS.astype(I32), SEGMENTS.astype(I32), I32(3), I32(0), HALVES],
        [np.array([[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]], F32)],
    ),
    Sample(
        "page text: ids [0,0,0,1,1,3,5,5] are four segments, the others are empty",
        [
            np.array([1, 10, 100], F32),
            np.array([0, 1, 2, 0, 0, 2, 1, 1]),
            np.array([0, 0, 0, 1, 1, 3, 5, 5]),
            I64(7),
            I64(1),
        ],
        [np.array([111, 2, 10, 100, 10, 20, 10], F32)],
    ),
    Sample(
        "no default: zeros",
        [TABLE, IDS, SEGMENTS, I64(3)],
        [np.array([[-2.1, -2.4], [0, 0], [-0.2, 0.8]], F32)],
    ),
    Sample(
        "default -1: zeros",
        [TABLE, IDS, SEGMENTS, I64(3), I64(-1)],
        [np.array([[-2.1, -2.4], [0, 0], [-0.2, 0.8]], F32)],
        openvino=MINUS_ONE,
    ),
    Sample(
        "weights without a default, in the file's way",
        [TABLE, IDS, SEGMENTS, I64(3), I64(-1), HALVES],
        [np.array([[-1.05, -1.2], [0, 0], [-0.1, 0.4]], F32)],
        openvino=MINUS_ONE,
    ),
    Sample(
        "weights without a default",
        [TABLE, IDS, SEGMENTS, I64(3), None, HALVES],
        [np.array([[-1.05, -1.2], [0, 0], [-0.1, 0.4]], F32)],
    ),
    Sample(
        "a segment whose weights are all 0 is not empty",
        [TABLE, np.array([1, 2]), np.array([1, 1]), I64(2), I64(4), np.zeros(2, F32)],
        [np.array([[0.8, -0.7], [0, 0]], F32)],
    ),
    Sample(
        "ids in any order",
        [TABLE, IDS, np.array([2, 0, 2, 0]), I64(3)],
        [np.array([[-1.1, -2.5], [0, 0], [-1.2, 0.9]], F32)],
        openvino=UNSORTED,
    ),
    Sample(
        "ids in any order, each with its weight",
        [
            np.array([1, 10, 100, 1000], F32),
            IDS % 4,
            np.array([1, 0, 1, 0]),
            I64(2),
            I64(-1),
            np.array([2, 3, 5, 7], F32),
        ],
        [np.array([307, 5002], F32)],
        openvino=UNSORTED,
    ),
    Sample(
        "ids that fall",
        [TABLE, IDS, np.array([2, 2, 0, 0]), I64(3)],
        [np.array([[-0.2, 0.8], [0, 0], [-2.1, -2.4]], F32)],
    ),
    Sample(
        "terms are added by increasing position in unsorted segments",
        [
            np.array([[2.0**24], [1.0]], F32),
            np.array([0] + [1] * 80),
            np.array([1] + [0, 1] * 40),
            I64(2),
        ],
        [np.array([[40], [2.0**24]], F32)],
        rtol=0,
        atol=0,
        openvino=UNSORTED,
    ),
    Sample(
        "empty segments at the end",
        [TABLE, np.array([1]), np.array([0]), I64(3), I64(2)],
        [TABLE[[1, 2, 2]]],
    ),
    Sample(
        "a wrong default that no segment needs",
        [TABLE, np.array([1]), np.array([0]), I64(1), I64(9)],
        [TABLE[1:2]],
    ),
    Sample("no segments", [TABLE, NONE, NONE, I64(0)], [np.zeros((0, 2), F32)]),
    Sample(
        "no segments, a wrong default", [TABLE, NONE, NONE, I64(0), I64(9)], [np.zeros((0, 2), F32)]
    ),
    Sample("no indices: zeros", [TABLE, NONE, NONE, I64(2)], [np.zeros((2, 2), F32)]),
    Sample("no indices: the default row", [TABLE, NONE, NONE, I64(2), I64(3)], [TABLE[[3, 3]]]),
    Sample(
        "rows of no elements",
        [np.zeros((5, 0), F32), IDS, SEGMENTS, I64(3), I64(0)],
        [np.zeros((3, 0), F32)],
    ),
    Sample(
        "many segments of no elements",
        [np.zeros((5, 0), F32), IDS, SEGMENTS, I64(2**40)],
        [np.zeros((2**40, 0), F32)],
        openvino="untested: 2**40 rows",
    ),
    Sample(
        "a table without rows, nothing looked up",
        [np.zeros((0, 2), F32), NONE, NONE, I64(2)],
        [np.zeros((2, 2), F32)],
        openvino=UNWRITTEN,
    ),
    Sample(
        "a table without rows, default -1",
        [np.zeros((0, 2), F32), NONE, NONE, I64(2), I64(-1)],
        [np.zeros((2, 2), F32)],
        openvino=UNWRITTEN,
    ),
    Sample(
        "rows that are scalars",
        [np.array([1, 2, 4], F32), np.array([0, 2, 1]), np.array([0, 0, 1]), I64(2)],
        [np.array([5, 2], F32)],
    ),
    Sample(
        "rows of three dimensions",
        [np.arange(24, dtype=F32).reshape(2, 3, 2, 2), np.array([0, 1]), np.array([0, 0]), I64(1)],
        [np.arange(12, 36, 2, dtype=F32).reshape(1, 3, 2, 2)],
    ),
    Sample(
        "a table of rank 8",
        [np.full((2,) + (1,) * 7, 3, F32), np.array([0, 1]), np.array([0, 0]), I64(1)],
        [np.full((1,) * 8, 6, F32)],
    ),
    *type_samples(in_one_bag),
    *nan_samples(in_one_bag),
]

REFUSALS = [
    *table_refusals(
        lambda table, indices: [
            table,
            indices,
            np.array([0], indices.dtype),
            np.asarray(1, indices.dtype),
        ]
    ),
    Refusal(
        "index past the table",
        [TABLE, np.array([0, 5]), np.array([0, 0]), I64(1)],
        r"'indices': indices\[1\] is 5, expected 0 to 4",
    ),
    Refusal(
        "negative index",
        [TABLE, np.array([-1]), np.array([0]), I64(1)],
        r"indices\[0\] is -1, expected 0 to 4",
    ),
    Refusal(
        "index beyond 32 bits",
        [TABLE, np.array([2**32 + 1]), np.array([0]), I64(1)],
        r"indices\[0\] is 4294967297, expected 0 to 4",
    ),
    Refusal(
        "index into a table without rows",
        [np.zeros((0, 2), F32), np.array([0]), np.array([0]), I64(1)],
        "expected none: 'emb_table' has no rows",
    ),
    Refusal(
        "segment id past the last",
        [TABLE, IDS, np.array([0, 0, 1, 3]), I64(3)],
        r"'segment_ids': segment_ids\[3\] is 3, expected 0 to 2",
    ),
    Refusal(
        "negative segment id",
        [TABLE, IDS, np.array([-1, 0, 1, 2]), I64(3)],
        r"segment_ids\[0\] is -1, expected 0 to 2",
    ),
    Refusal(
        "segment id beyond 32 bits",
        [TABLE, IDS, np.array([0, 0, 0, 2**32]), I64(3)],
        r"segment_ids\[3\] is 4294967296, expected 0 to 2",
    ),
    Refusal(
        "a segment id where there are none",
        [TABLE, IDS, SEGMENTS, I64(0)],
        r"segment_ids\[0\] is 0, expected none: 'num_segments' is 0",
    ),
    Refusal(
        "negative number of segments",
        [TABLE, NONE, NONE, I64(-1)],
        "'num_segments': expected 0 or more, got -1",
    ),
    Refusal(
        "negative number of segments, 32 bits",
        [TABLE, NONE.astype(I32), NONE.astype(I32), I32(-2)],
        "expected 0 or more, got -2",
    ),
    Refusal(
        "segments beyond memory",
        [TABLE, IDS, SEGMENTS, I64(2**42)],
        r"output f32\[4398046511104,2\] needs 35,184,372,088,832 bytes, more than",
    ),
    Refusal(
        "segments beyond memory and 32 bits",
        [TABLE, NONE, NONE, I64(2**62 + 3)],
        "rows are more than an array can have",
    ),
    Refusal(
        "segments of no elements beyond 64 bits",
        [np.zeros((5, 0), F32), NONE, NONE, I64(2**63 - 1)],
        "rows are more than an array can have",
    ),
    Refusal(
        "default past the table, needed by the second segment",
        [TABLE, IDS, SEGMENTS, I64(3), I64(5)],
        r"'default_index': expected -1 \(zeros\) or 0 to 4, got 5: segment 1 is empty",
    ),
    Refusal(
        "default needed by the last segment",
        [TABLE, IDS, SEGMENTS // 2, I64(3), I64(-2)],
        "got -2: segment 2 is empty",
    ),
    Refusal(
        "default beyond 32 bits",
        [TABLE, IDS, SEGMENTS, I64(3), I64(2**32)],
        "got 4294967296: segment 1 is empty",
    ),
    Refusal(
        "default from a table without rows",
        [np.zeros((0, 2), F32), NONE, NONE, I64(1), I64(0)],
        "no rows, got 0: segment 0 is empty",
    ),
    Refusal(
        "strict: unsorted ids",
        [TABLE, IDS, np.array([0, 2, 1, 2]), I64(3)],
        r"segment_ids\[2\] is 1, expected sorted ids",
        strict=True,
    ),
    Refusal(
        "indices of two dimensions",
        [TABLE, IDS[None], SEGMENTS, I64(3)],
        r"'indices': expected one dimension, got shape \[1,4\]",
    ),
    Refusal(
        "segment ids of two dimensions",
        [TABLE, IDS, SEGMENTS[None], I64(3)],
        r"'segment_ids': expected one dimension, got shape \[1,4\]",
    ),
    Refusal(
        "segment ids too short",
        [TABLE, IDS, SEGMENTS[:3], I64(3)],
        r"'segment_ids': expected shape \[4\], .* got \[3\]",
    ),
    Refusal(
        "segment ids too long",
        [TABLE, IDS[:3], SEGMENTS, I64(3)],
        r"'segment_ids': expected shape \[3\], .* got \[4\]",
    ),
    Refusal(
        "number of segments of one dimension",
        [TABLE, IDS, SEGMENTS, np.array([3])],
        r"'num_segments': expected a scalar, got shape \[1\]",
    ),
    Refusal(
        "default of one dimension",
        [TABLE, IDS, SEGMENTS, I64(3), np.array([0])],
        r"'default_index': expected a scalar, got shape \[1\]",
    ),
    Refusal(
        "weights too long",
        [TABLE, IDS, SEGMENTS, I64(3), I64(-1), np.ones(5, F32)],
        r"'per_sample_weights': expected shape \[4\], .* got \[5\]",
    ),
    Refusal(
        "weights of two dimensions",
        [TABLE, IDS, SEGMENTS, I64(3), I64(-1), np.ones((4, 1), F32)],
        "'per_sample_weights': expected one dimension",
    ),
    Refusal(
        "float weights on integers",
        [TABLE.astype(I32), IDS, SEGMENTS, I64(3), I64(-1), HALVES],
        "expected i32 as 'emb_table' has, got f32",
    ),
    Refusal(
        "float segment ids",
        [TABLE, IDS, SEGMENTS.astype(F32), I64(3)],
        r"'segment_ids' \(port 2\): expected one of i64, i32, got f32",
    ),
    Refusal(
        "float number of segments",
        [TABLE, IDS, SEGMENTS, F32(3)],
        r"'num_segments' \(port 3\): expected one of i64, i32, got f32",
    ),
    Refusal(
        "number of segments of another type",
        [TABLE, IDS, SEGMENTS, I32(3)],
        r"'num_segments' \(port 3\): expected i64 as 'indices' has, got i32",
    ),
    Refusal(
        "no number of segments", [TABLE, IDS, SEGMENTS], r"'num_segments' \(port 3\) is missing"
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    table, type_name = draw(tables())
    segments = draw(st.integers(0, 5))
    count = draw(st.integers(0, 7)) if segments else 0
    ids = draw(st.sampled_from(["i4", "i8"]))
    indices = draw(integer_arrays((count,), 0, len(table) - 1, (ids,)))
    segment_ids = draw(integer_arrays((count,), 0, max(segments - 1, 0), (ids,)))
    if draw(st.booleans()):
        segment_ids = np.sort(segment_ids)
    default = draw(st.none() | st.integers(-1, len(table) - 1).map(lambda d: np.asarray(d, ids)))
    weights = None if draw(st.booleans()) else draw(weights_like(type_name, (count,)))[0]
    types = [type_name, None, None, None, None, type_name]
    return Case(
        [table, indices, segment_ids, np.asarray(segments, ids), default, weights], {}, types
    )


def loop(case: Case) -> list[np.ndarray]:
    _, _, segment_ids, num_segments, default, weights = case.inputs
    bags = [
        [i for i, s in enumerate(segment_ids.tolist()) if s == segment]
        for segment in range(int(num_segments))
    ]
    return by_hand(case, bags, weights, None if default is None else int(default))


SAMPLES = [Samples(EmbeddingSegmentsSum3, EXAMPLES, REFUSALS, cases(), loop)]
