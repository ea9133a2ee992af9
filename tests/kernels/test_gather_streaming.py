"""Gather into large results, which go past the caches: wherever they begin in memory, whatever is
out of range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork

pytest.importorskip("llvmlite")

F32 = np.float32


def lookup(columns: int, strict: bool = False) -> uncork.CompiledModel:
    builder = uncork.Builder("lookup")
    table = np.random.default_rng(0).standard_normal((50, columns)).astype(F32)
    ids = builder.parameter("ids", "i64", [None])
    builder.result(
        *builder.add(
            "Gather", 8, builder.constant(table, name="table"), ids, builder.constant(np.int64(0))
        )
    )
    return uncork.compile_model(builder.model(), strict=strict)


def table_of(compiled: uncork.CompiledModel) -> Any:
    return next(node.operation.value for node in compiled.model.nodes if node.name == "table")  # type: ignore[union-attr]


@pytest.mark.parametrize("columns", [16, 32, 48, 256, 512, 1024, 1040])
@pytest.mark.parametrize("offset", [0, 4, 8, 16, 32, 48, 60])
def test_results_that_begin_anywhere(columns: int, offset: int) -> None:
    compiled = lookup(columns)
    table = table_of(compiled)
    count = -(-(16 << 20) // (columns * 4)) + 3
    ids = np.random.default_rng(columns).integers(-50, 50, count)
    ids[[0, 7, count // 2, count - 1]] = 50, -51, 2**40, -(2**62)
    outside = (ids < -50) | (ids >= 50)
    expected = np.where(outside[:, None], F32(0), table[np.where(outside, 0, ids)])
    memory = np.full(count * columns * 4 + 256, 0xA5, np.uint8)
    begin = -memory.ctypes.data % 64 + 64 + offset
    result = memory[begin : begin + count * columns * 4].view(F32).reshape(count, columns)
    call = compiled.bind(ids, outputs=[result])
    np.testing.assert_array_equal(call()[0], expected)
    assert (memory[:begin] == 0xA5).all() and (memory[begin + result.nbytes :] == 0xA5).all(), (
        "written outside"
    )
    np.testing.assert_array_equal(compiled(ids)[0], expected)


def test_strict_names_the_index() -> None:
    compiled = lookup(64, strict=True)
    ids = np.zeros(20_000, np.int64)
    ids[12_345] = 50
    with pytest.raises(uncork.InputError, match=r"12345.*50"):
        compiled(ids)


def test_long_rows_of_any_number_of_bytes_share_a_kernel() -> None:
    """Rows of 2048 bytes and more come with their length; shorter ones have kernels of theirs."""
    kernels: dict[int, str] = {}
    for size in (2047, 2048, 2049, 2111, 2303, 2304, 2305, 5000):
        rows = np.random.default_rng(size).integers(0, 255, (5, size), np.uint8)
        builder = uncork.Builder("rows")
        ids = builder.parameter("ids", "i32", [None])
        axis = builder.constant(np.int64(0))
        builder.result(*builder.add("Gather", 8, builder.constant(rows), ids, axis))
        compiled = uncork.compile_model(builder.model())
        memory = np.full(4 * size + 128, 0xA5, np.uint8)
        result = memory[61 : 61 + 4 * size].reshape(4, size)
        compiled.bind(np.array([4, -1, 9, 1], np.int32), outputs=[result])()
        np.testing.assert_array_equal(result, [rows[4], rows[4], np.zeros(size), rows[1]])
        assert (memory[:61] == 0xA5).all() and (memory[61 + 4 * size :] == 0xA5).all()
        (kernels[size],) = (
            s.kernel.split()[0] for s in compiled.plan.steps if s.kernel.startswith("gather")
        )
    assert kernels.pop(2047) == "gather_rows_2047_i32_wraps"
    assert set(kernels.values()) == {"gather_rows_long_i32_wraps"}
