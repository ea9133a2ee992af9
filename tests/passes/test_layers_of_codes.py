"""Means of codes, and layers element by element between roundings: which are on codes, results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.passes.test_quantize_layers import (
    agree,
    convolved,
    image,
    operations,
    rounded,
    same_numbers,
    weights,
)
from uncork.compiler.compile import compile_model
from uncork.errors import UncorkError
from uncork.ir.model import Model, Source

__all__ = ["same_numbers"]  # a fixture for every test

CHANNELS = 18


def constant(b: uncork.Builder, *sizes: int, scale: float = 1.0) -> Source:
    values = np.random.default_rng(sum(sizes)).uniform(0.5, 1, sizes) * scale
    return b.constant(values.astype(np.float32))


def mean(b: uncork.Builder, x: Source, axes: Sequence[int] = (2, 3), keep: bool = True) -> Source:
    return b.add("ReduceMean", 1, x, b.constant(np.array(axes)), keep_dims=keep)[0]


def gated(
    sizes: Sequence[int | None] = (1, CHANNELS, 9, 11), rounds: bool = True, word: str = "Sigmoid"
) -> Model:
    """Squeeze and excitation between two convolutions; the gate is rounded to levels, or not."""
    b = uncork.Builder("gated")
    x = rounded(b, b.parameter("x", "f32", sizes), 0, 4)
    x = rounded(b, convolved(b, x, CHANNELS, CHANNELS), 0, 2)
    gate = rounded(b, mean(b, x), 0, 2)
    gate = rounded(b, convolved(b, gate, CHANNELS, 8, taps=1), 0, 1)
    (gate,) = b.add(word, 1, convolved(b, gate, 8, CHANNELS, taps=1, relu=False))
    if rounds:
        gate = rounded(b, gate, 0, 1)
    (y,) = b.add("Multiply", 1, x, gate)
    y = rounded(b, y, 0, 2)
    b.result(convolved(b, y, CHANNELS, CHANNELS, taps=1, relu=False), "y")
    return b.model()


@pytest.mark.parametrize("rounds", [True, False])
def test_gates_are_multiplied_on_codes(rounds: bool) -> None:
    model = gated(rounds=rounds)
    assert sorted(set(operations(model))) == [
        "QuantizedElements", "QuantizedMean", "QuantizedProduct", "Reheld"
    ]  # fmt: skip
    assert operations(model).count("Reheld") <= 4
    agree(model, image(1, CHANNELS, 9, 11), level=2 / 255)


@pytest.mark.parametrize("sizes", [(3, CHANNELS, 5, 7), (1, CHANNELS, 1, 1), (2, CHANNELS, 64, 3)])
def test_sizes_of_the_call(sizes: tuple[int, ...]) -> None:
    model = gated((None, CHANNELS, None, None))
    assert "QuantizedElements" in operations(model)
    agree(model, image(*sizes), level=2 / 255)
    agree(model, image(*sizes), level=2 / 255, target="x86-64-v3")


def test_a_chain_ends_in_one_rounding() -> None:
    """Normalisation of each channel and an activation, as before the convolutions of a DenseNet."""
    b = uncork.Builder("chain")
    x = rounded(b, b.parameter("x", "f32", (2, CHANNELS, 6, 5)), 0, 4)
    x = rounded(b, convolved(b, x, CHANNELS, CHANNELS, relu=False), -2, 2 * 127 / 128)
    around = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
    (kept,) = b.add("MaxPool", 1, x, **around)
    (y,) = b.add("Multiply", 1, kept, constant(b, 1, CHANNELS, 1, 1))
    (y,) = b.add("Subtract", 1, y, constant(b, CHANNELS, 1, 1, scale=0.5))
    (y,) = b.add("ReLU", 1, y)
    (y,) = b.add("Add", 1, y, kept)
    (y,) = b.add("Multiply", 1, y, b.constant(np.float32(0.5)))
    y = rounded(b, y, -1, 127 / 128)
    b.result(convolved(b, y, CHANNELS, 8, relu=False), "y")
    model = b.model()
    assert operations(model) == [
        "Reheld", "QuantizedProduct", "QuantizedPool", "QuantizedElements", "QuantizedProduct",
        "Reheld",
    ]  # fmt: skip
    agree(model, image(2, CHANNELS, 6, 5), level=2 / 255)


def test_a_mean_of_all_pixels_is_of_whole_numbers() -> None:
    """It has no error of f32: the sum of many codes is a whole number that it holds."""
    b = uncork.Builder("mean")
    x = rounded(b, b.parameter("x", "f32", (1, 8, 40, 300)), 0, 255)
    ones = np.zeros((8, 8, 1, 1), np.float32)
    ones[range(8), range(8)] = 127
    limits = [b.constant(np.float32(side)) for side in (-127, 127)]
    (weights,) = b.add("FakeQuantize", 1, b.constant(ones), *limits, *limits, levels=255)
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    (y,) = b.add("Convolution", 1, x, weights, **around)
    y = rounded(b, y, 0, 255 * 127)
    b.result(mean(b, y, keep=False), "y")
    model = b.model()
    assert "QuantizedMean" in operations(model)
    values = np.random.default_rng(3).integers(0, 256, (1, 8, 40, 300))
    (got,) = compile_model(model, threads=1)(values.astype(np.float32))
    np.testing.assert_allclose(got, 127 * values.mean((2, 3)), rtol=3e-7)


def test_a_gate_that_is_no_number_is_not_rounded() -> None:
    """No code stands for it: the reference computes the call, as it does for other layers."""
    b = uncork.Builder("gate")
    x = rounded(b, b.parameter("x", "f32", (2, 8, 4, 4)), 0, 4)
    x = rounded(b, convolved(b, x, 8, 8), 0, 2)
    (y,) = b.add("Multiply", 1, x, b.parameter("gate", "f32", (2, 8, 1, 1)))
    b.result(convolved(b, rounded(b, y, 0, 2), 8, 8, taps=1, relu=False), "y")
    model = b.model()
    assert "QuantizedElements" in operations(model)
    data, gate = image(2, 8, 4, 4), np.full((2, 8, 1, 1), 0.43, np.float32)
    agree(model, data, gate, level=2 / 255)
    gate[0, 3] = np.nan

    def of(**options: str) -> object:
        try:
            return compile_model(model, threads=1, **options)(data, gate)[0]
        except UncorkError as error:
            return str(error)

    fast, slow = of(), of(backend="reference")
    np.testing.assert_array_equal(np.isnan(fast), np.isnan(slow))  # type: ignore[call-overload]


@pytest.mark.parametrize("why", ["a gate of pixels", "numbers", "read twice", "other axes"])
def test_what_comes_near(why: str) -> None:
    b = uncork.Builder("near")
    data = b.parameter("x", "f32", (1, 8, 6, 6))
    x = rounded(b, convolved(b, rounded(b, data, 0, 4), 8, 8), 0, 2)
    other = {
        "a gate of pixels": lambda: constant(b, 1, 1, 6, 6),
        "numbers": lambda: b.add("Abs", 1, data)[0],
        "read twice": lambda: constant(b, 1, 8, 1, 1),
        "other axes": lambda: mean(b, x, (1, 2)),
    }[why]()
    (y,) = b.add("Multiply", 1, x, other)
    if why == "read twice":
        b.result(y, "also")
    b.result(convolved(b, rounded(b, y, 0, 2), 8, 8, taps=1, relu=False), "y")
    model = b.model()
    assert not {"QuantizedElements", "QuantizedMean"} & set(operations(model))
    agree(model, image(1, 8, 6, 6), level=2 / 255)


def normalised(sizes: Sequence[int | None], words: str = "") -> Model:
    """A normalisation of each pixel, by channels that are moved to the end and back, between
    convolutions; `words`: a result of the model is what was moved there.
    """
    b = uncork.Builder("normalised")
    x = rounded(b, b.parameter("x", "f32", sizes), 0, 4)
    y = rounded(b, convolved(b, x, CHANNELS, CHANNELS), 0, 2)
    (y,) = b.add("Transpose", 1, y, b.constant(np.array([0, 2, 3, 1])))
    if words:
        b.result(y, words)
    axes = b.constant(np.array([-1]))
    more = {"normalize_variance": True, "eps": 1e-5, "eps_mode": "inside_sqrt"}
    (y,) = b.add("MVN", 6, y, axes, **more)
    y = rounded(b, y, -2, 2 * 127 / 128)
    (y,) = b.add("Transpose", 1, y, b.constant(np.array([0, 3, 1, 2])))
    b.result(convolved(b, y, CHANNELS, 8, relu=False), "y")
    return b.model()


def test_channels_that_are_last_are_read_where_they_lie() -> None:
    model = normalised((2, CHANNELS, 5, 6))
    assert operations(model) == [
        "Reheld", "QuantizedProduct", "MVN", "Reheld", "QuantizedProduct", "Reheld"
    ]  # fmt: skip
    agree(model, image(2, CHANNELS, 5, 6), level=2 / 64)
    agree(normalised((None, CHANNELS, None, None)), image(1, CHANNELS, 7, 3), level=2 / 64)


def test_what_was_moved_is_a_result() -> None:
    model = normalised((2, CHANNELS, 5, 6), "moved")
    agree(model, image(2, CHANNELS, 5, 6), level=2 / 64)
    fast = compile_model(model, threads=1)
    assert fast(image(2, CHANNELS, 5, 6))["moved"].shape == (2, 5, 6, CHANNELS)


@pytest.mark.parametrize("order", [(0, 3, 2, 1), (0, 1, 3, 2), (1, 2, 3, 0), (0, 3, 1, 2)])
def test_other_orders_move(order: tuple[int, ...]) -> None:
    """With as many channels as rows and columns every order has a result of one shape."""
    b = uncork.Builder("orders")
    y = rounded(b, b.parameter("x", "f32", (8, 8, 8, 8)), 0, 4)
    y = rounded(b, convolved(b, y, 8, 8), 0, 2)
    (y,) = b.add("Transpose", 1, y, b.constant(np.array(order)))
    b.result(convolved(b, y, 8, 8, relu=False), "y")
    (z,) = b.add("Abs", 1, y)
    b.result(z, "z")
    agree(b.model(), image(8, 8, 8, 8), level=2 / 64)


def cut(
    lengths: Sequence[int] = (8, 12, 6),
    axis: int = 1,
    sizes: Sequence[int | None] = (2, 26, 4, 6),
    equal: bool = False,
) -> Model:
    """Codes that are cut along an axis, by lengths or in equal parts: convolutions read all parts
    but the last, which is a result.
    """
    b = uncork.Builder("cut")
    x = rounded(b, b.parameter("x", "f32", sizes), 0, 4)
    x = rounded(b, convolved(b, x, 26, sum(lengths) if axis == 1 else 12), 0, 2)
    along = b.constant(np.array(axis))
    if equal:
        parts = b.add("Split", 1, x, along, num_splits=len(lengths))
    else:
        parts = b.add("VariadicSplit", 1, x, along, b.constant(np.array(lengths)))
    for number, (part, count) in enumerate(zip(parts[:-1], lengths, strict=False)):
        channels = count if axis == 1 else 12
        b.result(convolved(b, part, channels, 8, relu=False), f"y{number}")
    b.result(parts[-1], "last")
    return b.model()


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (cut(), (2, 26, 4, 6)),
        (cut((12, 12), equal=True), (2, 26, 4, 6)),
        (cut(sizes=(None, 26, None, None)), (1, 26, 5, 3)),
    ],
    ids=["lengths", "equal", "sizes of the call"],
)
def test_parts_of_channels_stay_codes(model: Model, sizes: tuple[int, ...]) -> None:
    steps = operations(model)
    results = len(model.results)
    # the image to codes, and each result to numbers
    assert steps.count("Reheld") == 1 + results
    assert steps.count("QuantizedProduct") == results
    agree(model, image(*sizes), level=2 / 255)


@pytest.mark.parametrize(
    "model", [cut((6, 12, 8)), cut((2, 2), axis=2)], ids=["parts of words", "rows"]
)
def test_other_parts_are_numbers(model: Model) -> None:
    steps = operations(model)
    assert steps.count("Reheld") > 1 + len(model.results)
    agree(model, image(2, 26, 4, 6), level=2 / 255)


def test_parts_of_joined_channels_have_their_limits() -> None:
    b = uncork.Builder("joined")
    x = rounded(b, b.parameter("x", "f32", (1, 8, 5, 6)), 0, 4)
    parts = [rounded(b, convolved(b, x, 8, 12), 0, high) for high in (2, 3)]
    (y,) = b.add("Concat", 1, *parts, axis=1)
    given = b.constant(np.array(1)), b.constant(np.array([8, 8, -1]))
    for number, part in enumerate(b.add("VariadicSplit", 1, y, *given)):
        (part,) = b.add("Multiply", 1, part, constant(b, 1, 8, 1, 1))
        b.result(convolved(b, rounded(b, part, 0, 2.3), 8, 8, relu=False), f"y{number}")
    model = b.model()
    assert operations(model).count("QuantizedElements") == 3
    agree(model, image(1, 8, 5, 6), level=2 / 255)


def resized(sizes: Sequence[int | None] = (1, 12, 4, 5), **more: object) -> Model:
    """A decoder's step: pixels are repeated, rounded to other levels, and joined with what the
    encoder made.
    """
    b = uncork.Builder("resized")
    x = rounded(b, b.parameter("x", "f32", sizes), 0, 4)
    kept = rounded(b, convolved(b, x, 12, 16), 0, 2.2)
    pool = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
    (y,) = b.add("MaxPool", 1, kept, **pool, rounding_type="ceil")
    y = rounded(b, convolved(b, y, 16, 8), 0, 3)
    how = {
        "mode": "nearest", "shape_calculation_mode": "scales", "nearest_mode": "floor",
        "coordinate_transformation_mode": "asymmetric", "pads_begin": [0, 0, 0, 0],
        "pads_end": [0, 0, 0, 0], **more,
    }  # fmt: skip
    scales = b.constant(np.array([2, 2], np.float32))
    (y,) = b.add("Interpolate", 11, y, scales, b.constant(np.array([2, 3])), **how)
    y = rounded(b, y, 0, 2.2)
    (y,) = b.add("Concat", 1, y, kept, axis=1)
    b.result(convolved(b, y, 24, 8, relu=False), "y")
    return b.model()


@pytest.mark.parametrize("sizes", [(1, 12, 4, 6), (None, 12, None, None)])
def test_pixels_are_repeated_on_codes(sizes: tuple[int | None, ...]) -> None:
    model = resized(sizes)
    assert sorted(operations(model)) == [
        "Concat", "Interpolate", "QuantizedElements", "QuantizedPool", "QuantizedProduct",
        "QuantizedProduct", "QuantizedProduct", "Reheld", "Reheld",
    ]  # fmt: skip
    agree(model, image(1, 12, 4, 6), level=3 / 255)


def test_pixels_between_others_are_numbers() -> None:
    model = resized((1, 12, 4, 6), mode="linear_onnx")
    assert "QuantizedElements" not in operations(model)
    agree(model, image(1, 12, 4, 6), level=3 / 255)


def smoothed(factors: np.ndarray, images: bool = False) -> Model:
    """Each channel is multiplied before it is rounded, as NNCF smooths outliers."""
    b = uncork.Builder("smoothed")
    x = b.parameter("x", "f32", (2, 12, 5, 6) if images else (2, 6, 12))
    (y,) = b.add("Multiply", 1, x, b.constant(factors.astype(np.float32)))
    limits = [b.constant(np.float32(side)) for side in (-2, 2 * 127 / 128)]
    (y,) = b.add("FakeQuantize", 1, y, *limits, *limits, levels=256)
    if images:
        b.result(convolved(b, y, 12, 8, relu=False), "y")
    else:
        (y,) = b.add("MatMul", 1, y, weights(b, 8, 12), transpose_b=True)
        b.result(y, "y")
    return b.model()


FACTORS = np.linspace(0.1, 3, 12)


@pytest.mark.parametrize("images", [True, False])
def test_channels_are_multiplied_as_they_become_codes(images: bool) -> None:
    model = smoothed(FACTORS.reshape(1, -1, 1, 1) if images else FACTORS, images)
    assert "Multiply" not in operations(model)
    agree(model, image(2, 12, 5, 6) if images else image(2, 6, 12), level=2 / 128)


@pytest.mark.parametrize(
    "factors",
    [-FACTORS, FACTORS - 0.1, FACTORS * 1e-37, FACTORS.reshape(1, 1, 12) + np.zeros((2, 1, 1))],
    ids=["negative", "zero", "small", "of each image"],
)
def test_other_factors_are_a_layer(factors: np.ndarray) -> None:
    model = smoothed(factors)
    assert "Multiply" in operations(model)
    agree(model, image(2, 6, 12), level=2 / 128)
