"""Elements that are scattered by indices which are stretched over rows: expected values are sums
over rows, by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import CompiledModel, compile_model

RANDOM = np.random.default_rng(0)
_JOINED: dict[str, Any] = {
    "none": lambda old, new: new,
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def compiled(
    reduction: str,
    sizes: list[Any],
    axis: int = 0,
    stretched: bool = True,
    use_init_val: bool = True,
    element_type: str = "f32",
) -> CompiledModel:
    b = uncork.Builder("scattered")
    data, updates = (b.parameter(name, element_type, sizes) for name in ("data", "updates"))
    rank = len(sizes)
    indices = b.parameter("rows", "i64", [None, *[1] * (rank - 1)] if stretched else sizes)
    if stretched:
        shape = b.add("ShapeOf", 3, updates, output_type="i64")[0]
        (indices,) = b.add("Broadcast", 3, indices, shape, mode="bidirectional")
        (indices,) = b.add("Convert", 1, indices, destination_type="i32")
    where = b.constant(np.int64(axis))
    given: dict[str, Any] = {"reduction": reduction, "use_init_val": use_init_val}
    b.result(b.add("ScatterElementsUpdate", 12, data, indices, updates, where, **given)[0], "y")
    return compile_model(b.model())


def kinds(model: CompiledModel) -> set[str]:
    return {step.operation.partition("-")[0] for step in model.plan.steps}


@pytest.mark.parametrize("reduction", _JOINED)
@pytest.mark.parametrize("inner", [[5], [2, 3]])
def test_rows_are_scattered(reduction: str, inner: list[int]) -> None:
    model = compiled(reduction, [None, *inner])
    for count in (40, 1):
        data = RANDOM.standard_normal((7, *inner)).astype(np.float32)
        updates = RANDOM.standard_normal((count, *inner)).astype(np.float32)
        rows = RANDOM.integers(-7, 7, (count, *[1] * len(inner)))
        expected = data.copy()
        for row, update in zip(rows.ravel(), updates, strict=True):
            expected[row] = _JOINED[reduction](expected[row], update)
        got = model({"data": data, "updates": updates, "rows": rows})["y"]
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert kinds(model) & {"ScatteredRows", "ScatterElementsUpdate"} == {"ScatteredRows"}
    with pytest.raises(uncork.InputError, match=r"rows|indices|7"):
        model({"data": data, "updates": updates, "rows": rows * 0 + 7})


@pytest.mark.parametrize("uses_data", [True, False])
@pytest.mark.parametrize("element_type", ["f32", "f16", "i32"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "max"])
def test_means_and_updates_alone(reduction: str, element_type: str, uses_data: bool) -> None:
    """A row that nothing is scattered to keeps its data, whether these count or not."""
    model = compiled(reduction, [None, 37], use_init_val=uses_data, element_type=element_type)
    dtype = model.input("data").element_type.dtype
    data = RANDOM.integers(-50, 50, (9, 37)).astype(dtype)
    updates = RANDOM.integers(-50, 50, (30, 37)).astype(dtype)
    rows = RANDOM.integers(-9, 8, (30, 1))
    expected = data.copy()
    for row in range(9):
        terms = [updates[e].astype(int) for e in range(30) if rows[e, 0] % 9 == row]
        if not terms:
            continue
        terms += [data[row].astype(int)] * uses_data
        total = np.max(terms, 0) if reduction == "max" else np.sum(terms, 0)
        if reduction == "mean":
            total = total // len(terms) if element_type == "i32" else total / len(terms)
        expected[row] = total
    got = model({"data": data, "updates": updates, "rows": rows})["y"]
    np.testing.assert_array_equal(got, expected)
    (step,) = (step for step in model.plan.steps if step.operation == "ScatteredRows-0")
    assert "tuples" in step.kernel


def test_elements_with_indices_of_their_own_stay_elements() -> None:
    for model in (compiled("sum", [None, 5], stretched=False), compiled("sum", [None, 5], axis=1)):
        assert "ScatteredRows" not in kinds(model)
