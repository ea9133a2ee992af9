"""Images sampled within boxes: every size by one plan, and what is left to the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from tests.kernels.test_open_sizes import hold
from uncork.ops import find
from uncork.types import ElementType, TensorSpec

BINS: dict[str, Any] = {"pooled_h": 7, "pooled_w": 7, "sampling_ratio": 2, "spatial_scale": 0.25}


def boxes_within(generator: np.random.Generator, count: int, side: float) -> np.ndarray:
    first = generator.uniform(0, side, (count, 2))
    return np.concatenate([first, first + generator.uniform(1, side, (count, 2))], 1).astype("f4")


def aligned(
    data: np.ndarray, boxes: np.ndarray, images: np.ndarray, **attributes: Any
) -> tuple[list[np.ndarray] | None, list[TensorSpec], Any]:
    operation = find("ROIAlign", 9)(**{**BINS, "mode": "avg", **attributes})
    types = ElementType.f32, ElementType.f32, ElementType.i64
    specs = [spec_of(*pair) for pair in zip((data, boxes, images), types, strict=True)]
    return run_native(operation, specs)[0], specs, operation


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 1, 2, 5])
@pytest.mark.parametrize("how", ["asymmetric", "half_pixel_for_nn", "half_pixel"])
def test_one_kernel_for_every_size(mode: str, ratio: int, how: str) -> None:
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None, None, None, None])
    rois = builder.parameter("rois", "f32", [None, 4])
    images = builder.parameter("images", "i64", [None])
    attributes = {**BINS, "sampling_ratio": ratio, "mode": mode, "aligned_mode": how}
    (y,) = builder.add("ROIAlign", 9, x, rois, images, **attributes)
    builder.result(y, "y")
    generator = np.random.default_rng(1)
    calls = []
    for count, n, channels, height, width in (
        (5, 2, 3, 9, 17),
        (0, 1, 2, 4, 4),
        (9, 1, 33, 40, 70),
    ):
        data = generator.standard_normal((n, channels, height, width)).astype("f4")
        given = boxes_within(generator, count, 4 * max(height, width))
        calls.append([data, given, generator.integers(0, n, count)])
    hold(builder.model(), calls)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_the_references(value: float) -> None:
    """The kernel gives up where a bin touches such a cell."""
    data = np.ones((1, 2, 8, 8), np.float32)
    data[0, 1, 3, 3] = value
    near, far = np.float32([[8, 8, 20, 20]]), np.float32([[24, 24, 30, 30]])
    results, _, _ = aligned(data, near, np.array([0]))
    assert results is None
    results, specs, operation = aligned(data, far, np.array([0]))
    assert results is not None
    np.testing.assert_allclose(results[0], operation.evaluate(specs)[0].value, rtol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_largest_is_computed_of_any_values(value: float) -> None:
    data = np.random.default_rng(1).standard_normal((1, 20, 8, 8)).astype("f4")
    data[0, ::3, 3, 3] = value
    boxes = np.float32([[8, 8, 20, 20], [0, 0, 31, 31], [13, 13, 14, 14]])
    results, specs, operation = aligned(data, boxes, np.array([0, 0, 0]), mode="max")
    assert results is not None
    with np.errstate(all="ignore"):
        expected = operation.evaluate(specs)[0].value
    np.testing.assert_allclose(results[0], expected, rtol=1e-5)


@pytest.mark.parametrize("image", [-1, 2, 2**31, 2**62])
def test_an_image_that_is_not_there_is_refused(image: int) -> None:
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [2, 3, 8, 8])
    rois = builder.parameter("rois", "f32", [None, 4])
    images = builder.parameter("images", "i64", [None])
    (y,) = builder.add("ROIAlign", 9, x, rois, images, mode="avg", **BINS)
    builder.result(y, "y")
    compiled = uncork.compile_model(builder.model())
    data, boxes = np.ones((2, 3, 8, 8), "f4"), np.float32([[0, 0, 9, 9]] * 2)
    with pytest.raises(
        uncork.UncorkError, match=rf"batch_indices\[1\] is {image}, expected 0 to 1"
    ):
        compiled(data, boxes, np.array([0, image]))
    assert compiled(data, boxes, np.array([0, 1]))[0].shape == (2, 3, 7, 7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_boxes_that_are_no_boxes(value: float, ratio: int, mode: str) -> None:
    """As the reference, or given up, never a cell outside the image."""
    data = np.random.default_rng(1).standard_normal((1, 2, 8, 8)).astype("f4")
    for corner in range(4):
        boxes = np.float32([[4, 4, 20, 20]])
        boxes[0, corner] = value
        results, specs, operation = aligned(
            data, boxes, np.array([0]), mode=mode, sampling_ratio=ratio
        )
        if results is None:
            assert ratio == 0, "only cells that are counted by a side may be too many"
            continue
        with np.errstate(all="ignore"):
            expected = operation.evaluate(specs)[0].value
        np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-6)
