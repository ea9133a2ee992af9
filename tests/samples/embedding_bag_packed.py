"""EmbeddingBagPackedSum-3, EmbeddingBagPacked-15. Examples named after a page are that page's."""

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
from uncork.ops.embedding_bag_packed import EmbeddingBagPacked15, EmbeddingBagPackedSum3

IDS = np.array([[0, 2], [1, 2], [3, 4]])
HALVES = np.full((3, 2), 0.5, F32)
NO_TERMS = "OpenVINO refuses bags of no indices"


def in_one_bag(table: Any, indices: list[int], weights: Any) -> list[Any]:
    """All indices in one bag."""
    inputs = [table, np.array([indices], I64)]
    return inputs if weights is None else [*inputs, weights[None]]


EXAMPLES = [
    Sample(
        "page example: weights",
        [TABLE, IDS, HALVES],
        [np.array([[-1.05, -1.2], [-1, -1.1], [-0.1, 0.4]], F32)],
    ),
    Sample(
        "page 15 example 1: no weights",
        [TABLE, IDS],
        [np.array([[-2.1, -2.4], [-2, -2.2], [-0.2, 0.8]], F32)],
    ),
    Sample(
        "ids of 32 bits",
        [TABLE, IDS.astype(I32)],
        [np.array([[-2.1, -2.4], [-2, -2.2], [-0.2, 0.8]], F32)],
    ),
    Sample(
        "bags of no indices",
        [TABLE, np.zeros((3, 0), I64)],
        [np.zeros((3, 2), F32)],
        openvino=NO_TERMS,
    ),
    Sample(
        "bags of no indices, with weights",
        [TABLE, np.zeros((3, 0), I64), np.zeros((3, 0), F32)],
        [np.zeros((3, 2), F32)],
        openvino=NO_TERMS,
    ),
    Sample("no bags", [TABLE, np.zeros((0, 3), I64)], [np.zeros((0, 2), F32)]),
    Sample("rows of no elements", [np.zeros((5, 0), F32), IDS], [np.zeros((3, 0), F32)]),
    Sample(
        "a table without rows, no bags",
        [np.zeros((0, 2), F32), np.zeros((0, 3), I64)],
        [np.zeros((0, 2), F32)],
    ),
    Sample(
        "a table without rows, bags of no indices",
        [np.zeros((0, 2), F32), np.zeros((2, 0), I64)],
        [np.zeros((2, 2), F32)],
        openvino=UNWRITTEN,
    ),
    Sample(
        "rows that are scalars",
        [np.array([1, 2, 4], F32), np.array([[0, 2, 2], [1, 1, 0]])],
        [np.array([9, 5], F32)],
    ),
    Sample(
        "rows of three dimensions",
        [np.arange(24, dtype=F32).reshape(2, 3, 2, 2), np.array([[0, 1]])],
        [np.arange(12, 36, 2, dtype=F32).reshape(1, 3, 2, 2)],
    ),
    Sample(
        "a table of rank 8",
        [np.full((2,) + (1,) * 7, 3, F32), np.array([[0, 1]])],
        [np.full((1,) * 8, 6, F32)],
    ),
    *type_samples(in_one_bag),
    *nan_samples(in_one_bag),
]

MEANS = [
    Sample(
        "page 15 example 3: mean",
        [TABLE, IDS],
        [np.array([[-1.05, -1.2], [-1, -1.1], [-0.1, 0.4]], F32)],
        {"reduction": "mean"},
    ),
    Sample(
        "mean of no indices",
        [TABLE, np.zeros((2, 0), I64)],
        [np.zeros((2, 2), F32)],
        {"reduction": "mean"},
        openvino=NO_TERMS,
    ),
    Sample(
        "mean of integers truncates toward zero",
        [np.array([[7, -7], [0, 0]], I32), np.array([[0, 1], [1, 1]])],
        [np.array([[3, -3], [0, 0]], I32)],
        {"reduction": "mean"},
    ),
]

REFUSALS = [
    *table_refusals(lambda table, indices: [table, indices[None]]),
    Refusal(
        "index past the table",
        [TABLE, np.array([[0, 1], [5, 0]])],
        r"'indices': indices\[1, 0\] is 5, expected 0 to 4",
    ),
    Refusal(
        "negative index", [TABLE, np.array([[0, -1]])], r"indices\[0, 1\] is -1, expected 0 to 4"
    ),
    Refusal(
        "index beyond 32 bits",
        [TABLE, np.array([[2**32 + 1]])],
        r"indices\[0, 0\] is 4294967297, expected 0 to 4",
    ),
    Refusal(
        "index into a table without rows",
        [np.zeros((0, 2), F32), np.array([[0]])],
        "expected none: 'emb_table' has no rows",
    ),
    Refusal(
        "indices of one dimension",
        [TABLE, np.array([0, 1])],
        r"'indices': expected 2 dimensions, got shape \[2\]",
    ),
    Refusal(
        "weights of one dimension",
        [TABLE, IDS, np.ones(2, F32)],
        r"'per_sample_weights': expected 2 dimensions, got shape \[2\]",
    ),
    Refusal(
        "weights too short",
        [TABLE, IDS, HALVES[:, :1]],
        r"'per_sample_weights': expected shape \[3,2\], .* got \[3,1\]",
    ),
    Refusal(
        "weights of another type",
        [TABLE, IDS, HALVES.astype(np.float16)],
        "expected f32 as 'emb_table' has, got f16",
    ),
]
MEAN_REFUSALS = [
    Refusal(
        "another reduction",
        [TABLE, IDS],
        "attribute 'reduction': expected one of sum, mean, got 'max'",
        {"reduction": "max"},
    ),
    Refusal(
        "mean with weights",
        [TABLE, IDS, HALVES],
        "'per_sample_weights': a mean takes no weights",
        {"reduction": "mean"},
    ),
]


@st.composite
def cases(draw: st.DrawFn, means: bool) -> Case:
    table, type_name = draw(tables())
    shape = (draw(st.integers(0, 3)), draw(st.integers(0, 4)))
    indices = draw(integer_arrays(shape, 0, len(table) - 1))
    mean = means and draw(st.booleans())
    weights = None if mean or draw(st.booleans()) else draw(weights_like(type_name, shape))[0]
    return Case(
        [table, indices, weights],
        {"reduction": "mean"} if mean else {},
        [type_name, None, type_name],
    )


def loop(case: Case) -> list[np.ndarray]:
    _, indices, weights = case.inputs
    bags, size = indices.shape
    return by_hand(
        case,
        [list(range(b * size, b * size + size)) for b in range(bags)],
        weights,
        None,
        bool(case.attributes),
    )


SAMPLES = [
    Samples(EmbeddingBagPackedSum3, EXAMPLES, REFUSALS, cases(False), loop),
    Samples(EmbeddingBagPacked15, EXAMPLES + MEANS, REFUSALS + MEAN_REFUSALS, cases(True), loop),
]
