"""What is rounded before it is joined or moved, and that codes are joined."""

from __future__ import annotations

from collections.abc import Callable

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
)
from uncork.compiler.compile import compile_model
from uncork.ir.model import Model, Source
from uncork.passes.round_first import round_first

__all__ = ["same_numbers"]  # a fixture for every test

SIZES = (1, 8, 6, 7)


def network(
    body: Callable[[uncork.Builder, Source, Source], Source],
    grids: tuple[tuple[float, float], ...] = ((0, 2), (0, 3)),
    first: int = 8,
) -> Model:
    """Two convolutions of rounded data, what becomes of both, and one more convolution."""
    b = uncork.Builder("joined")
    x = rounded(b, b.parameter("x", "f32", SIZES), 0, 4)
    parts = [convolved(b, x, 8, first), convolved(b, x, 8, 12)]
    parts = [rounded(b, y, *grid) for y, grid in zip(parts, grids, strict=False)] or parts
    y = body(b, *parts)
    b.result(convolved(b, y, first + 12, 8, relu=False), "y")
    return b.model()


def joined(b: uncork.Builder, *parts: Source, axis: int = 1) -> Source:
    return b.add("Concat", 1, *parts, axis=axis)[0]


def test_convolutions_end_with_the_rounding_of_what_joins_them() -> None:
    model = network(lambda b, x, y: rounded(b, joined(b, x, y), 0, 3), grids=())
    assert operations(model) == [
        "Reheld", "QuantizedProduct", "QuantizedProduct", "Concat", "QuantizedProduct", "Reheld"
    ]  # fmt: skip
    agree(model, image(*SIZES), level=3 / 255)


def test_what_joins_joins() -> None:
    """A Concat of a Concat, and limits of each channel, as a depthwise convolution has them."""

    def body(b: uncork.Builder, x: Source, y: Source) -> Source:
        (kept,) = b.add("Abs", 1, x)
        z = joined(b, joined(b, x, y), kept)
        high = np.linspace(1, 3, 28, dtype=np.float32).reshape(1, 28, 1, 1)
        limits = [b.constant(np.float32(0)), b.constant(high)] * 2
        return b.add("FakeQuantize", 1, z, *limits, levels=256)[0]

    b = uncork.Builder("joined")
    x = rounded(b, b.parameter("x", "f32", SIZES), 0, 4)
    b.result(body(b, convolved(b, x, 8, 8), convolved(b, x, 8, 12)), "y")
    model = b.model()
    after = round_first(model)
    found = [node.type_name for node in after.nodes]
    assert found.count("FakeQuantize") == model_rounds(model) + 2
    assert found.index("FakeQuantize", found.index("Abs")) < found.index("Concat")
    data = image(*SIZES)
    before, rewritten = (compile_model(m, backend="reference")(data)[0] for m in (model, after))
    np.testing.assert_array_equal(before, rewritten)
    agree(model, data, level=3 / 255)


def model_rounds(model: Model) -> int:
    return sum(node.type_name == "FakeQuantize" for node in model.nodes)


@pytest.mark.parametrize("why", ["a result", "another axis", "another layer reads"])
def test_what_comes_near(why: str) -> None:
    b = uncork.Builder("near")
    x = b.parameter("x", "f32", (1, 4, 5, 5))
    y = joined(b, x, b.add("Abs", 1, x)[0], axis=2 if why == "another axis" else 1)
    if why == "a result":
        b.result(y, "joined")
    if why == "another layer reads":
        b.result(b.add("Exp", 1, y)[0], "powers")
    b.result(rounded(b, y, 0, 1), "y")
    model = b.model()
    assert round_first(model) is model


@pytest.mark.parametrize("sizes", [SIZES, (None, 8, None, None)])
def test_joined_channels_have_limits_of_their_own(sizes: tuple[int | None, ...]) -> None:
    """As in a DenseNet: layers of their own round what a chain reads of the joined channels."""
    b = uncork.Builder("dense")
    x = rounded(b, b.parameter("x", "f32", sizes), 0, 4)
    y = rounded(b, convolved(b, x, 8, 8), 0, 2)
    z = rounded(b, convolved(b, y, 8, 12, relu=False), -3, 3 * 127 / 128)
    both = joined(b, y, z)
    scale = np.linspace(0.5, 1, 20, dtype=np.float32).reshape(1, 20, 1, 1)
    (scaled,) = b.add("Multiply", 1, both, b.constant(scale))
    (scaled,) = b.add("ReLU", 1, scaled)
    w = rounded(b, convolved(b, rounded(b, scaled, 0, 2.1), 20, 8), 0, 1)
    pool = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
    (last,) = b.add("MaxPool", 1, joined(b, both, w), **pool)
    (last,) = b.add("ReLU", 1, last)
    b.result(convolved(b, rounded(b, last, 0, 2.1), 28, 8, relu=False), "y")
    model = b.model()
    assert set(operations(model)) == {
        "Reheld", "QuantizedProduct", "QuantizedElements", "QuantizedPool", "Concat"
    }  # fmt: skip
    assert operations(model).count("Reheld") == 2
    agree(model, image(2, 8, 6, 8) if None in sizes else image(*SIZES), level=4 / 255)


def test_no_product_adds_up_codes_of_several_grids() -> None:
    model = network(lambda b, x, y: joined(b, x, y))
    assert operations(model).count("QuantizedProduct") == 2
    agree(model, image(*SIZES), level=3 / 255)


def test_codes_of_one_grid_become_those_of_another() -> None:
    model = network(lambda b, x, y: rounded(b, joined(b, x, y), 0, 1.5))
    assert operations(model) == [
        "Reheld", "QuantizedProduct", "QuantizedProduct", "Concat", "QuantizedProduct", "Reheld"
    ]  # fmt: skip
    agree(model, image(*SIZES), level=3 / 255)
