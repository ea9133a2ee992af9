"""Soft-NMS by kernels, against the reference: equal boxes and scores, scores below 0, thresholds
that remove nothing or all, values that are no numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import spec_of
from tests.kernels.test_count_first import by_kernels
from tests.kernels.test_open_sizes import hold
from uncork.ops import find
from uncork.types import ElementType

SIGMAS = [0.0, 1e-3, 0.1, 0.5, 3.0, np.inf]


def drawn(
    generator: np.random.Generator, images: int, classes: int, count: int
) -> list[np.ndarray]:
    """Boxes around a few places, each third one like its neighbour, and scores of few levels."""
    first = generator.integers(0, 4, (images, count, 2)) + generator.uniform(
        -0.2, 0.2, (images, count, 2)
    )
    boxes = np.concatenate([first, first + generator.uniform(0.5, 1.5, (images, count, 2))], 2)
    boxes[:, 1::3] = boxes[:, : count - 1 : 3]
    scores = generator.integers(-3, 17, (images, classes, count)) / 16
    return [boxes.astype(np.float32), scores.astype(np.float32)]


def held(version: int, arrays: list[np.ndarray], limit: int, *numbers: float, **how: Any) -> None:
    """Kernels take the boxes that the reference takes, with its scores."""
    operation = find("NonMaxSuppression", version)(**how)
    specs = [spec_of(array, ElementType.f32) for array in arrays]
    specs.append(spec_of(np.array(limit), ElementType.i64))
    specs += [spec_of(np.array(number, np.float32), ElementType.f32) for number in numbers]
    with np.errstate(all="ignore"):
        expected = [spec.value for spec in operation.evaluate(specs)]
    results, why = by_kernels(operation, specs)
    assert results is not None, why
    np.testing.assert_array_equal(results[0], expected[0])
    np.testing.assert_allclose(results[1], expected[1], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(results[2], expected[2])


@pytest.mark.parametrize("version", [5, 9])
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("least", [-np.inf, -0.1, 0.0, 0.4])
def test_many_boxes(version: int, sigma: float, least: float) -> None:
    generator = np.random.default_rng(7)
    for images, classes, count in ((1, 3, 70), (2, 2, 33), (3, 1, 5), (1, 2, 1), (1, 0, 4)):
        for limit, most in ((4, 0.5), (count, 0.3), (200, 0.0), (0, 0.5), (9, 1.0)):
            arrays = drawn(generator, images, classes, count)
            # In the order in which they are taken: scores that fell to the same but for a unit of
            # the last place may be sorted otherwise.
            held(version, arrays, limit, most, least, sigma, sort_result_descending=False)


@pytest.mark.parametrize("version", [5, 9])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number(version: int, value: float) -> None:
    generator = np.random.default_rng(3)
    for which in (0, 1):
        arrays = drawn(generator, 1, 2, 40)
        arrays[which].reshape(-1)[::7] = value
        for least in (-np.inf, 0.1):
            held(version, arrays, 30, 0.5, least, 0.5, sort_result_descending=False)


@pytest.mark.parametrize("how", [{"box_encoding": "center"}, {"sort_result_descending": True}])
def test_how_boxes_are_given(how: dict[str, Any]) -> None:
    arrays = drawn(np.random.default_rng(5), 2, 3, 60)
    held(9, arrays, 20, 0.5, 0.1, 0.5, **how)
    held(5, arrays, 20, 0.5, 0.1, 0.5, **how)


def test_sigma_of_the_call() -> None:
    builder = uncork.Builder()
    boxes = builder.parameter("boxes", "f32", [None, None, 4])
    scores = builder.parameter("scores", "f32", [None, None, None])
    numbers = [
        builder.constant(np.int64(9)),
        *(builder.constant(np.float32(n)) for n in (0.5, 0.1)),
    ]
    sigma = builder.parameter("sigma", "f32", [])
    results = builder.add("NonMaxSuppression", 9, boxes, scores, *numbers, sigma)
    for position, source in enumerate(results):
        builder.result(source, f"result_{position}")
    generator = np.random.default_rng(2)
    calls = [
        [*drawn(generator, images, classes, count), np.float32(number)]
        for images, classes, count, number in ((1, 3, 30, 0.5), (2, 1, 17, 0.0), (1, 2, 90, 0.2))
    ]
    hold(builder.model(), calls)
