"""EmbeddingBagOffsetsSum-3, EmbeddingBagOffsets-15. Examples named after a page are that page's."""

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
from uncork.ops.embedding_bag_offsets import EmbeddingBagOffsets15, EmbeddingBagOffsetsSum3

IDS = np.array([0, 2, 3, 4])
STARTS = np.array([0, 2, 2])
HALVES = np.full(4, 0.5, F32)
PAST_END = "OpenVINO refuses an offset that equals the number of indices"


def in_one_bag(table: Any, indices: list[int], weights: Any) -> list[Any]:
    """All indices in one bag; weights need a default before them in the file."""
    inputs = [table, np.array(indices, I64), np.array([0])]
    return inputs if weights is None else [*inputs, I64(-1), weights]


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F32)


EXAMPLES = [
    Sample(
        "page example: weights and a default row",
        [TABLE, IDS, STARTS, I64(0), HALVES],
        [np.array([[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]], F32)],
    ),
    Sample(
        "page example with ids of 32 bits",
        [TABLE, IDS.astype(I32), STARTS.astype(I32), I32(0), HALVES],
        [np.array([[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]], F32)],
    ),
    Sample(
        "page 15 example 2: default -1 fills with zeros",
        [TABLE, IDS, STARTS, I64(-1), np.array([0.5, 0.2, -2, 1], F32)],
        [np.array([[-0.48, -0.66], [0, 0], [2.8, -3.7]], F32)],
    ),
    Sample(
        "page text: offsets [0,3,4,4,6] are bags of 3, 1, 0, 2 and the rest",
        [
            np.array([1, 10, 100, 1000], F32),
            np.array([0, 1, 2, 3, 3, 3, 0, 1, 0]),
            np.array([0, 3, 4, 4, 6]),
        ],
        [np.array([111, 1000, 0, 2000, 12], F32)],
    ),
    Sample(
        "no default: zeros",
        [TABLE, IDS, STARTS],
        [np.array([[-2.1, -2.4], [0, 0], [-0.2, 0.8]], F32)],
    ),
    Sample(
        "weights without a default",
        [TABLE, IDS, STARTS, None, HALVES],
        [np.array([[-1.05, -1.2], [0, 0], [-0.1, 0.4]], F32)],
    ),
    Sample(
        "the default row is not weighted and taken once per empty bag",
        [TABLE, np.array([1]), np.array([0, 0, 0]), I64(4), np.array([10], F32)],
        [np.array([[0.8, -0.7], [0.8, -0.7], [-1, -4]], F32)],
    ),
    Sample(
        "the last row as default",
        [np.array([[1], [2], [3]], F32), np.array([0]), np.array([0, 0]), I64(2)],
        [np.array([[3], [1]], F32)],
    ),
    Sample(
        "a bag whose weights are all 0 is not empty",
        [TABLE, np.array([1, 2]), np.array([0, 0]), I64(4), np.zeros(2, F32)],
        [np.array([[0.8, -0.7], [0, 0]], F32)],
    ),
    Sample(
        "a wrong default that no bag needs",
        [TABLE, np.array([1]), np.array([0]), I64(9)],
        [TABLE[1:2]],
    ),
    Sample(
        "no indices: an empty bag",
        [TABLE, np.zeros(0, I64), np.array([0])],
        [np.zeros((1, 2), F32)],
        openvino=PAST_END,
    ),
    Sample(
        "no indices: the default row in every bag",
        [TABLE, np.zeros(0, I64), np.array([0, 0]), I64(3)],
        [np.array([[-1, 1.5], [-1, 1.5]], F32)],
        openvino=PAST_END,
    ),
    Sample(
        "last bags empty: offsets equal to the number of indices",
        [TABLE, np.array([1, 1]), np.array([0, 2, 2]), I64(0)],
        [np.array([[-0.2, -0.8], [-0.2, -0.6], [-0.2, -0.6]], F32)],
        openvino=PAST_END,
    ),
    Sample("no offsets: no bags", [TABLE, IDS, np.zeros(0, I64)], [np.zeros((0, 2), F32)]),
    Sample(
        "no offsets and no indices",
        [TABLE, np.zeros(0, I64), np.zeros(0, I64), I64(9)],
        [np.zeros((0, 2), F32)],
    ),
    Sample(
        "positions before the first offset are in no bag",
        [TABLE, np.array([2, 1, 4]), np.array([1, 2])],
        [TABLE[[1, 4]]],
    ),
    Sample(
        "positions before the first offset are not looked up",
        [TABLE, np.array([99, 1, 4]), np.array([1, 2]), I64(-1), np.array([np.nan, 1, 1], F32)],
        [TABLE[[1, 4]]],
        openvino="OpenVINO may check or read them",
    ),
    Sample(
        "rows of no elements", [np.zeros((5, 0), F32), IDS, STARTS, I64(0)], [np.zeros((3, 0), F32)]
    ),
    Sample(
        "a table without rows, nothing looked up",
        [np.zeros((0, 2), F32), np.zeros(0, I64), np.array([0, 0])],
        [np.zeros((2, 2), F32)],
        openvino=UNWRITTEN,
    ),
    Sample(
        "a table without rows, default -1",
        [np.zeros((0, 2), F32), np.zeros(0, I64), np.array([0]), I64(-1)],
        [np.zeros((1, 2), F32)],
        openvino=UNWRITTEN,
    ),
    Sample(
        "rows that are scalars",
        [np.array([1, 2, 4], F32), np.array([0, 2, 1]), np.array([0, 2]), I64(0)],
        [np.array([5, 2], F32)],
    ),
    Sample(
        "rows of three dimensions",
        [np.arange(24, dtype=F32).reshape(2, 3, 2, 2), np.array([0, 1]), np.array([0])],
        [np.arange(12, 36, 2, dtype=F32).reshape(1, 3, 2, 2)],
    ),
    Sample(
        "a table of rank 8",
        [np.full((2,) + (1,) * 7, 3, F32), np.array([0, 1]), np.array([0])],
        [np.full((1,) * 8, 6, F32)],
    ),
    *type_samples(in_one_bag),
    *nan_samples(in_one_bag),
]

