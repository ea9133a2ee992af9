"""Layers of Detectron models by kernels: many boxes and equal scores, levels of a pyramid at the
sizes where they change, open sizes, and what is no number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from tests.kernels.test_open_sizes import hold
from tests.kernels.test_proposals import moves_of, scores_of
from uncork.ops import find
from uncork.types import ElementType

OUTPUT, GRID, FEATURES, TOP = (
    f"ExperimentalDetectron{name}"
    for name in ("DetectionOutput", "PriorGridGenerator", "ROIFeatureExtractor", "TopKROIs")
)
DETECTED: dict[str, Any] = {
    "score_threshold": 0.3,
    "nms_threshold": 0.5,
    "max_delta_log_wh": 4.135,
    "deltas_weights": [10.0, 10.0, 5.0, 5.0],
}


def regions_of(generator: np.random.Generator, count: int, side: float = 200.0) -> np.ndarray:
    """Boxes, of which each tenth has no area."""
    first = generator.uniform(0, side, (count, 2))
    boxes = np.concatenate([first, first + generator.uniform(1, side, (count, 2))], 1)
    boxes[::10, 2] = boxes[::10, 0]
    return boxes.astype(np.float32)


def detected(generator: np.random.Generator, regions: int, classes: int) -> list[np.ndarray]:
    """Inputs of DetectionOutput, with scores of few levels."""
    return [
        regions_of(generator, regions),
        moves_of(generator, regions, 4 * classes) * np.float32(10),
        scores_of(generator, 9, regions, classes),
        np.float32([[400, 400, 1]]),
    ]


def holds(name: str, given: list[np.ndarray], **attributes: Any) -> None:
    operation = find(name, 6)(**attributes)
    specs = [spec_of(array, ElementType.f32) for array in given]
    results, why = run_native(operation, specs)
    assert results is not None, why
    with np.errstate(all="ignore"):
        expected = operation.evaluate(specs)
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(got, wanted.value, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (40, 2), (300, 17), (77, 81)])
def test_detections(size: tuple[int, int]) -> None:
    generator = np.random.default_rng(size[0])
    given = detected(generator, *size)
    for after, most in ((0, 5), (1, 1), (7, 100), (2000, 50), (2000, 5000)):
        counts = {"post_nms_count": after, "max_detections_per_image": most}
        holds(OUTPUT, given, num_classes=size[1], **counts, **DETECTED)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_detections_of_what_is_no_number(value: float, which: int) -> None:
    given = detected(np.random.default_rng(1), 60, 5)
    given[which].reshape(-1)[::7] = value
    counts = {"post_nms_count": 30, "max_detections_per_image": 40}
    holds(OUTPUT, given, num_classes=5, **counts, **DETECTED)


@pytest.mark.parametrize("count", [0, 1, 9, 24, 25, 300])
@pytest.mark.parametrize("levels", [3, 100_000])
def test_best_regions(count: int, levels: int) -> None:
    generator = np.random.default_rng(count)
    scores = scores_of(generator, levels, count) - np.float32(0.5)
    scores[::8] = np.nan
    scores[1::8], scores[2::8], scores[3::8] = -np.inf, -0.0, 0.0
    for most in (0, 1, 20, 400):
        holds(TOP, [regions_of(generator, count), scores], max_rois=most)


@pytest.mark.parametrize("how", [{}, {"stride_x": 8.0, "stride_y": 4.5}, {"h": 3, "w": 2}])
@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("size", [(3, 2), (5, 40)])
def test_priors(how: dict[str, Any], flatten: bool, size: tuple[int, int]) -> None:
    generator = np.random.default_rng(1)
    for count in (1, 3, 16, 17):
        features, image = np.zeros((1, 2, *size), "f4"), np.zeros((1, 3, 100, 333), "f4")
        priors = generator.standard_normal((count, 4)).astype("f4")
        holds(GRID, [priors, features, image], flatten=flatten, **how)


def pyramid_of(generator: np.random.Generator, *sides: int) -> list[np.ndarray]:
    return [generator.standard_normal((1, 3, side, side + 5)).astype("f4") for side in sides]


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("ratio", [0, 2, 3])
def test_features(aligned: bool, ratio: int) -> None:
    generator = np.random.default_rng(ratio)
    rois = regions_of(generator, 40, 700.0)
    # squares around the sides at which a level gives way to the next one
    sides = np.float32([112, 224, 448])
    near = [sides * np.float32(1 + part * 2**-23) for part in range(-8, 9)]
    corners = np.zeros((len(near) * 3, 4), np.float32)
    corners[:, 2] = corners[:, 3] = np.concatenate(near)
    given = [np.concatenate([rois, corners]), *pyramid_of(generator, 60, 30, 15, 8)]
    scales = [4, 8, 16, 32]
    how = {"aligned": aligned, "sampling_ratio": ratio, "pyramid_scales": scales}
    holds(FEATURES, given, output_size=7, **how)
    holds(FEATURES, given[:2], output_size=3, **how)


def test_regions_without_sides_have_no_features() -> None:
    generator = np.random.default_rng(1)
    rois = regions_of(generator, 12, 100.0)
    rois[0], rois[1, 2] = np.nan, np.nan
    rois[2, 0], rois[2, 2] = rois[2, 2], rois[2, 0]
    given = [rois, *pyramid_of(generator, 9, 5)]
    holds(FEATURES, given, output_size=2, sampling_ratio=2, pyramid_scales=[4, 8])


def test_one_plan_for_every_size() -> None:
    """From the priors to the detections, as a model has them."""
    builder = uncork.Builder()
    shapes = {
        "priors": [3, 4],
        "features": [1, 4, None, None],
        "coarse": [1, 4, None, None],
        "image": [1, 3, None, None],
        "scores": [None],
        "rois": [None, 4],
        "deltas": [None, 20],
        "classes": [None, 5],
    }
    given = {name: builder.parameter(name, "f32", shape) for name, shape in shapes.items()}
    info = builder.constant(np.float32([[100, 100, 1]]))
    (grid,) = builder.add(GRID, 6, given["priors"], given["features"], given["image"])
    (best,) = builder.add(TOP, 6, given["rois"], given["scores"], max_rois=20)
    levels = best, given["features"], given["coarse"]
    how = {"output_size": 3, "sampling_ratio": 2, "pyramid_scales": [4, 8]}
    features, _ = builder.add(FEATURES, 6, *levels, **how)
    counts = {"num_classes": 5, "post_nms_count": 50, "max_detections_per_image": 9}
    inputs = given["rois"], given["deltas"], given["classes"], info
    results = builder.add(OUTPUT, 6, *inputs, **counts, **DETECTED)
    for number, source in enumerate((grid, best, features, *results)):
        builder.result(source, f"result_{number}")
    generator = np.random.default_rng(1)
    calls = []
    for side, count in ((9, 30), (20, 7), (5, 1)):
        numbers = {name: [side + 3 if d is None else d for d in s] for name, s in shapes.items()}
        arrays = {n: generator.standard_normal(s).astype("f4") for n, s in numbers.items()}
        boxes, moves, classes, _ = detected(generator, count, 5)
        arrays |= {"rois": boxes, "deltas": moves, "classes": classes}
        arrays["scores"] = scores_of(generator, 9, count)
        calls.append(list(arrays.values()))
    hold(builder.model(), calls)
