"""Calls that are wrong are refused by both backends in the same words: sizes that
contradict each other, and what is wrong although there is nothing to compute.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.options import Backend

RESIZED = {"mode": "nearest", "shape_calculation_mode": "sizes"}


def normalised() -> tuple[uncork.Model, list[Any], str]:
    builder = uncork.Builder()
    x, axes = builder.parameter("x", "f32", [None, 0]), builder.parameter("axes", "i64", [3])
    (y,) = builder.add("NormalizeL2", 1, x, axes, eps=1e-6, eps_mode="add")
    builder.result(y, "y")
    given = [np.zeros((2, 0), np.float32), np.array([-1, -1, -1])]
    return builder.model(), given, "name an axis twice"


def resized_from_nothing() -> tuple[uncork.Model, list[Any], str]:
    builder = uncork.Builder()
    x, sizes = builder.parameter("x", "f32", [None, 0]), builder.parameter("sizes", "i64", [1])
    (y,) = builder.add("Interpolate", 11, x, sizes, builder.constant(np.array([1])), **RESIZED)
    builder.result(y, "y")
    given = [np.zeros((0, 0), np.float32), np.array([2])]
    return builder.model(), given, "an axis without cells cannot be resized to 2 cells"


def resized_along_no_axes() -> tuple[uncork.Model, list[Any], str]:
    builder = uncork.Builder()
    x, sizes = builder.parameter("x", "f32", [None, 4]), builder.parameter("sizes", "i64", [None])
    none = builder.constant(np.zeros(0, np.int64))
    builder.result(builder.add("Interpolate", 11, x, sizes, none, **RESIZED)[0], "y")
    given = [np.zeros((2, 4), np.float32), np.arange(7)]
    return builder.model(), given, "expected one number for each of 0 axes, got 7"


def detected() -> tuple[uncork.Model, list[Any], str]:
    """Priors of three images, for boxes of two."""
    builder = uncork.Builder()
    boxes = builder.parameter("boxes", "f32", [None, None])
    classes = builder.parameter("classes", "f32", [None, None])
    priors = builder.parameter("priors", "f32", [None, 2, None])
    options = {"nms_threshold": 0.5, "keep_top_k": [4], "normalized": True}
    (y,) = builder.add("DetectionOutput", 8, boxes, classes, priors, **options)
    builder.result(y, "y")
    given = [np.zeros(shape, np.float32) for shape in ((2, 12), (2, 6), (3, 2, 12))]
    return builder.model(), given, "expected a batch of 1 or 2"


def rolled() -> tuple[uncork.Model, list[Any], str]:
    """Three shifts for two axes."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [3, 4])
    shift, axes = (builder.parameter(n, "i64", [None]) for n in ("shift", "axes"))
    builder.result(builder.add("Roll", 7, x, shift, axes)[0], "y")
    given = [np.zeros((3, 4), np.float32), np.arange(3), np.arange(2)]
    return builder.model(), given, "expected one shift, or one for each axis"


def converted() -> tuple[uncork.Model, list[Any], str]:
    """A shift for each channel, and one scale."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [2, 3])
    scale, shift = (builder.parameter(n, "f32", [None]) for n in ("scale", "shift"))
    (y,) = builder.add("FakeConvert", 13, x, scale, shift, destination_type="f8e4m3")
    builder.result(y, "y")
    given = [np.zeros(shape, np.float32) for shape in ((2, 3), (1,), (3,))]
    return builder.model(), given, "expected the shape of scale"


CASES = [normalised, resized_from_nothing, resized_along_no_axes, detected, rolled, converted]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_what_is_wrong_is_refused(case: Any, backend: Backend) -> None:
    model, given, words = case()
    with pytest.raises(uncork.UncorkError, match=re.escape(words)):
        uncork.compile_model(model, backend=backend)(*given)


@pytest.mark.parametrize("kind", ["Squeeze", "Unsqueeze"])
def test_an_axis_of_the_call_that_is_outside(kind: str) -> None:
    """Nobody but the reference looks at it."""
    b = uncork.Builder("axis")
    x, axis = b.parameter("x", "f32", [1]), b.parameter("axis", "i64", [1])
    b.result(b.add(kind, 1, x, axis)[0], "y")
    for backend in ("cpu", "reference"):
        compiled = uncork.compile_model(b.model(), backend=backend)
        for _ in range(2):
            with pytest.raises(uncork.InputError, match="is outside"):
                compiled(np.ones(1, np.float32), np.array([5]))