MEANS = [
    Sample(
        "page 15 example 3: mean",
        [TABLE, IDS, STARTS],
        [np.array([[-1.05, -1.2], [0, 0], [-0.1, 0.4]], F32)],
        {"reduction": "mean"},
    ),
    Sample(
        "mean with a default row, which is not divided",
        [TABLE, np.array([4, 4, 4]), np.array([0, 0]), I64(3)],
        [np.array([[-1, 1.5], [0.8, -0.7]], F32)],
        {"reduction": "mean"},
    ),
    Sample(
        "mean of no indices",
        [TABLE, np.zeros(0, I64), np.array([0, 0])],
        [np.zeros((2, 2), F32)],
        {"reduction": "mean"},
        openvino=PAST_END,
    ),
    Sample(
        "mean of integers truncates toward zero",
        [np.array([[7, -7], [1, -1], [-3, 3]], I32), np.array([0, 1, 1, 2]), np.array([0, 2, 2])],
        [np.array([[4, -4], [0, 0], [-1, 1]], I32)],
        {"reduction": "mean"},
    ),
    Sample(
        "mean of integers: 14 / 3",
        [np.array([[1, 2], [5, 6], [7, 8]], I32), np.array([0, 1, 2]), np.array([0])],
        [np.array([[4, 5]], I32)],
        {"reduction": "mean"},
    ),
    Sample(
        "mean of integers: the sum wraps first",
        [np.array([[100, 100]], np.int8), np.array([0, 0]), np.array([0])],
        [np.array([[-28, -28]], np.int8)],
        {"reduction": "mean"},
    ),
    Sample(
        "mean of i64 is exact",
        [np.array([[2**60 + 1], [-3]]), np.array([0, 0, 1, 1]), np.array([0, 2])],
        [np.array([[2**60 + 1], [-3]])],
        {"reduction": "mean"},
        openvino="OpenVINO computes 64-bit types in 32 bits",
    ),
    Sample(
        "mean of u64 is exact",
        [np.array([[2**63 + 1], [2**63 - 3]], np.uint64), np.array([0, 1, 1]), np.array([0, 1])],
        [np.array([[2**63 + 1], [2**63 - 3]], np.uint64)],
        {"reduction": "mean"},
        openvino="OpenVINO computes 64-bit types in 32 bits",
    ),
    Sample(
        "mean of more terms than the type can count",
        [
            np.array([[1]], np.uint8),
            np.zeros(255 + 257, I64),
            np.array([0, 255]),
        ],  # 257 wraps to 1, and 1 / 257 is 0
        [np.array([[1], [0]], np.uint8)],
        {"reduction": "mean"},
        openvino="OpenVINO counts in the type of the table",
    ),
    Sample(
        "mean of f16 is rounded once",
        [np.array([[60000], [2], [1]], np.float16), np.array([0, 0, 1, 1, 2]), np.array([0, 2])],
        [np.array([[60000], [5 / 3]], np.float16)],
        {"reduction": "mean"},
    ),
]

