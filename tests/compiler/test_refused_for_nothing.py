"""Calls that are wrong are refused by both backends in the same words, however little there is to
compute.
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


@pytest.mark.parametrize("case", [normalised, resized_from_nothing, resized_along_no_axes])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_what_is_wrong_is_refused(case: Any, backend: Backend) -> None:
    model, given, words = case()
    with pytest.raises(uncork.UncorkError, match=re.escape(words)):
        uncork.compile_model(model, backend=backend)(*given)
