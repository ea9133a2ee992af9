"""Filters of convolutions in the forms that people store them in: what stays as it is stored, and
that results are those of the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels.test_convolution import by_formula
from uncork.compiler.compile import compile_model
from uncork.internal_ops.blocks import BlockedConvolution
from uncork.ir.model import Model, Source
from uncork.kernels.runtime.target import host_target
from uncork.ops.parameter import Const
from uncork.passes import pipeline

CHANNELS = 96


class Net:
    """Two convolutions by stored filters, with what they stand for by the formula of the layers."""

    def __init__(self, kind: str, sizes: Sequence[int | None], taps: int = 3, add: bool = False):
        self.generator = np.random.default_rng(taps)
        self.kind, self.taps, self.filters = kind, taps, list[np.ndarray]()
        self.builder = b = uncork.Builder("net")
        images = 1 if None not in sizes else None
        x = b.parameter("x", "f32", [images, CHANNELS, *sizes])
        y = self.convolution(x)
        (y,) = b.add("ReLU", 1, y)
        y = self.convolution(y)
        if add:
            (y,) = b.add("Add", 1, y, self.convolution(x))
        b.result(y, "y")

    def convolution(self, x: Source) -> Source:
        b, pad = self.builder, [self.taps // 2] * 2
        (y,) = b.add(
            "Convolution",
            1,
            x,
            self.stored(),
            strides=[1, 1],
            dilations=[1, 1],
            pads_begin=pad,
            pads_end=pad,
        )
        return y

    def stored(self) -> Source:
        b, shape = self.builder, (CHANNELS, CHANNELS, self.taps, self.taps)
        if self.kind == "f16":
            half = (self.generator.standard_normal(shape) / 32).astype(np.float16)
            self.filters.append(half.astype(np.float32))
            (made,) = b.add("Convert", 1, b.constant(half), destination_type="f32")
            return made
        codes = self.generator.integers(0, 256, shape).astype(np.uint8)
        zeros = self.generator.integers(100, 150, (CHANNELS, 1, 1, 1)).astype(np.uint8)
        scales = (self.generator.random((CHANNELS, 1, 1, 1)) / 1000).astype(np.float16)
        numbers = (codes.astype(np.float16) - zeros.astype(np.float16)) * scales
        self.filters.append(numbers.astype(np.float32))
        (made,) = b.add("Convert", 1, b.constant(codes, "u8"), destination_type="f16")
        (zero,) = b.add("Convert", 1, b.constant(zeros, "u8"), destination_type="f16")
        (made,) = b.add("Subtract", 1, made, zero)
        (made,) = b.add("Multiply", 1, made, b.constant(scales))
        (made,) = b.add("Convert", 1, made, destination_type="f32")
        return made

    def expected(self, x: np.ndarray) -> np.ndarray:
        def convolved(data: np.ndarray, filters: np.ndarray) -> np.ndarray:
            pad = (self.taps // 2,) * 2
            return by_formula(data, filters[np.newaxis], (1, 1), (1, 1), pad, x.shape[2:])

        y = convolved(np.maximum(convolved(x, self.filters[0]), 0), self.filters[1])
        return y + convolved(x, self.filters[2]) if len(self.filters) > 2 else y

    def data(self, *sizes: int) -> np.ndarray:
        return self.generator.standard_normal((1, CHANNELS, *sizes)).astype(np.float32)


def passed(model: Model) -> Model:
    """The model as kernels are selected for it."""
    options = pipeline.Options(host_target())
    for passes in (pipeline.ON_LOAD, pipeline.WITH_SIZES):
        model = pipeline.apply_passes(passes, model, options)
    return model


def close(found: np.ndarray, expected: np.ndarray) -> None:
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * scale)


@pytest.mark.parametrize("kind", ["u8", "f16"])
@pytest.mark.parametrize("sizes", [(7, 9), (None, None)])
@pytest.mark.parametrize("threads", [1, 2])
def test_results(kind: str, sizes: Sequence[int | None], threads: int) -> None:
    net = Net(kind, sizes)
    x = net.data(7, 9)
    compiled = compile_model(net.builder.model(), threads=threads)
    close(compiled(x)["y"], net.expected(x))
    reference = compile_model(net.builder.model(), backend="reference")
    close(reference(x)["y"], net.expected(x))


@pytest.mark.parametrize("kind", ["u8", "f16"])
@pytest.mark.parametrize("taps", [1, 5])
def test_no_number_of_a_filter_is_made(kind: str, taps: int) -> None:
    """Where sums are direct: filters of single pixels, too, stay in blocks."""
    net = Net(kind, (7, 7), taps)
    model = net.builder.model()
    planned = passed(model)
    blocked = [n.operation for n in planned.nodes if isinstance(n.operation, BlockedConvolution)]
    assert len(blocked) == 2
    assert all(operation.stored is not None for operation in blocked)
    assert not made(planned)
    compiled = compile_model(model)
    x = net.data(7, 7)
    close(compiled(x)["y"], net.expected(x))
    notes = [step.note for step in compiled.plan.steps if "onvolution" in step.operation]
    assert notes == [f"filters in {kind}{' by f16' if kind == 'u8' else ''}"] * 2


def made(model: Model) -> list[str]:
    """Constants of f32 as large as filters."""
    return [
        node.name
        for node in model.nodes
        if isinstance(node.operation, Const)
        and node.operation.element_type is uncork.ElementType.f32
        and node.operation.count >= CHANNELS * CHANNELS
    ]


def test_rounded_rows_multiply_single_pixels_as_codes() -> None:
    """Whole numbers are products of rows: what the caller allows them for goes there."""
    net = Net("u8", (7, 7), 1)
    compiled = compile_model(net.builder.model(), decompression="f32", activations="i8")
    kinds = {step.operation for step in compiled.plan.steps}
    assert any("CompressedLinear" in kind for kind in kinds), kinds


def test_a_sum_of_branches_is_one_convolution() -> None:
    """Filters that are added up are numbers."""
    net = Net("u8", (7, 7), 3)
    b, generator = uncork.Builder("branches"), net.generator
    net.builder = b
    net.filters.clear()
    x = b.parameter("x", "f32", [1, CHANNELS, 7, 7])
    (y,) = b.add("Add", 1, net.convolution(x), net.convolution(x))
    b.result(y, "y")
    compiled = compile_model(b.model())
    data = generator.standard_normal((1, CHANNELS, 7, 7)).astype(np.float32)
    whole = (net.filters[0] + net.filters[1])[np.newaxis]
    close(compiled(data)["y"], by_formula(data, whole, (1, 1), (1, 1), (1, 1), (7, 7)))
    convolutions = [s for s in compiled.plan.steps if "Convolution" in s.operation]
    assert len(convolutions) == 1


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("kind", ["f16", "u8"])
def test_filters_that_are_not_finite_meet_the_padding(kind: str, bad: float) -> None:
    """An infinity times the zeros around the data is NaN: such filters are numbers, as ever."""
    b, generator = uncork.Builder("bad"), np.random.default_rng(1)
    x = b.parameter("x", "f32", [1, CHANNELS, 7, 7])
    shape = (CHANNELS, CHANNELS, 3, 3)
    if kind == "f16":
        half = generator.standard_normal(shape).astype(np.float16)
        half[3, 4, 1, 1] = bad
        (w,) = b.add("Convert", 1, b.constant(half), destination_type="f32")
        numbers = half.astype(np.float32)
    else:
        codes = generator.integers(1, 256, shape).astype(np.uint8)
        scales = np.full((CHANNELS, 1, 1, 1), 0.01, np.float32)
        scales[3] = bad
        (w,) = b.add("Convert", 1, b.constant(codes, "u8"), destination_type="f32")
        (w,) = b.add("Multiply", 1, w, b.constant(scales))
        numbers = codes * scales
    given = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    b.result(b.add("Convolution", 1, x, w, **given)[0], "y")
    data = generator.standard_normal((1, CHANNELS, 7, 7)).astype(np.float32)
    found = compile_model(b.model())(data)["y"]
    around = np.pad(data, [(0, 0), (0, 0), (1, 1), (1, 1)])
    with np.errstate(all="ignore"):
        expected = by_formula(around, numbers[np.newaxis], (1, 1), (1, 1), (0, 0), (7, 7))
    assert (np.isfinite(found) == np.isfinite(expected)).all()
    good = np.isfinite(expected)
    np.testing.assert_allclose(found[good], expected[good], rtol=0, atol=1e-2)


def test_codes_that_somebody_else_reads_are_numbers() -> None:
    net = Net("f16", (7, 7))
    b = net.builder = uncork.Builder("shared")
    net.filters.clear()
    x = b.parameter("x", "f32", [1, CHANNELS, 7, 7])
    filters = net.stored()
    given = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    b.result(b.add("Convolution", 1, x, filters, **given)[0], "y")
    b.result(filters, "filters")
    data = net.data(7, 7)
    found = compile_model(b.model())(data)
    np.testing.assert_array_equal(found["filters"], net.filters[0])
    close(
        found["y"],
        by_formula(data, net.filters[0][np.newaxis], (1,) * 2, (1,) * 2, (1,) * 2, (7, 7)),
    )


@pytest.mark.parametrize("kind", ["u8", "f16"])
def test_a_file_of_plans_has_the_codes(kind: str, tmp_path: Path) -> None:
    """No larger than what the model has, by more than tables and kernels."""
    net = Net(kind, (7, 9))
    path = tmp_path / "net.uncork"
    uncork.write_model(net.builder.model(), tmp_path / "net.xml")
    uncork.compile_to(tmp_path / "net.xml", path)
    x = net.data(7, 9)
    close(uncork.load(path)(x)["y"], net.expected(x))
