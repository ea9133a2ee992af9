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
    count = -(-(2 << 20) // (columns * 4)) + 3
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
