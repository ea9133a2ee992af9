"""Kernels that pick elements: GatherElements at its limits, TopK of rows around the length of
vectors, with ties and NaN.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._run import run_native, spec_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.ops import find
from uncork.types import ElementType

F32, I32, I64 = ElementType.f32, ElementType.i32, ElementType.i64


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_elements_at_indices(axis: int, index: type, dtype: type) -> None:
    generator = np.random.default_rng(0)
    data = generator.integers(0, 100, (3, 4, 5)).astype(dtype)
    shape = [3, 4, 5]
    shape[axis] = 7
    indices = generator.integers(-data.shape[axis], data.shape[axis], shape).astype(index)
    specs = [
        spec_of(data, ElementType.of_dtype(data.dtype)),
        spec_of(indices, ElementType.of_dtype(indices.dtype)),
    ]
    results, choice = run_native(find("GatherElements", 6)(axis=axis), specs, shift=1)
    assert isinstance(choice, KernelPlan), choice
    for place in np.ndindex(*shape):
        source = list(place)
        source[axis] = indices[place]
        assert results[0][place] == data[tuple(source)]


@pytest.mark.parametrize("bad", [4, -5, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63)])
def test_an_index_outside_is_refused(bad: int) -> None:
    indices = np.zeros((2, 3), np.int64)
    indices[1, 2] = bad
    results, _ = run_native(
        find("GatherElements", 6)(axis=1),
        [spec_of(np.ones((2, 4), np.float32), F32), spec_of(indices, I64)],
    )
    assert results is None


def best(rows: np.ndarray, k: int, mode: str, shift: int = 0):
    operation = find("TopK", 11)(axis=-1, mode=mode, sort="value", index_element_type="i64")
    specs = [spec_of(rows, F32), spec_of(np.array(k), I32)]
    results, choice = run_native(operation, specs, shift)
    assert isinstance(choice, KernelPlan), choice
    return results


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 31, 33, 64, 100, 1000])
@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("order", ["random", "rising", "falling", "ties"])
def test_the_best_of_rows(count: int, mode: str, order: str) -> None:
    """Against Python's own stable sort."""
    generator = np.random.default_rng(count)
    rows = generator.standard_normal((3, count)).astype(np.float32)
    if order == "ties":
        rows = generator.integers(0, 4, (3, count)).astype(np.float32)
    elif order != "random":
        rows = np.sort(rows, -1)[:, :: 1 if order == "rising" else -1].copy()
    for k in {1, min(10, count), min(64, count)}:
        values, numbers = best(rows, k, mode, shift=4)
        for row, got, where in zip(rows.tolist(), values.tolist(), numbers.tolist(), strict=True):
            expected = sorted(range(count), key=lambda i: -row[i] if mode == "max" else row[i])[:k]
            assert where == expected
            assert got == [row[i] for i in expected]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinities_have_their_places(value: float) -> None:
    rows = np.full((1, 40), value, np.float32)
    for mode in ("max", "min"):
        values, numbers = best(rows, 5, mode)
        assert numbers.tolist() == [[0, 1, 2, 3, 4]]
        assert (values == value).all()


@pytest.mark.parametrize("place", [0, 3, 20, 39])
def test_nan_is_left_to_the_reference(place: int) -> None:
    rows = np.zeros((2, 40), np.float32)
    rows[1, place] = np.nan
    assert best(rows, 4, "max") is None
    assert best(rows, 4, "min") is None


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("best", [1, 10, 17, 64])
def test_the_best_of_rows_of_all_kinds(mode: str, best: int) -> None:
    """Long rows, of which a bound is known before they are searched, and short ones; equal numbers
    come in their order.
    """
    import uncork

    b = uncork.Builder("best")
    x = b.parameter("x", "f32", [None, None])
    settings = {"mode": mode, "sort": "value", "index_element_type": "i32"}
    for result in b.add("TopK", 11, x, b.constant(np.array(best)), axis=-1, **settings):
        b.result(result)
    compiled, random = uncork.compile_model(b.model()), np.random.default_rng(best)
    for count in (64, 65, 127, 128, 129, 1683):
        plain = random.standard_normal((3, count)).astype(np.float32)
        some = plain.copy()
        some[:, ::2], some[:, 5] = -np.inf, np.inf
        rows = [plain, np.round(plain), np.maximum(plain, 0), some, np.sort(plain), -np.sort(plain)]
        for row in rows:
            values, places = compiled(row)
            order = np.argsort(-row if mode == "max" else row, axis=1, kind="stable")[:, :best]
            assert places.tolist() == order.tolist()
            assert values.tolist() == np.take_along_axis(row, order, 1).tolist()
