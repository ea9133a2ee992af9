"""Rows in order, and so many of their first elements that all of a row is sorted: equal elements
stay in their order, both zeros are equal, and NaN is the largest of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.types import ElementType

TYPES = ["f32", "f64", "f16", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]


def drawn(element_type: str, shape: tuple[int, ...], few: bool) -> np.ndarray:
    random, dtype = np.random.default_rng(len(shape)), ElementType.parse(element_type).dtype
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        whole = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return whole % 5 if few else whole
    x = random.standard_normal(shape).astype(dtype)
    x = np.round(x * 2) / 2 if few else x
    for value in (np.inf, -np.inf, 0.0, -0.0, np.nan, -np.nan):
        x[random.random(shape) < 0.02] = value
    return x.astype(dtype)


def places(x: np.ndarray, largest: bool) -> list[int]:
    """The places of a row's elements in order, by Python's own sort."""
    numbers = [(True, 0.0) if value != value else (False, value.item()) for value in x]
    if not largest:
        return sorted(range(len(x)), key=numbers.__getitem__)
    return sorted(range(len(x)), key=lambda i: (not numbers[i][0], -numbers[i][1]))


@pytest.mark.parametrize("element_type", TYPES)
@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("few", [False, True], ids=["many values", "few values"])
def test_rows_in_order(element_type: str, mode: str, few: bool) -> None:
    for size, wanted, opened in ((160, 160, True), (257, 257, False), (1000, 250, False)):
        for shape, axis in (((2, size), 1), ((size, 3), 0)):
            b = uncork.Builder("sorted")
            given: list[Any] = [None, None] if opened else [*shape]
            x = b.parameter("x", element_type, given)
            count = b.constant(np.int64(wanted))
            if opened:
                sizes = b.add("ShapeOf", 3, x, output_type="i64")[0]
                where = b.constant(np.int64(axis)), b.constant(np.int64(0))
                count = b.add("Gather", 8, sizes, *where, batch_dims=0)[0]
            best = b.add(
                *("TopK", 11, x, count),
                **{"axis": axis, "mode": mode, "sort": "value", "index_element_type": "i32"},
            )
            for source, name in zip(best, ("values", "indices"), strict=True):
                b.result(source, name)
            compiled = compile_model(b.model())
            array = drawn(element_type, shape, few)
            got = compiled(array)
            rows = np.moveaxis(array, axis, -1)
            expected = np.moveaxis(
                np.array([places(row, mode == "max")[:wanted] for row in rows]), -1, axis
            )
            np.testing.assert_array_equal(got["indices"], expected)
            np.testing.assert_array_equal(got["values"], np.take_along_axis(array, expected, axis))
            assert any(step.kernel.startswith("sorted_") for step in compiled.plan.steps)
