"""Convolutions between transposes of channels that come last: one move into blocks and one out of
them, with the results of NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_for, compile_model
from uncork.ir.model import Source
from uncork.kernels.runtime.target import LEVELS

GENERATOR = np.random.default_rng(11)
HIGH, WIDE = 6, 5


def numbers(*shape: int) -> np.ndarray:
    values: np.ndarray = GENERATOR.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return values.astype(np.float32)


def turned(b: uncork.Builder, x: Source, *order: int) -> Source:
    return b.add("Transpose", 1, x, b.constant(np.array(order)))[0]


def shaped(b: uncork.Builder, x: Source, *sizes: int) -> Source:
    return b.add("Reshape", 1, x, b.constant(np.array(sizes)), special_zero=True)[0]


def mixed(
    channels: int,
    batch: int | None,
    *,
    high: int | None = HIGH,
    stride: int = 1,
    read: bool = False,
) -> uncork.Model:
    """A product, a depthwise convolution of its pixels, an activation, and a product; the planes
    between are `read` by another layer, too.
    """
    b = uncork.Builder("mixed")
    x = b.parameter("x", "f32", [batch, None if high is None else high * WIDE, channels])
    (y,) = b.add("MatMul", 1, x, b.constant(numbers(channels, channels)))
    y = planes = shaped(b, turned(b, y, 0, 2, 1), 0, 0, -1, WIDE)
    y = b.add(
        *("GroupConvolution", 1, y, b.constant(numbers(channels, 1, 1, 3, 3))),
        strides=[stride] * 2,
        dilations=[1, 1],
        pads_begin=[1, 1],
        pads_end=[1, 1],
    )[0]
    (y,) = b.add("Gelu", 7, y, approximation_mode="ERF")
    y = turned(b, shaped(b, y, 0, 0, -1), 0, 2, 1)
    b.result(b.add("MatMul", 1, y, b.constant(numbers(channels, channels)))[0], "y")
    if read:
        b.result(b.add("Sqrt", 1, planes)[0], "z")
    return b.model()


def agree(model: uncork.Model, *arrays: np.ndarray, bound: float = 1e-5, **more: Any) -> None:
    fast, slow = compile_model(model, **more), compile_model(model, backend="reference")
    for mine, wanted in zip(fast(*arrays), slow(*arrays), strict=True):
        assert mine.shape == wanted.shape
        np.testing.assert_allclose(mine, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("channels", [16, 20, 32, 44, 48, 72, 80])
@pytest.mark.parametrize("batch", [1, 3, None])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_results(channels: int, batch: int | None, precision: str) -> None:
    data = numbers(batch or 2, HIGH * WIDE, channels)
    bound = 1e-5 if precision == "f32" else 2e-2
    agree(mixed(channels, batch), data, bound=bound, precision=precision)
    agree(mixed(channels, batch, stride=2), data, bound=bound, precision=precision)
    planes = np.abs(data)
    model = mixed(channels, batch, read=True)
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    np.testing.assert_allclose(fast(planes)[0], slow(planes)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("high", [1, 2, 7])
def test_open_pixels(high: int) -> None:
    agree(mixed(32, None, high=None), numbers(2, high * WIDE, 32))


def test_no_images() -> None:
    agree(mixed(32, None), numbers(1, HIGH * WIDE, 32)[:0])


@pytest.mark.parametrize("batch", [1, None])
def test_no_planes_lie_between(batch: int | None) -> None:
    """With vectors of 16 lanes: the only moves are those of the two transposes."""
    plan = compile_for(mixed(32, batch), LEVELS["x86-64-v4"], 1).plan
    kinds = [step.operation.partition("-")[0] for step in plan.steps if step.kernel != "view"]
    assert [kind for kind in kinds if kind not in ("MatMul", "Constant")] == [
        "Transpose",
        "BlockedConvolution",
        "Transpose",
    ]


def test_planes_that_others_read_are_made_once() -> None:
    plan = compile_for(mixed(32, 1, read=True), LEVELS["x86-64-v4"], 1).plan
    kinds = [step.operation.partition("-")[0] for step in plan.steps]
    assert kinds.count("ToBlocks") + kinds.count("FromBlocks") == 0
