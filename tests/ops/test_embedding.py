"""The embedding operations in models: what is found at load, at run time, and what a call costs in
memory.
"""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork import functional as F
from uncork.errors import InputError, ValidationError
from uncork.ops.embedding_segments_sum import EmbeddingSegmentsSum3
from uncork.types import ElementType, PartialShape, TensorSpec

TABLE = np.array([[1, 2], [10, 20], [100, 200]], np.float32)


def segments_model(num_segments: Any = None) -> uncork.Model:
    """All inputs dynamic; `num_segments` is a constant, or an input when None."""
    builder = uncork.Builder("segments")
    sources = [
        builder.parameter("table", "f32", [None, None]),
        builder.parameter("ids", "i64", [None]),
        builder.parameter("segment_ids", "i64", [None]),
        builder.parameter("count", "i64", [])
        if num_segments is None
        else builder.constant(np.int64(num_segments)),
        builder.parameter("default", "i64", []),
        builder.parameter("weights", "f32", [None]),
    ]
    (sums,) = builder.add("EmbeddingSegmentsSum", 3, *sources, name="sums")
    builder.result(sums, "sums")
    return builder.model()


def test_a_known_number_of_segments_is_in_the_shape() -> None:
    assert uncork.compile_model(segments_model(3)).outputs[0].shape == PartialShape([3, None])
    assert uncork.compile_model(segments_model()).outputs[0].shape == PartialShape([None, None])


@pytest.mark.parametrize("count", [-1, -(2**40)])
def test_a_negative_number_of_segments_is_found_at_load(count: int, tmp_path: Path) -> None:
    uncork.write_model(segments_model(3), tmp_path / "model.xml")
    weights = (tmp_path / "model.bin").read_bytes()
    assert struct.pack("<q", 3) in weights
    (tmp_path / "model.bin").write_bytes(
        weights.replace(struct.pack("<q", 3), struct.pack("<q", count))
    )
    with pytest.raises(
        ValidationError, match=f"'sums'.*'num_segments': expected 0 or more, got {count}"
    ):
        uncork.load(tmp_path / "model.xml")


def test_everything_dynamic_from_call_to_call() -> None:
    compiled = uncork.compile_model(segments_model())
    (result,) = compiled(TABLE, [0, 1, 2], [0, 0, 1], 2, -1, np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(result, [[21, 42], [300, 600]])
    (result,) = compiled(TABLE[:, :1], [2], [3], 4, 1, np.array([2], np.float32))
    np.testing.assert_array_equal(result, [[10], [10], [10], [200]])
    (result,) = compiled(
        TABLE, np.zeros(0, np.int64), np.zeros(0, np.int64), 0, 9, np.zeros(0, np.float32)
    )
    assert result.shape == (0, 2)


def test_errors_name_the_layer() -> None:
    compiled = uncork.compile_model(segments_model())
    one = np.ones(1, np.float32)
    with pytest.raises(
        InputError, match=r"layer 'sums'.*segment_ids\[0\] is 4294967296, expected 0 to 1"
    ):
        compiled(TABLE, [0], [2**32], 2, -1, one)
    with pytest.raises(
        InputError, match=r"layer 'sums'.*'num_segments': expected 0 or more, got -2"
    ):
        compiled(TABLE, [0], [0], -2, -1, one)
    with pytest.raises(
        InputError, match=r"layer 'sums'.*'per_sample_weights': expected shape \[2\]"
    ):
        compiled(TABLE, [0, 1], [0, 0], 1, -1, one)


def test_segments_that_no_memory_holds_are_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def computed(*arrays: Any) -> Any:
        raise AssertionError("the reference was called")

    monkeypatch.setattr(EmbeddingSegmentsSum3, "reference", computed)
    operation = EmbeddingSegmentsSum3()
    values = [TABLE, np.zeros(1, np.int64), np.zeros(1, np.int64), np.asarray(2**40)]
    with pytest.raises(InputError, match="needs 8,796,093,022,208 bytes"):
        operation.evaluate(
            [TensorSpec(ElementType.of_dtype(v.dtype), PartialShape(v.shape), v) for v in values]
        )


@pytest.mark.parametrize("size", [1, 10, 100_000])
def test_the_rows_of_all_positions_are_never_together_in_memory(size: int) -> None:
    count = 100_000
    table = np.ones((50, 128), np.float32)
    ids = np.arange(count) % 50
    weights = np.ones(count, np.float32)
    offsets = np.arange(0, count, size)
    tracemalloc.start()
    try:
        result = F.embedding_bag_offsets_sum(table, ids, offsets, per_sample_weights=weights)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(result, np.full((len(offsets), 128), size, np.float32))
    assert peak - result.nbytes < 15 * 2**20 < ids.size * 128 * 4
