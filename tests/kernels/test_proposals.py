"""Regions that a network proposes, by kernels: many boxes with many equal scores, open sizes, and
what is no number.
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

SINGLE = "ExperimentalDetectronGenerateProposalsSingleImage"
#: Scores have so many levels: nearly all equal others, or nearly none does.
LEVELS = [3, 17, 100_000]
PROPOSAL: dict[str, Any] = {
    "base_size": 16,
    "nms_thresh": 0.6,
    "feat_stride": 16,
    "min_size": 16,
    "ratio": [0.5, 1.0, 2.0],
    "scale": [2.0, 4.0],
}


def scores_of(generator: np.random.Generator, levels: int, *shape: int) -> np.ndarray:
    return (generator.integers(0, levels, shape) / levels).astype(np.float32)


def moves_of(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return (generator.standard_normal(shape) / 3).astype(np.float32)


def anchored(
    generator: np.random.Generator, levels: int, anchors: int, rows: int, columns: int, images: int
) -> list[np.ndarray]:
    """Inputs of GenerateProposals."""
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")[::-1], -1)
    half = np.arange(1, anchors + 1)[:, np.newaxis] * np.array([8.0, 12.0])
    centers = places[:, :, np.newaxis] * 16.0
    boxes = np.concatenate([centers - half, centers + half], -1).astype(np.float32)
    info = np.tile(np.float32([16 * rows, 16 * columns, 1]), (images, 1))
    return [
        info,
        boxes,
        moves_of(generator, images, 4 * anchors, rows, columns),
        scores_of(generator, levels, images, anchors, rows, columns),
    ]


def of_image(inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Inputs of the operation for one image."""
    info, boxes, deltas, scores = inputs
    return [info[0], boxes.reshape(-1, 4), deltas[0], scores[0]]


def holds(name: str, version: int, given: list[np.ndarray], **attributes: Any) -> None:
    operation = find(name, version)(**attributes)
    specs = [spec_of(array, ElementType.f32) for array in given]
    results, why = run_native(operation, specs)
    assert results is not None, why
    for got, wanted in zip(results, operation.evaluate(specs), strict=True):
        np.testing.assert_allclose(got, wanted.value, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("framework", ["", "tensorflow"])
@pytest.mark.parametrize("size", [(1, 1), (7, 5), (14, 37)])
def test_proposals(levels: int, framework: str, size: tuple[int, int]) -> None:
    generator = np.random.default_rng(levels + size[1])
    rows, columns = size
    for before, after in ((1, 1), (60, 9), (100_000, 300)):
        given = [
            scores_of(generator, levels, 2, 12, rows, columns),
            moves_of(generator, 2, 24, rows, columns),
            np.float32([rows * 16, columns * 16, 1.5]),
        ]
        how = {**PROPOSAL, "pre_nms_topn": before, "post_nms_topn": after}
        holds("Proposal", 4, given, framework=framework, **how)
        holds("Proposal", 1, given, clip_after_nms=True, normalize=True, **how)


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 7, 5), (5, 13, 33)])
def test_proposals_of_one_image(levels: int, size: tuple[int, int, int]) -> None:
    generator = np.random.default_rng(levels + size[2])
    given = of_image(anchored(generator, levels, *size, 1))
    for before, after in ((0, 3), (1, 1), (60, 9), (100_000, 300)):
        counts = {"pre_nms_count": before, "post_nms_count": after}
        holds(SINGLE, 6, given, min_size=20.0, nms_threshold=0.6, **counts)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_deltas_that_are_no_numbers(value: float) -> None:
    given = of_image(anchored(np.random.default_rng(1), 100, 3, 6, 9, 1))
    given[2].reshape(-1)[::7] = value
    counts = {"pre_nms_count": 50, "post_nms_count": 20}
    with np.errstate(all="ignore"):
        holds(SINGLE, 6, given, min_size=1.0, nms_threshold=0.6, **counts)


def test_scores_that_are_no_numbers_are_the_references() -> None:
    given = of_image(anchored(np.random.default_rng(1), 100, 3, 6, 9, 1))
    given[3][0, 0, 0] = np.nan
    operation = find(SINGLE, 6)(
        pre_nms_count=50, post_nms_count=20, min_size=0.0, nms_threshold=0.6
    )
    results, _ = run_native(operation, [spec_of(array, ElementType.f32) for array in given])
    assert results is None


@pytest.mark.parametrize("image", [[0, 9, 1], [9, -1, 1], [9, 9, -1], [np.nan, 9, 1]])
def test_an_image_that_is_none_is_the_references(image: list[float]) -> None:
    generator = np.random.default_rng(1)
    shapes = (1, 12, 4, 5), (1, 24, 4, 5), (3,)
    builder = uncork.Builder()
    names = ("scores", "deltas", "image")
    inputs = [
        builder.parameter(name, "f32", shape) for name, shape in zip(names, shapes, strict=True)
    ]
    (y, _) = builder.add("Proposal", 4, *inputs, **PROPOSAL, pre_nms_topn=9, post_nms_topn=9)
    builder.result(y, "y")
    given = [scores_of(generator, 9, *shapes[0]), moves_of(generator, *shapes[1])]
    with pytest.raises(uncork.UncorkError, match="image_shape"):
        uncork.compile_model(builder.model())(*given, np.float32(image))


def test_one_plan_of_proposals_for_every_size() -> None:
    builder = uncork.Builder()
    shapes = [None, 12, None, None], [None, 24, None, None], [3]
    inputs = [
        builder.parameter(n, "f32", s)
        for n, s in zip(("scores", "deltas", "image"), shapes, strict=True)
    ]
    how = {**PROPOSAL, "pre_nms_topn": 40, "post_nms_topn": 9}
    for number, source in enumerate(builder.add("Proposal", 4, *inputs, **how)):
        builder.result(source, f"result_{number}")
    generator = np.random.default_rng(1)
    calls = [
        [
            scores_of(generator, 100, n, 12, rows, columns),
            moves_of(generator, n, 24, rows, columns),
            np.float32([rows * 16, columns * 16, 1]),
        ]
        for n, rows, columns in ((1, 4, 5), (3, 9, 20), (2, 1, 1), (0, 3, 3))
    ]
    hold(builder.model(), calls)


@pytest.mark.parametrize("normalized", [True, False])
def test_generated_proposals_in_front_of_kernels(normalized: bool) -> None:
    """One plan for every size, and what follows takes as many rows as were found."""
    builder = uncork.Builder()
    shapes = [None, 3], [None, None, 3, 4], [None, 12, None, None], [None, 3, None, None]
    names = ("info", "anchors", "deltas", "scores")
    inputs = [
        builder.parameter(name, "f32", shape) for name, shape in zip(names, shapes, strict=True)
    ]
    rois, scores, numbers = builder.add(
        "GenerateProposals",
        9,
        *inputs,
        min_size=10.0,
        nms_threshold=0.6,
        pre_nms_count=200,
        post_nms_count=20,
        normalized=normalized,
    )
    (doubled,) = builder.add("Add", 1, rois, rois)
    for name, source in (("rois", doubled), ("scores", scores), ("numbers", numbers)):
        builder.result(source, name)
    generator = np.random.default_rng(1)
    sizes = (20, 4, 5, 1), (9, 12, 20, 2), (100_000, 1, 1, 1), (9, 7, 3, 3)
    hold(builder.model(), [anchored(generator, lv, 3, r, c, n) for lv, r, c, n in sizes])
