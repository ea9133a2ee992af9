"""Sums of segments whose ids are not sorted, by the kernels for sorted ones, and between fences."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._fences import run_fenced
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import host_target
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.types import ElementType, PartialShape, TensorSpec


def spec(value: np.ndarray) -> TensorSpec:
    kind = ElementType.of_dtype(value.dtype)
    assert kind is not None
    return TensorSpec(kind, PartialShape(value.shape), value)


def summed(
    table: np.ndarray, indices: np.ndarray, ids: np.ndarray, default: int, weights: np.ndarray
) -> np.ndarray:
    """By a loop, in f64."""
    made = np.zeros((9, table.shape[1]))
    made[:] = table[default]
    made[ids] = 0
    for index, segment, weight in zip(indices, ids, weights, strict=True):
        made[segment] += table[index].astype(np.float64) * weight
    return made


@pytest.mark.parametrize("type_", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("count", [2, 17, 100])
def test_any_order(count: int, index: type, type_: type) -> None:
    generator = np.random.default_rng(count)
    table = generator.standard_normal((20, 19)).astype(type_)
    indices = generator.integers(0, 20, count).astype(index)
    ids = generator.permutation(np.arange(count) % 8).astype(index)  # segment 8 is empty
    ids[-1] = 0
    weights = generator.standard_normal(count).astype(type_)
    specs = [spec(table), spec(indices), spec(ids), spec(np.array(9, index))]
    specs += [spec(np.array(3, index)), spec(weights)]
    operation = find("EmbeddingSegmentsSum", 3)()
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    chosen = select_kernel(operation, specs, outputs, host_target())
    assert isinstance(chosen, KernelPlan)
    expected = summed(table, indices, ids, 3, weights)
    for threads in (1, 3):
        found = run_fenced(chosen, specs, outputs, threads > 1, threads)
        assert found is not None, "left to the reference"
        tolerance = 1e-2 if type_ is np.float16 else 1e-5
        np.testing.assert_allclose(found[0], expected, rtol=tolerance, atol=tolerance)


def test_sums_have_the_bits_of_sorted_ids(tmp_path) -> None:
    """In a compiled file as well, which has no references."""
    builder = uncork.Builder("segments")
    table = builder.constant(np.random.default_rng(1).standard_normal((50, 8)).astype(np.float32))
    indices, ids = (builder.parameter(name, "i64", [-1]) for name in ("indices", "ids"))
    weights = builder.parameter("weights", "f32", [-1])
    given = [builder.constant(np.int64(7)), builder.constant(np.int64(-1)), weights]
    (made,) = builder.add("EmbeddingSegmentsSum", 3, table, indices, ids, *given)
    builder.result(made, "y")
    model = builder.model()
    uncork.compile_to(model, tmp_path / "segments.uncork")
    generator = np.random.default_rng(2)
    order = generator.permutation(40)
    rows, of, by = generator.integers(0, 50, 40), np.sort(order % 7), np.ones(40, np.float32)
    back = np.argsort(order, kind="stable")
    for compiled in (uncork.compile_model(model), uncork.load(tmp_path / "segments.uncork")):
        right = compiled(rows, of, by)["y"]
        again = np.argsort(of[back], kind="stable")
        mixed = of[back], rows[back]
        expected = compiled(mixed[1][again], mixed[0][again], by)["y"]
        np.testing.assert_array_equal(compiled(mixed[1], mixed[0], by)["y"], expected)
        np.testing.assert_allclose(expected, right, rtol=1e-5, atol=1e-5)
        with pytest.raises(uncork.UncorkError):
            compiled(rows[:3], np.array([3, 7, 1]), by[:3])


def test_strict_models_refuse_them() -> None:
    builder = uncork.Builder("segments")
    table = builder.parameter("table", "f32", [5, 2])
    ids = builder.parameter("ids", "i64", [3])
    (made,) = builder.add("EmbeddingSegmentsSum", 3, table, builder.constant(np.arange(3)), ids,
                          builder.constant(np.int64(4)))  # fmt: skip
    builder.result(made, "y")
    table_ = np.arange(10, dtype=np.float32).reshape(5, 2)
    with pytest.raises(uncork.InputError, match="sorted"):
        uncork.compile_model(builder.model(), strict=True)(table_, np.array([2, 0, 1]))
    made_ = uncork.compile_model(builder.model())(table_, np.array([2, 0, 1]))["y"]
    np.testing.assert_array_equal(made_, [[2, 3], [4, 5], [0, 1], [0, 0]])