REFUSALS = [
    *table_refusals(lambda table, indices: [table, indices, np.array([0], indices.dtype)]),
    Refusal(
        "index past the table",
        [TABLE, np.array([0, 5]), np.array([0])],
        r"'indices': indices\[1\] is 5, expected 0 to 4",
    ),
    Refusal(
        "negative index",
        [TABLE, np.array([-1]), np.array([0])],
        r"'indices': indices\[0\] is -1, expected 0 to 4",
    ),
    Refusal(
        "index beyond 32 bits",
        [TABLE, np.array([1, 2**32 + 1]), np.array([0])],
        r"indices\[1\] is 4294967297, expected 0 to 4",
    ),
    Refusal(
        "index into rows of no elements",
        [np.zeros((2, 0), F32), np.array([2]), np.array([0])],
        r"indices\[0\] is 2, expected 0 to 1",
    ),
    Refusal(
        "index into a table without rows",
        [np.zeros((0, 2), F32), np.array([0]), np.array([0])],
        "expected none: 'emb_table' has no rows",
    ),
    Refusal(
        "default from a table without rows",
        [np.zeros((0, 2), F32), np.zeros(0, I64), np.array([0]), I64(0)],
        r"'default_index': expected -1 \(zeros\) or none: 'emb_table' has no rows, got 0: bag 0 "
        r"is empty",
    ),
    Refusal(
        "default past the table, needed by the second bag",
        [TABLE, IDS, STARTS, I64(5)],
        r"'default_index': expected -1 \(zeros\) or 0 to 4, got 5: bag 1 is empty",
    ),
    Refusal(
        "default -2",
        [TABLE, IDS, np.array([0, 4]), I64(-2)],
        r"expected -1 \(zeros\) or 0 to 4, got -2: bag 1 is empty",
    ),
    Refusal(
        "default beyond 32 bits", [TABLE, IDS, STARTS, I64(2**32)], "got 4294967296: bag 1 is empty"
    ),
    Refusal(
        "offset past the end",
        [TABLE, IDS, np.array([0, 5])],
        r"'offsets': offsets\[1\] is 5, expected 0 to 4, the number of indices",
    ),
    Refusal(
        "offset past the end in the middle",
        [TABLE, IDS, np.array([0, 2**40, 3])],
        r"offsets\[1\] is 1099511627776, expected 0 to 4",
    ),
    Refusal(
        "offset beyond 32 bits",
        [TABLE, IDS, np.array([0, 2**32 + 2])],
        r"offsets\[1\] is 4294967298, expected 0 to 4",
    ),
    Refusal(
        "negative offset", [TABLE, IDS, np.array([-1, 2])], r"offsets\[0\] is -1, expected 0 to 4"
    ),
    Refusal(
        "offset past no indices",
        [TABLE, np.zeros(0, I64), np.array([0, 1])],
        r"offsets\[1\] is 1, expected 0 to 0",
    ),
    Refusal(
        "offsets that decrease",
        [TABLE, IDS, np.array([0, 3, 2])],
        r"offsets\[2\] is 2, expected no less than the offset before it",
    ),
    Refusal(
        "strict: first offset",
        [TABLE, IDS, np.array([1, 2])],
        r"offsets\[0\] is 1, expected 0: the indices before it",
        strict=True,
    ),
    Refusal(
        "indices of two dimensions",
        [TABLE, IDS[None], STARTS],
        r"'indices': expected one dimension, got shape \[1,4\]",
    ),
    Refusal(
        "scalar offset", [TABLE, IDS, I64(0)], r"'offsets': expected one dimension, got shape \[\]"
    ),
    Refusal(
        "default of one dimension",
        [TABLE, IDS, STARTS, np.array([0])],
        r"'default_index': expected a scalar, got shape \[1\]",
    ),
    Refusal(
        "weights too long",
        [TABLE, IDS, STARTS, I64(-1), ones(5)],
        r"'per_sample_weights': expected shape \[4\], .* got \[5\]",
    ),
    Refusal(
        "weights too short",
        [TABLE, IDS, STARTS, I64(-1), ones(3)],
        r"'per_sample_weights': expected shape \[4\], .* got \[3\]",
    ),
    Refusal(
        "weights of two dimensions",
        [TABLE, IDS, STARTS, I64(-1), ones(4, 1)],
        r"'per_sample_weights': expected one dimension",
    ),
    Refusal(
        "one weight for all",
        [TABLE, IDS, STARTS, I64(-1), ones()],
        r"'per_sample_weights': expected one dimension, got shape \[\]",
    ),
    Refusal(
        "weights of another float type",
        [TABLE, IDS, STARTS, I64(-1), np.ones(4)],
        r"'per_sample_weights' \(port 4\): expected f32 as 'emb_table' has, got f64",
    ),
    Refusal(
        "float weights on integers",
        [TABLE.astype(I32), IDS, STARTS, I64(-1), HALVES],
        "expected i32 as 'emb_table' has, got f32",
    ),
    Refusal(
        "weights in the place of the default",
        [TABLE, IDS, STARTS, HALVES],
        r"'default_index' \(port 3\): expected one of i64, i32, got f32",
    ),
    Refusal(
        "offsets of another type",
        [TABLE, IDS, STARTS.astype(I32)],
        r"'offsets' \(port 2\): expected i64 as 'indices' has, got i32",
    ),
    Refusal(
        "default of another type",
        [TABLE, IDS, STARTS, I32(0)],
        r"'default_index' \(port 3\): expected i64 as 'indices' has, got i32",
    ),
    Refusal("no offsets at all", [TABLE, IDS], r"'offsets' \(port 2\) is missing"),
]
MEAN_REFUSALS = [
    Refusal(
        "another reduction",
        [TABLE, IDS, STARTS],
        "attribute 'reduction': expected one of sum, mean, got 'max'",
        {"reduction": "max"},
    ),
    Refusal(
        "mean with weights",
        [TABLE, IDS, STARTS, I64(-1), HALVES],
        "'per_sample_weights': a mean takes no weights",
        {"reduction": "mean"},
    ),
]


