"""Weights as kernels read them: panels of columns, where a cache line begins."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from uncork.kernels.gemm.indirect import panels
from uncork.kernels.gemm.spec_indirect import indirect_gemm
from uncork.kernels.runtime.packed_weights import (
    PackedWeights,
    arranged,
    memory_shared,
    packed,
    panels_of,
    zeros,
)


def test_columns_lie_side_by_side_and_zeros_past_the_last() -> None:
    columns = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    expected = [[[1, 3], [2, 4]], [[5, 0], [6, 0]]]
    np.testing.assert_array_equal(panels_of(columns, 2), expected)
    np.testing.assert_array_equal(panels_of(np.asfortranarray(columns), 2), expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("count", "inner"), [(1, 1), (48, 256), (49, 257), (95, 600), (5, 513)])
def test_every_number_is_at_its_place(order: str, count: int, inner: int) -> None:
    columns = np.arange(count * inner, dtype=np.float64).reshape(count, inner)
    found = panels_of(np.asarray(columns, order=order), 48)  # type: ignore[call-overload]
    assert found.dtype == np.float32 and found.ctypes.data % 64 == 0 and found.flags.c_contiguous
    for column in range(len(found) * 48):
        expected = columns[column] if column < count else np.zeros(inner)
        np.testing.assert_array_equal(found[column // 48, :, column % 48], expected)


def test_any_order_in_memory_is_brought_to_that_of_the_indices() -> None:
    source = np.arange(210, dtype=np.float64).reshape(5, 6, 7)
    found = arranged(source.transpose(2, 0, 1)[::-1])
    assert found.dtype == np.float32 and found.ctypes.data % 64 == 0 and found.flags.c_contiguous
    for place in np.ndindex(found.shape):
        assert found[place] == source[place[1], place[2], 6 - place[0]]
    assert PackedWeights([found], []).arrays[0] is found


def test_packing_keeps_an_array_that_lies_well() -> None:
    made = panels_of(np.ones((3, 4), np.float32), 16)
    assert PackedWeights([made], []).arrays[0] is made
    source = np.ones(4, np.float32)
    first = packed([source], "a way", lambda: [made])
    assert packed([source], "a way", lambda: pytest.fail("packed before")) is first


def test_several_matrices() -> None:
    matrices = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    spec = indirect_gemm(3, 4, neighbours=True)
    found = panels(spec, matrices)
    assert found.shape == (2, 1, 2, 4)
    np.testing.assert_array_equal(found[1, 0], [[6, 8, 10, 0], [7, 9, 11, 0]])


def test_one_kernel_for_all_tails_where_masks_cost_nothing() -> None:
    """With vectors of 16 a kernel is for tails of as many vectors; else for one tail."""
    of_16 = {columns: indirect_gemm(columns, 16, neighbours=True) for columns in range(1, 200)}
    assert len(set(of_16.values())) == 5
    assert of_16[33] == of_16[48] == of_16[96] and of_16[49] == of_16[64] != of_16[65]
    assert indirect_gemm(33, 8, neighbours=True) != indirect_gemm(34, 8, neighbours=True)


def test_arrays_of_a_plan_share_memory_and_nothing_else() -> None:
    """From a few megabytes on; each is zeros at first, at a cache line, and its own."""
    sizes = [3, 700_000, 700_001, 1, 65, 5_000_000, 1_300_000, 2_000_000, 2_000_000]
    with memory_shared():
        arrays = [zeros((size,)) for size in sizes]
        for number, array in enumerate(arrays, 1):
            assert array.ctypes.data % 64 == 0 and not array.any()
            array[:] = number
        with memory_shared():
            assert not np.shares_memory(zeros((2_000_000,)), arrays[-1])
    for number, array in enumerate(arrays, 1):
        assert (array == number).all()
    owners = {id(_owner(array)) for array in arrays}
    assert len(owners) < len(arrays)
    last = _owner(arrays[-1])
    assert last is _owner(arrays[-2]) and last.nbytes > arrays[-1].nbytes + arrays[-2].nbytes


def _owner(array: np.ndarray) -> np.ndarray:
    """The array that has the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
