"""Interpolate between convolutions stays over blocks of channels, with zeros in them and in bf16,
where it resizes the pixels of each channel; other resizing leaves the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.ir.model import Source
from uncork.kernels.runtime.target import host_target
from uncork.kernels.stored_types import multiplies_pairs

GENERATOR = np.random.default_rng(7)
WIDE = host_target().lanes


def numbers(*shape: int) -> np.ndarray:
    return (GENERATOR.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def convolution(b: uncork.Builder, x: Source, channels: int, outputs: int) -> Source:
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    (y,) = b.add("Convolution", 1, x, b.constant(numbers(outputs, channels, 3, 3)), **around)
    return b.add("ReLU", 1, y)[0]


#: Attributes, what sizes or scales say, and the axes; None: all.
NEAREST = {"mode": "nearest", "nearest_mode": "floor", "shape_calculation_mode": "scales"}
NEAREST |= {"coordinate_transformation_mode": "asymmetric"}
LINEAR = {"mode": "linear_onnx", "shape_calculation_mode": "sizes"}
LINEAR |= {"coordinate_transformation_mode": "pytorch_half_pixel"}
CUBIC = {"mode": "cubic", "shape_calculation_mode": "sizes"}
WAYS: list[tuple[dict[str, str], list[float], list[int] | None]] = [
    (NEAREST, [2.0, 2.0], [2, 3]),
    (NEAREST, [1.0, 1.0, 2.0, 1.5], None),
    (NEAREST, [0.5], [3]),
    (LINEAR, [25, 9], [2, 3]),
    (LINEAR, [9, 25], [3, 2]),
    (CUBIC, [20, 21], [2, 3]),
]


def net(
    shape: Sequence[int | None],
    channels: int,
    how: dict[str, str],
    wanted: Sequence[float],
    axes: Sequence[int] | None,
) -> uncork.Model:
    b = uncork.Builder("net")
    kind = np.float32 if how["shape_calculation_mode"] == "scales" else np.int64
    y = convolution(
        b, b.parameter("x", "f32", [shape[0], channels, *shape[1:]]), channels, channels
    )
    given = [b.constant(np.array(wanted, kind))]
    if axes is not None:
        given.append(b.constant(np.array(axes)))
    (y,) = b.add("Interpolate", 11, y, *given, name="resized", **how)
    b.result(convolution(b, y, channels, channels), "y")
    return b.model()


def moves(model: uncork.Model, *arrays: np.ndarray, precision: str = "f32") -> int:
    """The changes of layout in the plan, after the results agreed with the reference's."""
    fast = compile_model(model, precision=precision)
    slow = compile_model(model, backend="reference")
    (made,), (expected,) = fast(*arrays), slow(*arrays)
    within = 2e-5 if precision == "f32" else 2e-2
    np.testing.assert_allclose(made, expected, rtol=0, atol=within * np.abs(expected).max())
    operations = [step.operation for step in fast.plan.steps]
    return sum(operation.startswith(("ToBlocks", "FromBlocks")) for operation in operations)


@pytest.mark.parametrize("channels", [2 * WIDE, 5 * WIDE // 2, 11 * WIDE // 4])
@pytest.mark.parametrize(("how", "wanted", "axes"), WAYS)
def test_pixels_are_resized_in_blocks(
    channels: int, how: dict[str, str], wanted: list[float], axes: list[int] | None
) -> None:
    x = numbers(2, channels, 14, 18)
    assert moves(net([2, 14, 18], channels, how, wanted, axes), x) == 2
    assert moves(net([None, 14, 18], channels, how, wanted, axes), x) == 2


@pytest.mark.parametrize("channels", [2 * WIDE, 5 * WIDE // 2])
@pytest.mark.parametrize(("how", "wanted", "axes"), WAYS)
@pytest.mark.skipif(not multiplies_pairs(host_target()), reason="no products of bf16 here")
def test_pixels_of_bf16_are_resized_in_blocks(
    channels: int, how: dict[str, str], wanted: list[float], axes: list[int] | None
) -> None:
    x = numbers(1, channels, 12, 14)
    model = net([1, 12, 14], channels, how, wanted, axes)
    assert moves(model, x, precision="bf16") == 2
    steps = compile_model(model, precision="bf16").plan.steps
    converted = sum(step.operation.startswith("Convert") for step in steps)
    assert converted == 2  # where blocks begin and end


def test_open_sizes_that_scales_change() -> None:
    channels = 2 * WIDE
    model = net([None, None, None], channels, NEAREST, [2.0, 2.0], [2, 3])
    for size in (9, 1, 14):
        assert moves(model, numbers(2, channels, size, size + 3)) == 2


@pytest.mark.parametrize(
    ("how", "wanted", "axes"),
    [
        (NEAREST, [2.0, 1.0], [1, 2]),  # channels
        (NEAREST, [2.0, 1.0, 1.0, 2.0], None),  # images
        ({**NEAREST, "pads_begin": "0,0,1,0"}, [2.0, 2.0], [2, 3]),
    ],
)
def test_other_resizing_leaves_blocks(
    how: dict[str, str], wanted: list[float], axes: list[int] | None
) -> None:
    channels = 2 * WIDE
    b = uncork.Builder("net")
    pads = [0, 0, 1, 0] if "pads_begin" in how else [0]
    how = {name: value for name, value in how.items() if name != "pads_begin"}
    x = b.parameter("x", "f32", [1, channels, 14, 14])
    y = convolution(b, convolution(b, x, channels, channels), channels, channels)
    given = [b.constant(np.array(wanted, np.float32))]
    given += [] if axes is None else [b.constant(np.array(axes))]
    (y,) = b.add("Interpolate", 11, y, *given, pads_begin=pads, **how)
    made = channels * 2 if axes == [1, 2] else channels
    y = convolution(b, convolution(b, y, made, channels), channels, channels)
    b.result(y, "y")
    assert moves(b.model(), numbers(1, channels, 14, 14)) == 4


@pytest.mark.parametrize("kind", ["u8", "f16", "f32"])
@pytest.mark.parametrize("last", [1, 2, 3, 4, 6, 8, 16, 20])
def test_neighbours_that_stay_are_moved_together(kind: str, last: int) -> None:
    """Whatever number of channels comes last, also as a part of a larger tensor that begins at an
    odd place.
    """
    b = uncork.Builder("net")
    x = b.parameter("x", kind, [1, 2, 3, 5, last])
    first = [b.constant(np.array(bounds)) for bounds in ([1], [2], [1], [1])]
    (part,) = b.add("Slice", 8, x, *first)
    given = b.constant(np.array([2.0, 3.0], np.float32)), b.constant(np.array([2, 3]))
    (y,) = b.add("Interpolate", 11, part, *given, **NEAREST)
    b.result(y, "y")
    data = GENERATOR.integers(0, 200, (1, 2, 3, 5, last)).astype(
        {"u8": "u1", "f16": "f2"}.get(kind, "f4")
    )
    made = compile_model(b.model())(data)["y"]
    np.testing.assert_array_equal(made, data[:, 1:].repeat(2, 2).repeat(3, 3))