@st.composite
def cases(draw: st.DrawFn, means: bool) -> Case:
    table, type_name = draw(tables())
    count = draw(st.integers(0, 7))
    ids = draw(st.sampled_from(["i4", "i8"]))
    indices = draw(integer_arrays((count,), 0, len(table) - 1, (ids,)))
    offsets = np.array(sorted(draw(st.lists(st.integers(0, count), max_size=4))), ids)
    default = draw(st.none() | st.integers(-1, len(table) - 1).map(lambda d: np.asarray(d, ids)))
    mean = means and draw(st.booleans())
    weights = None if mean or draw(st.booleans()) else draw(weights_like(type_name, (count,)))[0]
    types = [type_name, None, None, None, type_name]
    return Case(
        [table, indices, offsets, default, weights], {"reduction": "mean"} if mean else {}, types
    )


def loop(case: Case) -> list[np.ndarray]:
    _, indices, offsets, default, weights = case.inputs
    ends = [*offsets.tolist()[1:], len(indices)]
    bags = [list(range(start, end)) for start, end in zip(offsets.tolist(), ends, strict=False)]
    return by_hand(
        case, bags, weights, None if default is None else int(default), bool(case.attributes)
    )


SAMPLES = [
    Samples(EmbeddingBagOffsetsSum3, EXAMPLES, REFUSALS, cases(False), loop),
    Samples(EmbeddingBagOffsets15, EXAMPLES + MEANS, REFUSALS + MEAN_REFUSALS, cases(True), loop),
]
