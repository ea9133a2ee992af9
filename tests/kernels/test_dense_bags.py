"""Sums of rows as they are stored: rows of bf16 in words, bags of all lengths, large tables. All
between fences, and of small whole numbers, whose sums are exact in any order.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import run_fenced
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target, levels_here
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.types import ElementType, PartialShape, TensorSpec

LEVELS = tuple(levels_here())
#: Bags on both sides of where several chains begin.
LENGTHS = (0, 1, 2, 7, 31, 32, 33, 35, 36, 100, 3)


def bits_of(values: np.ndarray) -> np.ndarray:
    """The bits of bf16 that f32 numbers are exactly."""
    words = np.ascontiguousarray(values, np.float32).view(np.uint32)
    assert not (words & 0xFFFF).any()
    return (words >> 16).astype(np.uint16)


def found(
    table: np.ndarray, kind: str, indices: np.ndarray, offsets: np.ndarray, target: Target
) -> np.ndarray:
    """The sums by the kernel, as it stores them."""
    specs = [
        TensorSpec(ElementType[kind], PartialShape(table.shape), table),
        *(TensorSpec(ElementType.i64, PartialShape(a.shape), a) for a in (indices, offsets)),
    ]
    operation = find("EmbeddingBagOffsetsSum", 3)()
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    chosen = select_kernel(operation, specs, outputs, target)
    assert isinstance(chosen, KernelPlan)
    results = run_fenced(chosen, specs, outputs, False, 1)
    assert results is not None, "left to the reference"
    return results[0]


def bags(count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ids of rows below `count`, and where bags of all lengths begin."""
    ends = np.cumsum(LENGTHS)
    return generator.integers(0, count, int(ends[-1])), np.concatenate([[0], ends[:-1]])


def sums(table: np.ndarray, indices: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    ends = [*offsets[1:], len(indices)]
    return np.stack(
        [table[indices[a:b]].sum(0, dtype=np.float64) for a, b in zip(offsets, ends, strict=True)]
    )


@pytest.mark.parametrize("target", LEVELS, ids=lambda target: f"{target.cpu}-{target.lanes}")
@pytest.mark.parametrize("columns", [1, 3, 7, 16, 20, 32, 33, 36, 44, 64, 72, 100, 257, 520])
def test_rows_of_bf16(columns: int, target: Target) -> None:
    generator = np.random.default_rng(columns)
    table = generator.integers(-2, 3, (50, columns)).astype(np.float32)
    indices, offsets = bags(50, generator)
    got = found(bits_of(table), "bf16", indices, offsets, target)
    np.testing.assert_array_equal(got, bits_of(sums(table, indices, offsets)))


@pytest.mark.parametrize("target", LEVELS, ids=lambda target: f"{target.cpu}-{target.lanes}")
def test_every_bf16_in_a_bag_of_one_row(target: Target) -> None:
    """Small numbers, zeros with their signs and infinities stay as they are; NaN stay NaN."""
    table = np.arange(1 << 16, dtype=np.uint16).reshape(-1, 128)
    rows = np.arange(len(table))
    got = found(table, "bf16", rows, rows, target)
    is_nan = (table & 0x7FFF) > 0x7F80
    np.testing.assert_array_equal(got[~is_nan], table[~is_nan])
    assert ((got[is_nan] & 0x7FFF) > 0x7F80).all()


@pytest.mark.parametrize("columns", [1, 7, 16, 20, 32, 36, 64])
def test_bags_of_all_lengths(columns: int) -> None:
    generator = np.random.default_rng(columns)
    table = generator.integers(-9, 10, (50, columns)).astype(np.float32)
    indices, offsets = bags(50, generator)
    got = found(table, "f32", indices, offsets, LEVELS[0])
    np.testing.assert_array_equal(got, sums(table, indices, offsets))


@pytest.mark.parametrize("columns", [16, 100])
def test_many_rows_of_a_large_table(columns: int) -> None:
    """Ids far ahead are looked at, none behind the last one."""
    generator = np.random.default_rng(columns)
    table = np.zeros(((18 << 20) // (4 * columns), columns), np.float32)
    table[:] = np.arange(len(table))[:, None] % 17
    indices = generator.integers(0, len(table), 9000)
    offsets = np.sort(generator.integers(0, 9000, 400))
    offsets[0] = 0
    got = found(table, "f32", indices, offsets, LEVELS[0])
    np.testing.assert_array_equal(got, sums(table, indices, offsets))
