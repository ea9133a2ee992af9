"""How far the outputs of a model are from those of another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uncork.types import Array


@dataclass(frozen=True)
class OutputError:
    """The error of an output: its largest absolute difference, and that in units of the largest
    magnitude that was expected of it.

    Infinite where one has NaN, or another text, and the other has not; `relative` is infinite where
    everything expected is 0.
    """

    name: str
    max_abs: float
    relative: float


def output_errors(
    names: Sequence[str], expected: Sequence[Array], got: Sequence[Array]
) -> list[OutputError]:
    """One error for each output, from arrays of equal shapes."""
    return [_error(name, a, b) for name, a, b in zip(names, expected, got, strict=True)]


def _error(name: str, expected: Array, got: Array) -> OutputError:
    if expected.shape != got.shape:
        return OutputError(name, math.inf, math.inf)
    if expected.dtype.kind not in "fiub":
        differs = bool((expected != got).any())
        return OutputError(name, math.inf if differs else 0.0, math.inf if differs else 0.0)
    a, b = expected.astype(np.float64).reshape(-1), got.astype(np.float64).reshape(-1)
    with np.errstate(invalid="ignore"):
        difference = np.abs(a - b)
    difference[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0  # equal infinities have no difference
    difference[np.isnan(difference)] = math.inf
    most = float(difference.max(initial=0.0))
    largest = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    return OutputError(name, most, most / largest if largest else (math.inf if most else 0.0))
