"""PriorBox and PriorBoxClustered by kernels: grids and images of sizes that only the call knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from tests.kernels.test_open_sizes import hold
from uncork.ops import find
from uncork.types import ElementType

SIZED: dict[str, Any] = {"min_size": [30.0, 45.5], "max_size": [60.0], "aspect_ratio": [2.0, 3.0]}
FIXED: dict[str, Any] = {"fixed_size": [16.0, 33.0], "density": [2.0, 1.0], "offset": 0.5}
CLUSTERED: dict[str, Any] = {"width": [8.0, 9.5, 30.0], "height": [4.0, 21.25, 3.0]}
#: The operation, its version, and attributes.
CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("PriorBox", 8, {**SIZED, "offset": 0.5, "flip": True}),
    ("PriorBox", 8, {**SIZED, "offset": 0.3, "step": 16.0, "clip": True, "variance": [0.1]}),
    ("PriorBox", 1, {**FIXED, "variance": [0.1, 0.2, 0.3, 0.4]}),
    ("PriorBox", 1, {**FIXED, "step": 7.3, "aspect_ratio": [0.5]}),
    ("PriorBoxClustered", 1, {**CLUSTERED, "offset": 0.5, "variance": [0.1, 0.1, 0.2, 0.2]}),
    ("PriorBoxClustered", 1, {**CLUSTERED, "offset": 0.1, "step_w": 4.0, "clip": False}),
    ("PriorBoxClustered", 1, {**CLUSTERED, "offset": 0.5, "step": 8.0}),
]
#: Grids and images.
SIZES = [((1, 1), (1, 1)), ((3, 7), (300, 281)), ((40, 19), (33, 1000))]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_bits_of_the_reference(case: int) -> None:
    name, version, how = CASES[case]
    for grid, image in SIZES:
        specs = [spec_of(np.array(size), ElementType.i64) for size in (grid, image)]
        operation = find(name, version)(**how)
        results, why = run_native(operation, specs)
        assert results is not None, why
        np.testing.assert_array_equal(results[0], operation.evaluate(specs)[0].value)


@pytest.mark.parametrize("step", [-1.0, 0.0, 0.05])
def test_parts_of_the_image(step: float) -> None:
    sizes = {"min_size": [0.1, 0.25], "aspect_ratio": [2.0]}
    operation = find("PriorBox", 8)(**sizes, scale_all_sizes=False, offset=0.5, step=step)
    for grid, image in SIZES[1:]:
        specs = [spec_of(np.array(size), ElementType.i32) for size in (grid, image)]
        results, why = run_native(operation, specs)
        assert results is not None, why
        np.testing.assert_array_equal(results[0], operation.evaluate(specs)[0].value)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_one_plan_for_every_size(case: int) -> None:
    """Sizes are those of a feature map and of an image, as converters write it."""
    name, version, how = CASES[case]
    builder = uncork.Builder()
    names = ("features", "image")
    sizes = []
    for place in names:
        given = builder.parameter(place, "f32", [1, 2, None, None])
        (shape,) = builder.add("ShapeOf", 3, given)
        bounds = [builder.constant(np.array([number])) for number in (2, 4, 1)]
        sizes += builder.add("StridedSlice", 1, shape, *bounds, begin_mask=[0], end_mask=[0])
    (y,) = builder.add(name, version, *sizes, **how)
    builder.result(y, "y")
    calls = [[np.zeros((1, 2, *size), np.float32) for size in pair] for pair in SIZES]
    hold(builder.model(), calls)
