"""Convolutions over blocks of channels in models: where layouts change, which way is taken, and
that the results are the layers'.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_for, compile_model
from uncork.ir.model import Source
from uncork.kernels.runtime.target import Target, host_target
from uncork.passes import block_candidates, block_choice

GENERATOR = np.random.default_rng(3)
#: As blocks are on the machine of the test: half of them is a block, too, where vectors are long.
WIDE = host_target().lanes


def numbers(*shape: int) -> np.ndarray:
    return (GENERATOR.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def convolution(
    b: uncork.Builder,
    x: Source,
    channels: int,
    outputs: int,
    taps: int = 3,
    stride: int = 1,
    **more: object,
) -> Source:
    around = {
        "strides": [stride] * 2,
        "dilations": [1, 1],
        "pads_begin": [taps // 2] * 2,
        "pads_end": [taps // 2] * 2,
        **more,
    }
    return b.add("Convolution", 1, x, b.constant(numbers(outputs, channels, taps, taps)), **around)[
        0
    ]


def block(b: uncork.Builder, x: Source, channels: int) -> Source:
    """Two convolutions and a residual sum."""
    (y,) = b.add(
        "ReLU",
        1,
        b.add(
            "Add", 1, convolution(b, x, channels, channels), b.constant(numbers(1, channels, 1, 1))
        )[0],
    )
    (y,) = b.add("Add", 1, convolution(b, y, channels, channels), x)
    return b.add("ReLU", 1, y)[0]


def residual_net(shape: Sequence[int | None], channels: int) -> uncork.Model:
    b = uncork.Builder("net")
    y = b.parameter("x", "f32", shape)
    for _ in range(3):
        y = block(b, y, channels)
    b.result(y, "y")
    return b.model()


def agree(model: uncork.Model, *arrays: np.ndarray, **options: object) -> list[str]:
    """The kernels of the steps, after both backends agreed on these arrays."""
    fast, slow = compile_model(model, **options), compile_model(model, backend="reference")
    for a, b in zip(fast(*arrays), slow(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * max(1.0, float(np.abs(b).max())))
    return [step.kernel for step in fast.plan.steps]


def test_layouts_change_at_the_borders_only() -> None:
    channels = 2 * WIDE
    model = residual_net([1, channels, 28, 28], channels)
    operations = [step.operation for step in compile_model(model).plan.steps]
    assert operations == ["ToBlocks-0", *["BlockedConvolution-0"] * 6, "FromBlocks-0"]
    kernels = agree(model, numbers(1, channels, 28, 28))
    assert [kernel[: len("winograd_4")] for kernel in kernels[1:-1]] == ["winograd_4"] * 6


@pytest.mark.parametrize(("size", "way"), [(14, "winograd_2"), (7, "dense"), (28, "winograd_4")])
def test_the_way_follows_the_size(size: int, way: str) -> None:
    channels = 4 * WIDE
    size = size * WIDE // 16  # shorter vectors pay for transformations of fewer pixels
    kernels = agree(
        residual_net([2, channels, size, size], channels), numbers(2, channels, size, size)
    )
    assert {kernel for kernel in kernels if not re.match(f"{way}|transpose", kernel)} == set()


@pytest.mark.parametrize("shape", [[1, 2 * WIDE, 18, 20], [None, 2 * WIDE, None, None]])
def test_transposed_convolutions_stay_in_blocks(shape: list[int | None]) -> None:
    """Of a size that is given by an input as of one that follows from attributes."""
    channels = 2 * WIDE
    b = uncork.Builder("net")
    y = convolution(b, b.parameter("x", "f32", shape), channels, channels)
    around = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    filters = b.constant(numbers(channels, channels, 4, 4) * 4)
    (y,) = b.add("ConvolutionBackpropData", 1, y, filters, **around)
    y = b.add("ReLU", 1, b.add("Add", 1, y, b.constant(numbers(1, channels, 1, 1)))[0])[0]
    y = convolution(b, y, channels, channels)
    if None not in shape:
        filters = b.constant(numbers(channels, channels, 2, 2) * 4)
        size = b.constant(np.array([2 * 36 + 1, 2 * 40]))
        (y,) = b.add(
            "ConvolutionBackpropData", 1, y, filters, size, strides=[2, 2], dilations=[1, 1]
        )
        y = convolution(b, y, channels, channels)
    b.result(y, "y")
    model = b.model()
    plan = compile_model(model).plan_for(x=[1, channels, 18, 20])
    operations = [step.operation for step in plan.steps]
    blocked = ["BlockedConvolution-0"] * (len(operations) - 2)
    assert operations == ["ToBlocks-0", *blocked, "FromBlocks-0"]
    agree(model, numbers(2 if None in shape else 1, channels, 18, 20))


def test_transposed_convolutions_that_see_no_tap_stay_outside() -> None:
    """Fewer taps than the stride, and dilated ones."""
    channels = 2 * WIDE
    for taps, dilation in ((1, 1), (2, 2)):
        b = uncork.Builder("net")
        y = convolution(b, b.parameter("x", "f32", [1, channels, 12, 12]), channels, channels)
        filters = b.constant(numbers(channels, channels, taps, taps))
        around = {"strides": [2, 2], "dilations": [dilation] * 2}
        (y,) = b.add("ConvolutionBackpropData", 1, y, filters, **around)
        b.result(convolution(b, y, channels, channels), "y")
        model = b.model()
        plan = compile_model(model).plan_for(x=[1, channels, 12, 12])
        assert "ConvolutionBackpropData-1" in [step.operation for step in plan.steps]
        agree(model, numbers(1, channels, 12, 12))


def test_exact_convolutions_make_every_product() -> None:
    channels = 4 * WIDE
    model = residual_net([1, channels, 28, 28], channels)
    kernels = agree(model, numbers(1, channels, 28, 28), exact_convolutions=True)
    assert not [kernel for kernel in kernels if "winograd" in kernel]


def test_exact_convolutions_reach_into_bodies() -> None:
    from uncork.ir.bodies import configure
    from uncork.ir.hints import Hints
    from uncork.ops.convolution import Convolution1

    model = residual_net([1, WIDE, 28, 28], WIDE)
    marked = [
        n.hints.direct_sums
        for n in configure(model, False, None, Hints(direct_sums=True)).nodes
        if isinstance(n.operation, Convolution1)
    ]
    assert marked == [True] * 6
    assert not any(n.hints.direct_sums for n in model.nodes)


def test_values_that_are_not_finite_are_the_references() -> None:
    channels = 2 * WIDE
    model = residual_net([1, channels, 28, 28], channels)
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    x = numbers(1, channels, 28, 28)
    x[0, 3, 9, 9], x[0, 0, 20, 3] = np.inf, np.nan
    np.testing.assert_array_equal(np.isfinite(fast(x)["y"]), np.isfinite(slow(x)["y"]))
    x = numbers(1, channels, 28, 28)
    np.testing.assert_allclose(fast(x)["y"], slow(x)["y"], rtol=1e-4, atol=1e-4)


def test_open_sizes() -> None:
    channels = 2 * WIDE
    fast = compile_model(model := residual_net([None, channels, None, None], channels))
    slow = compile_model(model, backend="reference")
    for shape in ((1, 28, 28), (2, 9, 33), (1, 1, 1), (3, 5, 2), (1, 60, 47)):
        x = numbers(shape[0], channels, *shape[1:])
        np.testing.assert_allclose(
            fast(x)["y"], slow(x)["y"], rtol=0, atol=2e-5 * max(1.0, float(np.abs(x).max()) * 10)
        )
    assert all(
        step.operation.endswith(("Blocks-0", "BlockedConvolution-0")) for step in fast.plan.steps
    )


def test_open_sizes_of_three_axes() -> None:
    """One plan for clips of every length, whose windows leave the data on all sides."""
    channels = 2 * WIDE
    b = uncork.Builder("clips")
    y = b.parameter("x", "f32", [None, channels, None, None, None])
    for taps, stride in (((3, 3, 3), 1), ((7, 1, 1), 2), ((1, 3, 3), 1), ((3, 3, 3), 2)):
        pads = [tap // 2 for tap in taps]
        around = {"strides": [stride, 1, 1], "pads_begin": pads, "pads_end": pads}
        filters = b.constant(numbers(channels, channels, *taps) / 10)
        (y,) = b.add("Convolution", 1, y, filters, dilations=[1, 1, 1], **around)
        (y,) = b.add("ReLU", 1, y)
        (y, _) = b.add(
            "MaxPool",
            8,
            y,
            kernel=[3, 2, 2],
            strides=[1, 1, 1],
            dilations=[1, 1, 1],
            pads_begin=[1, 0, 1],
            pads_end=[1, 1, 0],
        )
    b.result(y, "y")
    fast = compile_model(model := b.model())
    slow = compile_model(model, backend="reference")
    for shape in ((1, 4, 14, 15), (2, 1, 3, 8), (1, 9, 1, 1), (1, 5, 30, 2)):
        x = numbers(shape[0], channels, *shape[1:])
        expected = slow(x)["y"]
        np.testing.assert_allclose(
            fast(x)["y"], expected, rtol=0, atol=2e-5 * max(1.0, float(np.abs(expected).max()))
        )
    assert fast.plan.made == 1
    operations = [step.operation for step in fast.plan.steps]
    assert operations[1:-1] == ["BlockedConvolution-0", "BlockedPooling-0"] * 4


@pytest.mark.parametrize("depth", [None, 5])
def test_dilated_windows_of_clips_of_any_length(depth: int | None) -> None:
    """Most taps of most pixels are outside of the planes, of which only the call knows how many
    there are.
    """
    b = uncork.Builder("clips")
    y = b.parameter("x", "f32", [1, 2 * WIDE, depth, 14, 14])
    around = {"pads_begin": [1, 6, 6], "pads_end": [1, 6, 6], "dilations": [1, 6, 6]}
    for _ in range(2):
        filters = b.constant(numbers(2 * WIDE, 2 * WIDE, 3, 3, 3))
        (y,) = b.add("Convolution", 1, y, filters, strides=[1, 1, 1], **around)
    b.result(y, "y")
    assert any("dense" in kernel for kernel in agree(b.model(), numbers(1, 2 * WIDE, 5, 14, 14)))


def test_rows_of_any_length_are_computed_in_strips() -> None:
    """All pixels of 1x1 convolutions are one row. Where channels are many, the second-level cache
    holds a strip of it.
    """
    blocks = [8, 32, 8, 64, 8]
    filters = [
        numbers(outputs * WIDE, channels * WIDE, 1, 1)
        for channels, outputs in itertools.pairwise(blocks)
    ]
    b = uncork.Builder("long")
    y = b.parameter("x", "f32", [None, 8 * WIDE, None, None])
    plain = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    for matrix in filters:
        (y,) = b.add("Convolution", 1, y, b.constant(matrix), **plain)
    b.result(y, "y")
    found = compile_model(b.model(), threads=1)
    for images, rows, columns in [(1, 40, 40), (2, 21, 29), (1, 7, 7), (1, 1, 5), (3, 28, 2)]:
        data = numbers(images, 8 * WIDE, rows, columns)
        expected = data.astype(np.float64)
        for matrix in filters:
            expected = np.einsum("nchw,oc->nohw", expected, matrix[:, :, 0, 0])
        np.testing.assert_allclose(found(data)["y"], expected, atol=1e-5 * np.abs(expected).max())
    assert found.plan.made == 1
    assert all(step.kernel.startswith(("dense_", "transpose_")) for step in found.plan.steps)


@pytest.mark.parametrize("shape", [[2, None, None], [1, 20, 20]])
def test_mobile_blocks(shape: list[int | None]) -> None:
    """1x1, each channel for itself, 1x1, and a sum; blocks of half a vector where only these divide
    the channels.
    """
    wide, narrow = 6 * WIDE, WIDE + max(4, WIDE // 2) if WIDE > 8 else 3 * WIDE
    b = uncork.Builder("mobile")
    y = x = b.parameter("x", "f32", [shape[0], narrow, *shape[1:]])
    for stride in (1, 1, 2):
        (h,) = b.add("Clamp", 1, convolution(b, y, narrow, wide, 1), min=0.0, max=6.0)
        around = {
            "strides": [stride] * 2,
            "dilations": [1, 1],
            "pads_begin": [1, 1],
            "pads_end": [1, 1],
        }
        (h,) = b.add("GroupConvolution", 1, h, b.constant(numbers(wide, 1, 1, 3, 3)), **around)
        h = convolution(b, b.add("HSwish", 4, h)[0], wide, narrow, 1)
        y = b.add("Add", 1, h, y)[0] if stride == 1 else h
    b.result(y, "y")
    assert x is not y
    kernels = agree(b.model(), numbers(shape[0], narrow, *(n or 23 for n in shape[1:])))
    assert sum(kernel.startswith("depthwise") for kernel in kernels) == 3


@pytest.mark.parametrize("shape", [[1, 14, 14], [None, None, None]])
@pytest.mark.parametrize("members", [3 * WIDE // 2, 5 * WIDE // 4])
def test_groups_that_are_no_whole_blocks_stay_in_blocks(
    shape: list[int | None], members: int
) -> None:
    """1x1, groups that straddle blocks, 1x1, and a sum: the layout changes at both ends only."""
    wide = 4 * members
    b = uncork.Builder("groups")
    y = b.parameter("x", "f32", [shape[0], wide, *shape[1:]])
    for _ in range(2):
        (h,) = b.add("ReLU", 1, convolution(b, y, wide, wide, 1))
        around = {"strides": [1] * 2, "dilations": [1] * 2, "pads_begin": [1] * 2}
        filters = b.constant(numbers(4, members, members, 3, 3))
        (h,) = b.add("GroupConvolution", 1, h, filters, **around, pads_end=[1] * 2)
        y = b.add("Add", 1, convolution(b, h, wide, wide, 1), y)[0]
    b.result(y, "y")
    model = b.model()
    arrays = [numbers(n or 2, wide, h or 13, w or 17) for n, h, w in (shape, [1, 14, 14])]
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    for x in arrays:
        np.testing.assert_allclose(fast(x)["y"], slow(x)["y"], rtol=0, atol=1e-4)
    kernels = [step.kernel for step in fast.plan.steps]
    assert sum("_partial" in kernel for kernel in kernels) == 2
    assert sum(step.operation.endswith("Blocks-0") for step in fast.plan.steps) == 2


def test_one_convolution_that_is_little_work_stays_as_it_is() -> None:
    b = uncork.Builder("little")
    b.result(convolution(b, b.parameter("x", "f32", [1, WIDE, 30, 30]), WIDE, WIDE, 1), "y")
    (kernel,) = agree(b.model(), numbers(1, WIDE, 30, 30))
    assert kernel.startswith(("direct_convolution", "products"))


def test_transformed_filters_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    channels = 2 * WIDE
    one = 36 * channels * channels * 4
    monkeypatch.setattr(block_candidates, "_MOST_FILTERS", 3 * one + one // 2)
    kernels = agree(residual_net([1, channels, 28, 28], channels), numbers(1, channels, 28, 28))
    assert [
        sum(kernel.startswith(way) for kernel in kernels)
        for way in ("winograd_4", "winograd_2", "dense")
    ] == [3, 1, 2]


def test_infinite_filters_are_multiplied_with_the_padding() -> None:
    b = uncork.Builder("infinite")
    x = b.parameter("x", "f32", [1, WIDE, 28, 28])
    filters = numbers(WIDE, WIDE, 3, 3)
    filters[0, 0, 0, 0] = np.inf
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    (y,) = b.add("Convolution", 1, x, b.constant(filters), **around)
    b.result(y, "y")
    data = np.ones((1, WIDE, 28, 28), np.float32)
    fast, slow = (
        compile_model(b.model(), backend=backend)(data)["y"] for backend in ("cpu", "reference")
    )
    np.testing.assert_array_equal(np.isnan(fast), np.isnan(slow))


def test_results_and_other_readers_see_plain_tensors() -> None:
    channels = 2 * WIDE
    b = uncork.Builder("read")
    x = b.parameter("x", "f32", [1, channels, 28, 28])
    first = block(b, x, channels)
    second = block(b, first, channels)
    b.result(first, "first")
    b.result(
        b.add("ReduceMean", 1, second, b.constant(np.array([2, 3])), keep_dims=False)[0], "mean"
    )
    b.result(second, "second")
    agree(b.model(), numbers(1, channels, 28, 28))


TARGETS = {
    "avx2": Target.of("x86_64", "haswell", "+avx,+avx2,+fma,+f16c,+sse2"),
    "neon": Target.of("aarch64", "cortex-a76", "+neon"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_blocks_are_as_wide_as_vectors(name: str) -> None:
    """Plans for other processors: the block is their vector."""
    target = TARGETS[name]
    compiled = compile_for(residual_net([1, 16, 28, 28], 16), target, 1)
    (step, *_) = [s for s in compiled.plan.steps if s.operation.startswith("Blocked")]
    assert f"_{target.lanes}_{target.lanes}_2_" in step.kernel


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_random(data: st.DataObject) -> None:
    """Convolutions of all kinds after each other, with sums and other readers between."""
    b = uncork.Builder("random")
    size, images = data.draw(st.sampled_from([5, 14, 25])), data.draw(st.integers(1, 2))
    x = b.parameter("x", "f32", [images, WIDE, size, size])
    values = [(x, WIDE)]
    for number in range(data.draw(st.integers(2, 6))):
        value, channels = data.draw(st.sampled_from(values))
        kind = data.draw(st.sampled_from(["3x3", "1x1", "apart", "groups", "sum", "relu"]))
        if kind in ("3x3", "1x1"):
            outputs = data.draw(st.sampled_from([WIDE // 2, WIDE, 2 * WIDE, 3 * WIDE, 5]))
            values.append((convolution(b, value, channels, outputs, int(kind[0])), outputs))
        elif kind in ("apart", "groups"):
            around = {
                "strides": [1, 1],
                "dilations": [1, 1],
                "pads_begin": [1, 1],
                "pads_end": [1, 1],
            }
            of = (1, 2, 3, 4, 6, WIDE // 2) if kind == "groups" else (1,)
            members = data.draw(st.sampled_from([n for n in of if channels % n == 0]))
            values.append(
                (
                    b.add(
                        "GroupConvolution",
                        1,
                        value,
                        b.constant(numbers(channels // members, members, members, 3, 3)),
                        **around,
                    )[0],
                    channels,
                )
            )
        elif kind == "sum":
            other = data.draw(st.sampled_from([v for v, c in values if c == channels]))
            values.append((b.add("Add", 1, value, other)[0], channels))
        else:
            values.append((b.add("ReLU", 1, value)[0], channels))
        if data.draw(st.booleans()):
            b.result(values[-1][0], f"r{number}")
    b.result(values[-1][0], "last")
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr(block_choice, "TURNED", 1e9)
        agree(b.model(), numbers(images, WIDE, size, size))


def between(b: uncork.Builder, y: Source, channels: int) -> Source:
    """What stands between convolutions of many networks: pooling, a gate of each channel, a mean, a
    concatenation.
    """
    around = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "kernel": [3, 3]}
    (largest,) = b.add("MaxPool", 1, y, **around)
    (mean,) = b.add("AvgPool", 1, y, exclude_pad=True, **around)
    (gate,) = b.add(
        "Sigmoid", 1, b.add("ReduceMean", 1, y, b.constant(np.array([-1, -2])), keep_dims=True)[0]
    )
    (gated,) = b.add("Multiply", 1, y, gate)
    (shifted,) = b.add(
        "HSwish", 4, b.add("Add", 1, gated, b.constant(numbers(1, channels, 1, 1)))[0]
    )
    (halved,) = b.add("Multiply", 1, mean, b.constant(np.array([[[[0.5]]]], np.float32)))
    return b.add("Concat", 1, largest, shifted, halved, axis=-3)[0]


@pytest.mark.parametrize("shape", [[1, 2 * WIDE, 14, 14], [None, 2 * WIDE, None, None]])
def test_layers_between_convolutions_stay_in_blocks(shape: Sequence[int | None]) -> None:
    channels = 2 * WIDE
    b = uncork.Builder("net")
    y = convolution(b, b.parameter("x", "f32", shape), channels, channels)
    y = convolution(b, between(b, y, channels), 3 * channels, channels)
    b.result(convolution(b, y, channels, channels), "y")
    model = b.model()
    x = numbers(1, channels, 14, 14)
    agree(model, x)
    compiled = compile_model(model)
    compiled(x)
    operations = [step.operation for step in compiled.plan.steps]
    assert [
        operations.count(name) for name in ("ToBlocks-0", "FromBlocks-0", "BlockedPooling-0")
    ] == [1, 1, 2]


def cut(b: uncork.Builder, y: Source, channels: int) -> list[Source]:
    """Parts of channels in the ways that models name them, each of whole blocks."""
    along = b.constant(np.array(-3))
    first, rest = b.add("VariadicSplit", 1, y, along, b.constant(np.array([channels // 4, -1])))
    second, third, fourth = b.add("Split", 1, rest, b.constant(np.array(1)), num_splits=3)
    one = [b.constant(np.array([n])) for n in (-channels // 2, 2**31 - 1, 1, -3)]
    (behind,) = b.add("Slice", 8, y, *one)
    (sums,) = b.add("Concat", 1, b.add("Add", 1, first, third)[0], second, axis=1)
    return [sums, fourth, b.add("ReLU", 1, behind)[0]]


@pytest.mark.parametrize("shape", [[2, 4 * WIDE, 14, 14], [None, 4 * WIDE, None, None]])
def test_parts_of_channels_stay_in_blocks(shape: Sequence[int | None]) -> None:
    channels = 4 * WIDE
    b = uncork.Builder("net")
    y = convolution(b, b.parameter("x", "f32", shape), channels, channels)
    joined, last, half = cut(b, y, channels)
    y = b.add("Concat", 1, convolution(b, joined, 2 * WIDE, 2 * WIDE), last, half, axis=1)[0]
    b.result(convolution(b, y, 5 * WIDE, channels), "y")
    model = b.model()
    x = numbers(2, channels, 14, 14)
    agree(model, x)
    compiled = compile_model(model)
    compiled(x)
    operations = [step.operation for step in compiled.plan.steps]
    assert [operations.count(name) for name in ("ToBlocks-0", "FromBlocks-0")] == [1, 1]


@pytest.mark.parametrize(
    ("lengths", "bounds"),
    [([WIDE + 1, WIDE - 1], (1, WIDE + 1, 1, 1)), ([WIDE, WIDE], (0, 2 * WIDE, 2, 1))],
)
def test_parts_that_are_no_whole_blocks_are_cut_outside(
    lengths: list[int], bounds: tuple[int, ...]
) -> None:
    channels = 2 * WIDE
    b = uncork.Builder("net")
    y = convolution(b, b.parameter("x", "f32", [1, channels, 14, 14]), channels, channels)
    parts = b.add("VariadicSplit", 1, y, b.constant(np.array(1)), b.constant(np.array(lengths)))
    (some,) = b.add("Slice", 8, y, *[b.constant(np.array([n])) for n in bounds])
    (y,) = b.add("Concat", 1, some, *parts[::-1], axis=1)
    b.result(convolution(b, y, channels + WIDE, channels), "y")
    agree(b.model(), numbers(1, channels, 14, 14))


def test_what_blocks_cannot_hold_stays_outside() -> None:
    """Channels along another axis, an operand of pixels, parts that are no whole blocks."""
    channels = 2 * WIDE
    b = uncork.Builder("net")
    y = convolution(b, b.parameter("x", "f32", [1, channels, 14, 14]), channels, channels)
    (y,) = b.add("Multiply", 1, y, b.parameter("mask", "f32", [1, 1, 14, 14]))
    (y,) = b.add("Concat", 1, y, b.parameter("few", "f32", [1, 3, 14, 14]), axis=1)
    b.result(convolution(b, y, channels + 3, channels), "y")
    agree(b.model(), numbers(1, channels, 14, 14), numbers(1, 1, 14, 14), numbers(1, 3, 14, 14))


#: Channels that fill no blocks: with zeros they are few more.
UNEVEN = 4 * WIDE - 1


def in_and_out(model: uncork.Model, *arrays: np.ndarray, **options: object) -> list[int]:
    """How many steps bring data into blocks, out of them, and convolve in them."""
    agree(model, *arrays, **options)
    compiled = compile_model(model, **options)
    compiled(*arrays)
    operations = [step.operation for step in compiled.plan.steps]
    names = "ToBlocks-0", "FromBlocks-0", "BlockedConvolution-0"
    return [operations.count(name) for name in names]


@pytest.mark.parametrize("shape", [[2, UNEVEN, 28, 26], [None, UNEVEN, None, None]])
def test_zeros_fill_blocks(shape: Sequence[int | None]) -> None:
    x = numbers(2, UNEVEN, 28, 26)
    assert in_and_out(residual_net(shape, UNEVEN), x) == [1, 1, 6]


def test_zeros_stay_zeros_behind_layers_between() -> None:
    """Constants of each channel, gates and means, strided and depthwise convolutions."""
    b = uncork.Builder("net")
    y = convolution(b, b.parameter("x", "f32", [2, UNEVEN, 28, 28]), UNEVEN, UNEVEN)
    y = between(b, y, UNEVEN)
    filters = b.constant(numbers(3 * UNEVEN, 1, 1, 3, 3))
    around = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    (y,) = b.add("GroupConvolution", 1, y, filters, **around)
    (y,) = b.add("PReLU", 1, y, b.constant(numbers(3 * UNEVEN)))
    b.result(convolution(b, y, 3 * UNEVEN, UNEVEN), "y")
    into, out, convolved = in_and_out(b.model(), numbers(2, UNEVEN, 28, 28))
    assert (into, out) == (1, 1)
    assert convolved == 3


@pytest.mark.parametrize("shape", [[2, 4 * UNEVEN, 28, 28], [None, 4 * UNEVEN, None, None]])
@pytest.mark.parametrize("way", ["split", "slices"])
def test_parts_of_channels_begin_blocks(shape: Sequence[int | None], way: str) -> None:
    """As networks of parts do it: each is convolved with the sum so far, then all are joined."""
    channels = 4 * UNEVEN
    b = uncork.Builder("net")
    y = convolution(b, b.parameter("x", "f32", shape), channels, channels, 1)
    if way == "split":
        parts = b.add("Split", 1, y, b.constant(np.array(1)), num_splits=4)
    else:
        bounds = [(n * UNEVEN, (n + 1) * UNEVEN, 1, 1) for n in range(4)]
        slices = [[b.constant(np.array([n])) for n in bound] for bound in bounds]
        parts = [b.add("Slice", 8, y, *constants)[0] for constants in slices]
    done = [parts[0]]
    for part in parts[1:]:
        (so_far,) = b.add("Add", 1, part, done[-1])
        done.append(convolution(b, so_far, UNEVEN, UNEVEN))
    (y,) = b.add("Concat", 1, *done, axis=1)
    b.result(convolution(b, y, channels, channels, 1), "y")
    into, out, convolved = in_and_out(b.model(), numbers(2, channels, 28, 28))
    assert (into, out) == (1, 1)
    assert convolved >= 3


@pytest.mark.parametrize("kind", ["f16", "i8"])
def test_stored_filters_with_zeros(kind: str) -> None:
    b = uncork.Builder("net")
    y = b.parameter("x", "f32", [1, UNEVEN, 28, 28])
    around = {"dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    for stride in (2, 2):
        values = GENERATOR.integers(-99, 99, (UNEVEN, UNEVEN, 3, 3))
        stored = b.constant((values / 999).astype(np.float16) if kind == "f16" else values, kind)
        (filters,) = b.add("Convert", 1, stored, destination_type="f32")
        if kind == "i8":
            scales = numbers(UNEVEN, 1, 1, 1) / 99
            (filters,) = b.add("Multiply", 1, filters, b.constant(scales))
        (y,) = b.add("Convolution", 1, y, filters, strides=[stride] * 2, **around)
        (y,) = b.add("Add", 1, y, b.constant(numbers(1, UNEVEN, 1, 1)))
    b.result(y, "y")
    assert in_and_out(b.model(), numbers(1, UNEVEN, 28, 28)) == [1, 1, 2]


@pytest.mark.parametrize(
    "layers",
    [
        ["Log"],
        ["Divide by itself"],
        ["Divide by constants"],
        ["Exp"] * 4,
        ["Multiply by an input"],
        ["Power"],
    ],
    ids=" ".join,
)
def test_what_may_make_infinities_of_zeros_keeps_blocks_full(layers: list[str]) -> None:
    """Zeros of filters times an infinity would be no number."""
    b = uncork.Builder("net")
    arrays = [np.abs(numbers(1, UNEVEN, 28, 28))]
    x = b.parameter("x", "f32", [1, UNEVEN, 28, 28])
    filters = b.constant(np.abs(numbers(UNEVEN, UNEVEN, 3, 3)))
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    (y,) = b.add("Convolution", 1, x, filters, **around)
    for layer in layers:
        if layer == "Divide by itself":
            (y,) = b.add("Divide", 1, y, y)
        elif layer == "Divide by constants":
            (y,) = b.add("Divide", 1, y, b.constant(np.abs(numbers(1, UNEVEN, 1, 1)) + 1))
        elif layer == "Multiply by an input":
            (y,) = b.add("Multiply", 1, y, b.parameter("s", "f32", [1, 1, 1, 1]))
            arrays.append(numbers(1, 1, 1, 1))
        elif layer == "Power":
            (y,) = b.add("Power", 1, y, b.constant(np.full((1, 1, 1, 1), -1, np.float32)))
        else:
            (y,) = b.add(layer, 1, y)
    if layers[0] == "Exp":
        (y,) = b.add("Log", 1, b.add("Log", 1, b.add("Log", 1, y)[0])[0])
    b.result(convolution(b, y, UNEVEN, UNEVEN), "y")
    agree(b.model(), *arrays)
