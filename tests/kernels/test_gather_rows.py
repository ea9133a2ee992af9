"""Gather of some items of each of many rows, by indices that rows share or that each has itself:
the rows to come are prefetched, and every index is looked at all the same.
"""

from __future__ import annotations

import numpy as np
import pytest

import uncork

pytest.importorskip("llvmlite")

#: Numbers in an item, on both sides of what is prefetched, checked together and copied in lines.
ITEMS = (1, 4, 5, 8, 16, 17, 64, 520)


def gathered(data: np.ndarray, ids: np.ndarray, batch_dims: int) -> np.ndarray:
    """By the kernel that is selected."""
    builder = uncork.Builder("rows")
    source = builder.parameter("data", "f32", list(data.shape))
    index = {np.dtype(np.int64): "i64", np.dtype(np.int32): "i32"}[ids.dtype]
    given = builder.parameter("ids", index, list(ids.shape))
    axis = builder.constant(np.int64(len(data.shape) - 2))
    (found,) = builder.add("Gather", 8, source, given, axis, batch_dims=batch_dims)
    builder.result(found)
    compiled = uncork.compile_model(builder.model())
    result = compiled(data, ids)[0]
    assert "gather" in str(compiled.plan)
    return np.asarray(result)


def by_loops(data: np.ndarray, ids: np.ndarray, batch_dims: int) -> np.ndarray:
    """Item by item; zeros where there is none."""
    batches = data.shape[0] if batch_dims else 1
    slabs = data.reshape(batches, -1, *data.shape[-2:])
    own = ids.reshape(batches, -1)
    result = np.zeros((*slabs.shape[:2], own.shape[1], data.shape[-1]), data.dtype)
    size = slabs.shape[2]
    for batch, j in np.ndindex(own.shape):
        index = int(own[batch, j])
        if -size <= index < size:
            result[batch, :, j] = slabs[batch, :, index]
    inner = ids.shape[1:] if batch_dims else ids.shape
    return result.reshape(*data.shape[:-2], *inner, data.shape[-1])


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("count", [1, 3, 31, 32, 33, 63, 64, 100])
@pytest.mark.parametrize("own", [0, 1])
def test_rows_of_few_items(item: int, count: int, own: int) -> None:
    generator = np.random.default_rng(item * 1000 + count)
    rows = (300 << 10) // (item * count * 4) % 700 + 40  # some below, some above what caches hold
    data = generator.standard_normal((rows, 21, item)).astype(np.float32)
    ids = generator.integers(-21, 21, (rows, count) if own else (count,))
    ids.reshape(-1)[[0, -1]] = 20, -21
    for type_ in (np.int64, np.int32):
        given = ids.astype(type_)
        np.testing.assert_array_equal(gathered(data, given, own), by_loops(data, given, own))
        given.reshape(-1)[count // 2] = 21  # outside
        np.testing.assert_array_equal(gathered(data, given, own), by_loops(data, given, own))


def test_batches_of_several_rows() -> None:
    """The indices of a batch are those of all of its rows."""
    generator = np.random.default_rng(0)
    data = generator.standard_normal((6, 50, 30, 64)).astype(np.float32)
    ids = generator.integers(-30, 31, (6, 20))
    np.testing.assert_array_equal(gathered(data, ids, 1), by_loops(data, ids, 1))


@pytest.mark.parametrize("own", [0, 1])
def test_items_whose_length_the_call_tells(own: int) -> None:
    """Each row has items of its own, wherever it begins."""
    generator = np.random.default_rng(own)
    builder = uncork.Builder("items")
    source = builder.parameter("data", "f32", [-1, 3, -1, -1])
    given = builder.parameter("ids", "i64", [-1, -1] if own else [-1])
    axis = builder.constant(np.int64(2))
    (found,) = builder.add("Gather", 8, source, given, axis, batch_dims=own)
    builder.result(found)
    compiled = uncork.compile_model(builder.model())
    # The last three have data that may be in memory: items are asked for before they are copied.
    small = [(1, 1, 1, 1), (2, 5, 7, 4), (3, 9, 1, 12), (4, 2, 70, 3)]
    for batches, size, item, count in [*small, (2, 40, 700, 33), (3, 90, 530, 5), (1, 9000, 5, 17)]:
        data = generator.standard_normal((batches, 3, size, item)).astype(np.float32)
        ids = generator.integers(-size, size + 1, (batches, count) if own else (count,))
        np.testing.assert_array_equal(compiled(data, ids)[0], by_loops(data, ids, own))
    assert "gather" in str(compiled.plan)


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_few_items_of_a_large_table(item: int, count: int) -> None:
    """They are asked for before any is copied, wherever their indices lead."""
    generator = np.random.default_rng(item + count)
    data = generator.standard_normal((2, (1 << 17) // item, item)).astype(np.float32)
    ids = generator.integers(-data.shape[1], data.shape[1], (2, count))
    np.testing.assert_array_equal(gathered(data, ids, 1), by_loops(data, ids, 1))
    ids[:, 0], ids[1, -1] = 1 << 60, -(1 << 62)
    np.testing.assert_array_equal(gathered(data, ids, 1), by_loops(data, ids, 1))
