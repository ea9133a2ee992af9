"""The detections of an SSD by kernels, against the reference: many boxes, equal scores, open
batches.
"""

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

CORNER, CENTER = "caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"
BASIC: dict[str, Any] = {"nms_threshold": 0.45, "confidence_threshold": 0.3}


def drawn(
    generator: np.random.Generator, images: int, priors: int, classes: int, normalized: bool = True
) -> list[np.ndarray]:
    """Offsets, scores of 16 levels (many are equal) and priors with variances."""
    first = generator.uniform(0, 0.7, (priors, 2))
    boxes = np.concatenate([first, first + generator.uniform(0.05, 0.3, (priors, 2))], 1)
    size = 4
    if not normalized:
        boxes, size = np.concatenate([np.zeros((priors, 1)), boxes * 300], 1), 5
    variances = np.zeros(priors * size)
    variances[: 4 * priors] = 0.1
    rows = np.stack([boxes.reshape(-1), variances])[None]
    scores = generator.integers(0, 17, (images, priors * classes)) / 16
    moves = generator.standard_normal((images, priors * 4))
    return [array.astype(np.float32) for array in (moves, scores, rows)]


@pytest.mark.parametrize("code", [CORNER, CENTER])
@pytest.mark.parametrize(
    ("top", "keep"), [(-1, -1), (-1, 50), (20, -1), (20, 50), (0, 5), (400, 1)]
)
@pytest.mark.parametrize("background", [-1, 0, 3])
def test_many_boxes(code: str, top: int, keep: int, background: int) -> None:
    generator = np.random.default_rng(top + keep + 2)
    for images, priors, classes in ((2, 300, 21), (1, 33, 4), (3, 7, 40)):
        given = drawn(generator, images, priors, classes)
        how = {"code_type": code, "top_k": top, "keep_top_k": [keep], "normalized": True, **BASIC}
        operation = find("DetectionOutput", 8)(background_label_id=background, **how)
        specs = [spec_of(array, ElementType.f32) for array in given]
        results, _ = run_native(operation, specs)
        assert results is not None
        expected = operation.evaluate(specs)[0].value
        np.testing.assert_array_equal(results[0][..., :3], expected[..., :3])
        np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("clip", ["clip_before_nms", "clip_after_nms"])
def test_what_is_no_number(value: float, clip: str) -> None:
    generator = np.random.default_rng(1)
    for which in range(3):
        given = drawn(generator, 1, 60, 5)
        given[which].reshape(-1)[::7] = value
        how = {"keep_top_k": [40], "normalized": True, clip: True, **BASIC}
        operation = find("DetectionOutput", 8)(**how)
        specs = [spec_of(array, ElementType.f32) for array in given]
        results, _ = run_native(operation, specs)
        assert results is not None
        with np.errstate(all="ignore"):
            expected = operation.evaluate(specs)[0].value
        np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("normalized", [False, True])
def test_one_plan_for_every_batch(normalized: bool) -> None:
    builder = uncork.Builder()
    size = 4 if normalized else 5
    names = {"moves": [None, 120], "scores": [None, 180], "priors": [1, 2, 30 * size]}
    inputs = [builder.parameter(name, "f32", shape) for name, shape in names.items()]
    how = {"normalized": normalized, "input_width": 300, "input_height": 200, "keep_top_k": [9]}
    (y,) = builder.add("DetectionOutput", 8, *inputs, **how, **BASIC)
    builder.result(y, "y")
    generator = np.random.default_rng(1)
    hold(builder.model(), [drawn(generator, n, 30, 6, normalized) for n in (1, 3, 0, 2)])
