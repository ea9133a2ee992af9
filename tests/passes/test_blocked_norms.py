"""Normalisations between convolutions over blocks of channels; expected values are NumPy's, in
f64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.passes.test_block_channels import WIDE, convolution, numbers
from uncork.compiler.compile import CompiledModel, compile_model
from uncork.ir.model import Source

_EPSILON = 1e-3


def standardised(data: np.ndarray, groups: int) -> np.ndarray:
    apart = data.astype(np.float64).reshape(len(data), groups, -1)
    apart = apart - apart.mean(2, keepdims=True)
    return (apart / np.sqrt((apart**2).mean(2, keepdims=True) + _EPSILON)).reshape(data.shape)


def normalised(b: uncork.Builder, x: Source, kind: str, channels: int) -> Source:
    """A group normalisation of some groups, with SiLU and a sum behind it, or MVN of pixels."""
    if kind == "mvn":
        axes = b.constant(np.array([2, 3]))
        how: dict[str, Any] = {"eps": _EPSILON, "eps_mode": "inside_sqrt"}
        return b.add("MVN", 6, x, axes, normalize_variance=True, **how)[0]
    scale, bias = (b.constant(np.linspace(end, 2, channels, dtype="f4")) for end in (1, -1))
    how = {"num_groups": int(kind), "epsilon": _EPSILON}
    (y,) = b.add("GroupNormalization", 12, x, scale, bias, **how)
    return b.add("Add", 1, b.add("Swish", 4, y)[0], x)[0]


def model_of(kind: str, channels: int, shape: Sequence[int | None]) -> CompiledModel:
    """Two convolutions, the first of which gives its result, too, and what lies between them."""
    b = uncork.Builder("norms")
    x = convolution(b, b.parameter("x", "f32", shape), channels, channels)
    y = normalised(b, x, kind, channels)
    z = convolution(b, b.add("ReLU", 1, y)[0], channels, channels)
    b.result(x, "before")
    b.result(y, "normalised")
    b.result(z, "z")
    return compile_model(b.model())


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    ("kind", "channels"),
    [
        ("1", 2 * WIDE),  # a group of all blocks
        ("2", 4 * WIDE),  # groups of whole blocks
        (str(WIDE), 4 * WIDE),  # blocks of whole groups
        (str(2 * WIDE), 2 * WIDE),  # each channel
        ("4", 3 * WIDE),  # neither
        ("mvn", 2 * WIDE),
    ],
)
def test_normalisations_stay_in_blocks(kind: str, channels: int, is_open: bool) -> None:
    shape = [None, channels, None, None] if is_open else [2, channels, 15, 13]
    model = model_of(kind, channels, shape)
    operations = [step.operation.partition("-")[0] for step in model.plan.steps]
    (place,) = (n for n, name in enumerate(operations) if name in ("MVN", "BlockedNormalization"))
    assert "FromBlocks" not in operations[:place]
    assert all(step.kernel for step in model.plan.steps)
    for images, rows in ((2, 15), (1, 130)) if is_open else ((2, 15),):
        data = numbers(images, channels, rows, 13) * 30 + 2
        before, got, _ = model(data)
        groups = channels if kind == "mvn" else int(kind)
        expected = standardised(before, groups)
        if kind != "mvn":
            scale, bias = (np.linspace(end, 2, channels)[:, None, None] for end in (1, -1))
            expected = expected * scale + bias
            expected = expected / (1 + np.exp(-expected)) + before
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-5)


def test_many_pixels_lose_no_digits() -> None:
    """Of numbers far from 0, 300 by 300 of which are summed one after the other."""
    channels = 2 * WIDE
    model = model_of("2", channels, [1, channels, 300, 300])
    data = numbers(1, channels, 300, 300) * 300 + 5
    before, got, _ = model(data)
    scale, bias = (np.linspace(end, 2, channels)[:, None, None] for end in (1, -1))
    expected = standardised(before, 2) * scale + bias
    expected = expected / (1 + np.exp(-expected)) + before
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_channels_that_fill_no_blocks_are_normalised_as_they_lie() -> None:
    """Zeros beside them would count. Convolutions stay over blocks with zeros."""
    channels = 3 * WIDE - 1
    model = model_of("1", channels, [1, channels, 28, 26])
    operations = [step.operation for step in model.plan.steps]
    assert "BlockedNormalization-0" not in operations
    assert operations.count("BlockedConvolution-0") == 2
    before, got, _ = model(numbers(1, channels, 28, 26) + 1)
    scale, bias = (np.linspace(end, 2, channels)[:, None, None] for end in (1, -1))
    expected = standardised(before, 1) * scale + bias
    np.testing.assert_allclose(
        got, expected / (1 + np.exp(-expected)) + before, rtol=1e-5, atol=2e-5
    )
