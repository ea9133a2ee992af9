"""Pads that windows take for their own, those that stay, and the results, beside sums over windows
of data that NumPy pads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.compiler.compile import compile_model
from uncork.ir.model import Source
from uncork.kernels import select
from uncork.ops.convolution import Convolution1
from uncork.passes.absorb_pads import absorb_pads
from uncork.types import Array

CHANNELS = 6
Make = Callable[[uncork.Builder, Source], Source]
FILTERS = np.random.default_rng(0).standard_normal((8, CHANNELS, 3, 3)).astype(np.float32)
BEGIN, END = [0, 0, 1, 0], [0, 0, 2, 1]


def pad(
    b: uncork.Builder,
    x: Source,
    begin: Sequence[int] = BEGIN,
    end: Sequence[int] = END,
    value: float | None = 0.0,
    mode: str = "constant",
) -> Source:
    """A Pad by these numbers."""
    given = [b.constant(np.array(pads, np.int64)) for pads in (begin, end)]
    given += [] if value is None else [b.constant(np.float32(value))]
    return b.add("Pad", 12, x, *given, pad_mode=mode)[0]


def convolution(
    b: uncork.Builder, x: Source, filters: Array = FILTERS, axes: int = 2, **changes: Any
) -> Source:
    given: dict[str, Any] = {"strides": [2] * axes, "dilations": [1] * axes}
    given |= {"pads_begin": [0] * axes, "pads_end": [0] * axes} | changes
    kind = "GroupConvolution" if filters.ndim - axes > 2 else "Convolution"
    return b.add(kind, 1, x, b.constant(filters), **given)[0]


def pool(b: uncork.Builder, x: Source, kind: str, **changes: Any) -> Source:
    given: dict[str, Any] = {"kernel": [3, 3], "strides": [2, 2], "rounding_type": "floor"}
    given |= {"pads_begin": [0, 0], "pads_end": [0, 0]} | changes
    return b.add(kind, 1, x, **given)[0]


def model(make: Make, shape: Sequence[int | None] = (2, CHANNELS, 11, 12)) -> uncork.Model:
    b = uncork.Builder("padded")
    b.result(make(b, b.parameter("x", "f32", shape)), "y")
    return b.model()


def kinds(model: uncork.Model) -> list[str]:
    return [n.type_name for n in model.nodes if n.type_name not in ("Parameter", "Const", "Result")]


def numbers(shape: Sequence[int] = (2, CHANNELS, 11, 12)) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def framed(
    x: Array, begin: Sequence[int] = BEGIN, end: Sequence[int] = END, value: float = 0.0
) -> Array:
    return np.pad(x, list(zip(begin, end, strict=True)), constant_values=value)


def windows(x: Array, kernel: Sequence[int], strides: Sequence[int]) -> Array:
    """The windows [N, C, p.., k..] of padded data."""
    axes = tuple(range(2, x.ndim))
    found = np.lib.stride_tricks.sliding_window_view(x, tuple(kernel), axes)
    starts = (slice(None), slice(None), *(slice(None, None, step) for step in strides))
    return np.asarray(found[starts])


def convolved(x: Array, filters: Array = FILTERS, strides: Sequence[int] = (2, 2)) -> Array:
    """The convolution of padded data, by sums over windows, in f64."""
    axes = filters.ndim - 2
    seen = windows(x.astype(np.float64), filters.shape[2:], strides)
    places = [*range(2 + axes, 2 + 2 * axes)]
    made = np.tensordot(seen, filters.astype(np.float64), ([1, *places], [*range(1, 2 + axes)]))
    return np.moveaxis(made, -1, 1)


def agrees(given: uncork.Model, x: Array, wanted: Array) -> None:
    compiled = compile_model(given)
    np.testing.assert_allclose(compiled(x)["y"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("open_sizes", [False, True])
def test_a_convolution_pads_itself(open_sizes: bool) -> None:
    shape = (None, CHANNELS, None, None) if open_sizes else (2, CHANNELS, 11, 12)
    given = model(lambda b, x: convolution(b, pad(b, x)), shape)
    if not select.unavailable():
        assert not any("Pad" in step.layer for step in compile_model(given).plan.steps)
    if not open_sizes:
        (node,) = [n for n in absorb_pads(given).nodes if n.type_name == "Convolution"]
        assert isinstance(operation := node.operation, Convolution1)
        assert (operation.pads_begin, operation.pads_end) == ((1, 0), (2, 1))
    agrees(given, numbers(), convolved(framed(numbers())))


@pytest.mark.parametrize("axes", [1, 3])
def test_along_one_axis_and_three(axes: int) -> None:
    begin, end = [0, 0, *[2] * axes], [0, 0, *[0] * axes]
    shape = (2, CHANNELS, *(9, 7, 8)[:axes])
    filters = np.random.default_rng(2).standard_normal((4, CHANNELS, *[3] * axes))
    filters = filters.astype(np.float32)
    given = model(lambda b, x: convolution(b, pad(b, x, begin, end), filters, axes), shape)
    assert kinds(absorb_pads(given)) == ["Convolution"]
    x = numbers(shape)
    agrees(given, x, convolved(framed(x, begin, end), filters, [2] * axes))


def test_each_channel_by_itself() -> None:
    filters = np.random.default_rng(2).standard_normal((CHANNELS, 1, 1, 3, 3)).astype(np.float32)
    given = model(lambda b, x: convolution(b, pad(b, x), filters))
    assert kinds(absorb_pads(given)) == ["GroupConvolution"]
    seen = windows(framed(numbers()).astype(np.float64), (3, 3), (2, 2))
    wanted = (seen * filters[:, 0, 0][:, np.newaxis, np.newaxis]).sum((-1, -2))
    agrees(given, numbers(), wanted)


def test_own_pads_are_added_to() -> None:
    given = model(lambda b, x: convolution(b, pad(b, x), pads_begin=[1, 2], pads_end=[0, 1]))
    assert kinds(absorb_pads(given)) == ["Convolution"]
    both = framed(numbers(), [0, 0, 2, 2], [0, 0, 2, 2])
    agrees(given, numbers(), convolved(both))


def test_pads_of_auto_pad_are_found() -> None:
    given = model(lambda b, x: convolution(b, pad(b, x), auto_pad="same_upper"))
    assert kinds(absorb_pads(given)) == ["Convolution"]
    # 11 + 3 and 12 + 1 cells make 7 windows each, which end at 15
    agrees(given, numbers(), convolved(framed(numbers(), [0, 0, 1, 1], [0, 0, 3, 2])))


def test_pads_of_pads_and_several_readers() -> None:
    def make(b: uncork.Builder, x: Source) -> Source:
        padded = pad(b, pad(b, x, [0, 0, 1, 1], [0, 0, 1, 1]))
        return b.add("Add", 1, convolution(b, padded), convolution(b, padded))[0]

    given = model(make)
    assert kinds(absorb_pads(given)) == ["Convolution", "Convolution", "Add"]
    wanted = convolved(framed(numbers(), [0, 0, 2, 1], [0, 0, 3, 2]))
    agrees(given, numbers(), 2 * wanted)


def test_layers_that_make_zero_of_zero_come_between() -> None:
    factors = np.linspace(-1, 2, CHANNELS, dtype=np.float32).reshape(1, -1, 1, 1)

    def make(b: uncork.Builder, x: Source) -> Source:
        padded = b.add("ReLU", 1, pad(b, x))[0]
        return convolution(b, b.add("Multiply", 1, padded, b.constant(factors))[0])

    given = model(make)
    assert kinds(absorb_pads(given)) == ["ReLU", "Multiply", "Convolution"]
    agrees(given, numbers(), convolved(framed(np.maximum(numbers(), 0) * factors)))


def test_pads_come_through_a_transposition() -> None:
    def make(b: uncork.Builder, x: Source) -> Source:
        padded = pad(b, x, [0, 1, 0, 0], [0, 2, 1, 0])
        order = b.constant(np.array([0, 3, 1, 2], np.int64))
        return convolution(b, b.add("Transpose", 1, padded, order)[0])

    given = model(make, (2, 11, 12, CHANNELS))
    assert kinds(absorb_pads(given)) == ["Transpose", "Convolution"]
    x = numbers()
    agrees(given, np.ascontiguousarray(np.moveaxis(x, 1, -1)), convolved(framed(x)))


@pytest.mark.parametrize(("low", "absorbed"), [(-1.0, True), (0.5, False)])
def test_levels_of_which_one_is_zero(low: float, absorbed: bool) -> None:
    """Pads come through a rounding to levels; where none of these is zero they stay."""

    def make(b: uncork.Builder, x: Source) -> Source:
        limits = [b.constant(np.float32(v).reshape(1, 1, 1, 1)) for v in (low, 2, low, 2)]
        return convolution(b, b.add("FakeQuantize", 1, pad(b, x), *limits, levels=4)[0])

    given = model(make)
    assert ("Pad" not in kinds(absorb_pads(given))) == absorbed
    step = (2 - low) / 3
    clipped = framed(np.clip(numbers(), low, 2)) if absorbed else np.clip(framed(numbers()), low, 2)
    levels = np.rint((clipped - low) / step) * step + low
    agrees(given, numbers(), convolved(levels))


def test_codes_of_quantized_layers() -> None:
    """A convolution on codes whose zero is 64 sees zeros outside of the data."""
    codes = np.random.default_rng(3).integers(-127, 128, (64, 16, 3, 3)).astype(np.int8)
    scales = np.full((64, 1, 1, 1), 0.01, np.float32)
    limits = [np.float32(v).reshape(1, 1, 1, 1) for v in (-1, 2.984375) * 2]
    given = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}

    def make(b: uncork.Builder, x: Source) -> Source:
        rounded = b.add("FakeQuantize", 1, x, *map(b.constant, limits), levels=256)[0]
        wide = b.add("Convert", 1, b.constant(codes), destination_type="f32")[0]
        scaled = b.add("Multiply", 1, wide, b.constant(scales))[0]
        more: dict[str, Any] = {**given}
        return b.add("Convolution", 1, pad(b, rounded), scaled, **more)[0]

    quantized = model(make, (2, 16, 11, 12))
    x = numbers((2, 16, 11, 12))
    rounded = np.rint((np.clip(x, -1, 2.984375) + 1) * 64) / 64 - 1
    wanted = convolved(framed(rounded), codes * np.float32(0.01))
    compiled = compile_model(quantized)
    if not select.unavailable():
        assert any(step.operation.startswith("QuantizedProduct") for step in compiled.plan.steps)
        assert not any("Pad" in step.layer for step in compiled.plan.steps)
    np.testing.assert_allclose(compiled(x)["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("rounding", ["floor", "ceil"])
def test_means_count_the_cells_of_a_pad(exclude: bool, rounding: str) -> None:
    given = model(
        lambda b, x: pool(
            b, pad(b, x, END, BEGIN), "AvgPool", exclude_pad=exclude, rounding_type=rounding
        )
    )
    assert kinds(absorb_pads(given)) == ["AvgPool"]
    x = framed(numbers(), END, BEGIN)  # 14 by 13 cells: rounded up, a row of windows has two rows
    more = rounding == "ceil"
    wanted = np.zeros((2, CHANNELS, 7 if more else 6, 6))
    for i, j in itertools.product(*map(range, wanted.shape[2:])):
        wanted[:, :, i, j] = x[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].mean((2, 3))
    agrees(given, numbers(), wanted)


def test_maxima_of_what_is_below_all() -> None:
    given = model(lambda b, x: pool(b, pad(b, x, value=-np.inf), "MaxPool"))
    assert kinds(absorb_pads(given)) == ["MaxPool"]
    wanted = windows(framed(numbers(), value=-np.inf), (3, 3), (2, 2)).max((-1, -2))
    agrees(given, numbers(), wanted)


def test_maxima_of_zeros_beside_numbers_that_are_not_below() -> None:
    given = model(lambda b, x: pool(b, pad(b, b.add("ReLU", 1, x)[0]), "MaxPool"))
    assert kinds(absorb_pads(given)) == ["ReLU", "MaxPool"]
    wanted = windows(framed(np.maximum(numbers(), 0)), (3, 3), (2, 2)).max((-1, -2))
    agrees(given, numbers(), wanted)


#: Filters of which one is infinite.
INFINITE = FILTERS.copy()
INFINITE.flat[FILTERS.argmax()] = np.inf


STAYS: dict[str, Make] = {
    "channels": lambda b, x: convolution(
        b, pad(b, x, [0, 1, 0, 0], [0, 1, 0, 0]), np.ones((8, CHANNELS + 2, 3, 3), np.float32)
    ),
    "images": lambda b, x: convolution(b, pad(b, x, [1, 0, 0, 0], [0, 0, 1, 0])),
    "below 0": lambda b, x: convolution(b, pad(b, x, [0, 0, -1, 0], [0, 0, 1, 0])),
    "another number": lambda b, x: convolution(b, pad(b, x, value=1e-30)),
    "below all": lambda b, x: convolution(b, pad(b, x, value=-np.inf)),
    "another mode": lambda b, x: convolution(b, pad(b, x, mode="edge")),
    "infinite filters": lambda b, x: convolution(b, pad(b, x), INFINITE),
    "windows that share nothing": lambda b, x: convolution(b, pad(b, x), strides=[3, 3]),
    "no zero of zero": lambda b, x: convolution(b, b.add("Exp", 1, pad(b, x))[0]),
    "numbers by place": lambda b, x: convolution(
        b, b.add("Multiply", 1, pad(b, x), b.constant(np.ones((14, 13), np.float32)))[0]
    ),
    "maxima of any numbers": lambda b, x: pool(b, pad(b, x), "MaxPool"),
    "windows without data": lambda b, x: pool(
        b, pad(b, b.add("ReLU", 1, x)[0], [0, 0, 3, 0], [0, 0, 0, 0]), "MaxPool"
    ),
    "means without own pads": lambda b, x: pool(
        b, pad(b, x), "AvgPool", exclude_pad=True, pads_begin=[1, 1]
    ),
    "means of another number": lambda b, x: pool(
        b, pad(b, x, value=1.0), "AvgPool", exclude_pad=False
    ),
    "another reader": lambda b, x: b.add(
        "Add",
        1,
        convolution(b, padded := pad(b, x)),
        b.add("ReduceMax", 1, padded, b.constant(np.array([1, 2, 3])), keep_dims=True)[0],
    )[0],
}


@pytest.mark.parametrize("make", STAYS.values(), ids=STAYS)
def test_other_pads_stay(make: Make) -> None:
    given = model(make)
    assert absorb_pads(given) is given
    x = numbers()
    wanted = compile_model(given, backend="reference")(x)["y"]
    np.testing.assert_allclose(compile_model(given)(x)["y"], wanted, rtol=1e-4, atol=1e-4)


def test_pads_of_the_call_stay() -> None:
    b = uncork.Builder("padded")
    x = b.parameter("x", "f32", (2, CHANNELS, 11, 12))
    begin = b.parameter("begin", "i64", (4,))
    end = b.constant(np.array(END, np.int64))
    b.result(convolution(b, b.add("Pad", 12, x, begin, end, pad_mode="constant")[0]), "y")
    given = b.model()
    assert absorb_pads(given) is given
    got = compile_model(given)({"x": numbers(), "begin": np.array(BEGIN)})["y"]
    np.testing.assert_allclose(got, convolved(framed(numbers())), rtol=1e-4, atol=1e-5)
