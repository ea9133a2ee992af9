"""Normalisations over channels: which parts become one layer, and that it stays over blocks of
channels; expected values are NumPy's, in f64.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.passes.test_block_channels import WIDE, convolution, numbers
from uncork.compiler.compile import CompiledModel, compile_model
from uncork.ir.model import Source

_EPSILON = 1e-3


def standardised(data: np.ndarray, centred: bool) -> np.ndarray:
    wide = data.astype(np.float64)
    left = wide - wide.mean(1, keepdims=True) if centred else wide
    return left / np.sqrt((left**2).mean(1, keepdims=True) + _EPSILON)


def mvn(b: uncork.Builder, x: Source, axis: int) -> Source:
    how = {"eps": _EPSILON, "eps_mode": "inside_sqrt", "normalize_variance": True}
    return b.add("MVN", 6, x, b.constant(np.array([axis])), **how)[0]


def by_squares(b: uncork.Builder, x: Source, axis: int, how: str) -> Source:
    def number(value: float) -> Source:
        return b.constant(np.array(value, "f4"))

    (squares,) = b.add("Multiply", 1, x, x) if how == "/" else b.add("Power", 1, x, number(2))
    (mean,) = b.add("ReduceMean", 1, squares, b.constant(np.array([axis])), keep_dims=True)
    (total,) = b.add("Add", 1, mean, number(_EPSILON))
    if how == "power":
        return b.add("Multiply", 1, b.add("Power", 1, total, number(-0.5))[0], x)[0]
    (root,) = b.add("Sqrt", 1, total)
    if how == "/":
        return b.add("Divide", 1, x, root)[0]
    return b.add("Multiply", 1, x, b.add("Divide", 1, number(1), root)[0])[0]


def moved(b: uncork.Builder, x: Source, *order: int) -> Source:
    return b.add("Transpose", 1, x, b.constant(np.array(order)))[0]


def shaped(b: uncork.Builder, x: Source, *sizes: int) -> Source:
    return b.add("Reshape", 1, x, b.constant(np.array(sizes)), special_zero=True)[0]


def scaled(b: uncork.Builder, x: Source, channels: int, axis: int) -> Source:
    shape = (channels,) if axis < 0 else (1, channels, 1, 1)
    scale, bias = (np.linspace(end, 2, channels, dtype="f4").reshape(shape) for end in (1, -1))
    return b.add("Add", 1, b.add("Multiply", 1, b.constant(scale), x)[0], b.constant(bias))[0]


def normalised(b: uncork.Builder, x: Source, kind: str, channels: int) -> Source:
    if kind == "transposed":
        y = scaled(b, mvn(b, moved(b, x, 0, 2, 3, 1), -1), channels, -1)
        return moved(b, y, 0, 3, 1, 2)
    if kind == "scaled behind":
        return scaled(b, moved(b, mvn(b, moved(b, x, 0, 2, 3, 1), -1), 0, 3, 1, 2), channels, 1)
    if kind == "flattened":
        y = moved(b, shaped(b, x, 0, channels, 15 * 13), 0, 2, 1)
        y = moved(b, scaled(b, mvn(b, y, -1), channels, -1), 0, 2, 1)
        return shaped(b, y, 0, channels, 15, 13)
    return scaled(b, mvn(b, x, 1) if kind == "mvn" else by_squares(b, x, 1, kind), channels, 1)


def model_of(kind: str, channels: int, is_open: bool, precision: str = "f32") -> CompiledModel:
    """Two convolutions, the first of which gives its result, too, and what lies between them."""
    shape = [None, channels, None, None] if is_open else [2, channels, 15, 13]
    b = uncork.Builder("norms")
    x = convolution(b, b.parameter("x", "f32", shape), channels, channels)
    y = b.add("Add", 1, b.add("Swish", 4, normalised(b, x, kind, channels))[0], x)[0]
    z = convolution(b, b.add("ReLU", 1, y)[0], channels, channels)
    for source, name in ((x, "before"), (y, "normalised"), (z, "z")):
        b.result(source, name)
    return compile_model(b.model(), precision=precision)


def expected_of(before: np.ndarray, kind: str) -> np.ndarray:
    channels = before.shape[1]
    scale, bias = (np.linspace(end, 2, channels)[:, None, None] for end in (1, -1))
    y = standardised(before, kind not in ("*", "/", "power")) * scale + bias
    return y / (1 + np.exp(-y)) + before


_KINDS = ("mvn", "transposed", "scaled behind", "flattened", "*", "/", "power")


@pytest.mark.parametrize("channels", [2 * WIDE, 5 * WIDE])
@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("kind", _KINDS)
def test_norms_over_channels_stay_in_blocks(kind: str, channels: int, is_open: bool) -> None:
    if is_open and kind == "flattened":
        pytest.skip("its sizes are written in it")
    model = model_of(kind, channels, is_open)
    operations = [step.operation.partition("-")[0] for step in model.plan.steps]
    assert operations.count("BlockedNormalization") == 1
    assert not {"MVN", "Transpose", "ReduceMean"} & set(operations)
    assert "FromBlocks" not in operations[: operations.index("BlockedNormalization")]
    for images, rows, columns in ((2, 15, 13), (1, 1, 1), (3, 2, 3)) if is_open else ((2, 15, 13),):
        before, got, _ = model(numbers(images, channels, rows, columns) * 30 + 2)
        np.testing.assert_allclose(got, expected_of(before, kind), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("kind", _KINDS)
def test_channels_that_fill_no_blocks_are_normalised_as_they_lie(kind: str) -> None:
    """Zeros beside them would count. Convolutions stay over blocks with zeros."""
    model = model_of(kind, 3 * WIDE - 1, is_open=False)
    operations = [step.operation for step in model.plan.steps]
    assert operations.count("FusedNormalization-0") == 1
    assert operations.count("BlockedConvolution-0") == 2
    before, got, _ = model(numbers(2, 3 * WIDE - 1, 15, 13) + 1)
    np.testing.assert_allclose(got, expected_of(before, kind), rtol=1e-5, atol=2e-5)


def test_what_something_else_reads_stays() -> None:
    """The tensor with channels at the end is a result of the model as well."""
    b = uncork.Builder("read")
    last = mvn(b, moved(b, b.parameter("x", "f32", [1, 6, 3, 5]), 0, 2, 3, 1), -1)
    b.result(last, "last")
    b.result(moved(b, last, 0, 3, 1, 2), "first")
    model = compile_model(b.model())
    assert any(step.operation == "MVN-6" for step in model.plan.steps)
    data = numbers(1, 6, 3, 5)
    last_got, first_got = model(data)
    np.testing.assert_allclose(first_got, standardised(data, centred=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(last_got, first_got.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("order", [(0, 3, 2, 1), (0, 2, 3, 1)])
def test_pixels_in_another_order_are_another_tensor(order: tuple[int, ...]) -> None:
    """Of sizes alike a Transpose that turns pixels looks as one that brings channels back."""
    b = uncork.Builder("turned")
    y = mvn(b, moved(b, b.parameter("x", "f32", [1, 4, 4, 4]), 0, 2, 3, 1), -1)
    b.result(moved(b, y, *order), "y")
    data = numbers(1, 4, 4, 4)
    (got,) = compile_model(b.model())(data)
    normal = standardised(data, centred=True).transpose(0, 2, 3, 1).transpose(order)
    np.testing.assert_allclose(got, normal, rtol=1e-5, atol=1e-5)
