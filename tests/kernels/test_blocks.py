"""Convolutions over blocks of channels in every way that kernels go, against the formula, between
forbidden pages.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._fences import run_fenced
from tests.kernels._run import spec_of
from tests.kernels.test_convolution import by_formula, numbers
from tests.kernels.test_convolution import spread as transposed_by_formula
from uncork.internal_ops.blocks import (
    BlockedConvolution,
    ChannelLayout,
    FromBlocks,
    ToBlocks,
    from_blocks,
    to_blocks,
)
from uncork.internal_ops.fused import FusedConvolution, FusedMember
from uncork.internal_ops.held import HALF
from uncork.ir.hints import NO_HINTS, Hints
from uncork.kernels.convolution.spec_blocks import Dense
from uncork.kernels.convolution.tiles import (
    CHOSEN,
    KIND_BITS,
    blocks_together,
    next_tiles,
    runs_of_sets,
    widths_of,
)
from uncork.kernels.epilogue import PLAIN
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import LEVELS, Target, host_target, lacking
from uncork.kernels.select import select_kernel
from uncork.kernels.stored_types import multiplies_pairs
from uncork.ops import Operation, find
from uncork.storage import decode, encode
from uncork.symbolic import Facts, Origin, Size
from uncork.types import ElementType, TensorSpec

LANES = host_target().lanes
BLOCKS = [LANES] if LANES < 16 else [16, 8]
#: The types of data, filters and sizes.
_KINDS = ElementType.f32, ElementType.f32, ElementType.i64
#: Channels of a block of two vectors.
LONG = 2 * LANES


def run(
    operation: Operation,
    arrays: Sequence[np.ndarray],
    expected: np.ndarray,
    threads: Sequence[int] = (1,),
    tolerance: float = 2e-5,
    hints: Hints = NO_HINTS,
) -> KernelPlan:
    specs = [spec_of(array, ElementType.f32) for array in arrays]
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    chosen = select_kernel(operation, specs, outputs, host_target(), hints)
    assert isinstance(chosen, KernelPlan), chosen
    scale = max(1.0, float(np.abs(expected).max()))
    for count, first in itertools.product(threads, (False, True)):
        results = run_fenced(chosen, specs, outputs, first, count)
        assert results is not None
        np.testing.assert_allclose(results[0], expected, rtol=0, atol=tolerance * scale)
    return chosen


def convolved(
    data: Sequence[int],
    filters: Sequence[int],
    blocks: tuple[int, int],
    *,
    strides=(1, 1),
    dilations=(1, 1),
    begin=(0, 0),
    end=(0, 0),
    side: int = 0,
    ended: bool = False,
    threads: Sequence[int] = (1, 2),
) -> KernelPlan:
    """A convolution of random numbers over blocks, held against the formula; `filters [G, O, C,
    ..]`, `ended` by much.
    """
    around = (strides, dilations, begin, end)
    blocked, arrays, expected = described(data, filters, blocks, around, side, ended)
    if multiplies_pairs(host_target()):
        in_halves(blocked, arrays)
    return run(blocked, arrays, to_blocks(expected, blocks[1]), threads)


def described(
    data: Sequence[int],
    filters: Sequence[int],
    blocks: tuple[int, int],
    around: Sequence[Sequence[int]] = ((1, 1), (1, 1), (0, 0), (0, 0)),
    side: int = 0,
    ended: bool = False,
) -> tuple[BlockedConvolution, list[np.ndarray], np.ndarray]:
    """A convolution of random numbers, its inputs, and what it gives by the formula, not in blocks;
    `around` are strides, dilations and zeros before and behind the data.
    """
    strides, dilations, begin, end = around
    generator = np.random.default_rng(sum(data) + sum(filters))
    x, w = numbers(generator, *data), numbers(generator, *filters)
    operation = find("GroupConvolution" if filters[0] > 1 else "Convolution", 1)(
        strides=strides, dilations=dilations, pads_begin=begin, pads_end=end
    )
    counts = [
        (n + b + e - (k - 1) * d - 1) // s + 1
        for n, b, e, k, d, s in zip(
            data[2:], begin, end, filters[3:], dilations, strides, strict=True
        )
    ]
    expected = by_formula(x, w, strides, dilations, begin, counts)
    arrays = [to_blocks(x, blocks[0]), w if filters[0] > 1 else w[0]]
    lies = [True, False]
    whole: Operation = operation
    if ended:
        bias, other = (
            numbers(generator, 1, filters[0] * filters[1], *[1] * len(counts)),
            numbers(generator, *expected.shape),
        )
        like = len(counts) <= 2  # no other tensor ends results of three axes
        if not like:
            other = numbers(generator, *bias.shape)
        members = [FusedMember(find("Add", 1)(), (0, 1)), FusedMember(find("Add", 1)(), (4, 2))]
        members += [
            FusedMember(find("Multiply", 1)(), (5, 3)),
            FusedMember(find("ReLU", 1)(), (6,)),
        ]
        whole = FusedConvolution(operation, 2, members)
        expected = np.maximum((expected + bias + other) * 0.5, 0)
        arrays += [bias, to_blocks(other, blocks[1]) if like else other]
        arrays += [np.array([0.5], np.float32)]
        lies += [False, like, False]
    return BlockedConvolution(whole, lies, blocks[1], side=side), arrays, expected


def in_halves(
    operation: BlockedConvolution, arrays: Sequence[np.ndarray], target: Target | None = None
) -> KernelPlan | None:
    """The same over blocks of bf16: of numbers that are bf16 already, as f32 has it but for the
    rounding of results and of transformed numbers. None where no kernel does that.
    """
    target = target or host_target()
    held = operation.replace(half=True)
    lies = [*operation.lies]
    given = [
        encode(array, HALF) if inside else array for array, inside in zip(arrays, lies, strict=True)
    ]
    specs = [
        spec_of(array, HALF if inside else ElementType.f32)
        for array, inside in zip(given, lies, strict=True)
    ]
    outputs = [TensorSpec(o.element_type, o.shape) for o in held.describe(specs)]
    chosen = select_kernel(held, specs, outputs, target)
    if isinstance(chosen, str):
        # Of one pixel what is added is taken for numbers of channels.
        assert chosen in (
            "no kernel in bf16 for steps of an odd number of channels",
            "no kernel for channels in bf16 at the end of a convolution",
        )
        return None
    # Filters are rounded where numbers are multiplied in pairs and not transformed before.
    rounded = not operation.side and not chosen.kernel.startswith("depthwise")
    arrays = [decode(a, HALF) if a.dtype == np.uint16 else a for a in given]
    if rounded:
        arrays[1] = decode(encode(arrays[1], HALF), HALF)
    (exact,) = operation.evaluate([spec_of(array, ElementType.f32) for array in arrays])
    expected = np.asarray(exact.value)
    results = run_fenced(chosen, specs, outputs, False, 2, target)
    assert results is not None
    last = 2e-2 if operation.side == 2 else 2e-5
    scale = max(1.0, float(np.abs(expected).max()))
    error = np.abs(decode(results[0], HALF) - expected)
    assert (error <= np.abs(expected) * 2**-8 + last * scale).all()
    return chosen


@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize("columns", [1, 7, 14, 29])
@pytest.mark.parametrize("stride", [1, 2])
def test_groups_that_are_blocks(block: int, columns: int, stride: int) -> None:
    """Such channels of bf16 are multiplied in pairs, as those of one group."""
    shapes = (2, 3 * block, 5, columns), (3, block, block, 3, 3)
    around = ((stride, stride), (1, 1), (1, 1), (1, 1))
    if block in BLOCKS:
        convolved(*shapes, (block, block), strides=around[0], begin=(1, 1), end=(1, 1), ended=True)
    blocked, arrays, _ = described(*shapes, (block, block), around, ended=True)
    if multiplies_pairs(host_target()):
        plan = in_halves(blocked, arrays)
        assert plan is not None and plan.kernel.startswith("dense")


@pytest.mark.parametrize("blocks", list(itertools.product(BLOCKS, BLOCKS)))
@pytest.mark.parametrize("columns", [1, 3, 7, 14, 15, 17, 29])
def test_widths_around_tiles(blocks: tuple[int, int], columns: int) -> None:
    convolved(
        (2, 2 * blocks[0], 2, columns), (1, 3 * blocks[1], 2 * blocks[0], 1, 1), blocks, ended=True
    )
    convolved(
        (2, blocks[0], 3, columns),
        (1, 2 * blocks[1], blocks[0], 3, 3),
        blocks,
        begin=(1, 1),
        end=(1, 1),
        ended=True,
    )


@pytest.mark.parametrize("blocks", [(LONG, LONG), (LONG, LANES), (LANES, LONG)])
@pytest.mark.parametrize("columns", [1, 15, 29])
def test_blocks_of_two_vectors(blocks: tuple[int, int], columns: int) -> None:
    """Dense ones, within the data and around them, groups of whole blocks and such that begin
    within one.
    """
    inner, lanes = blocks
    around = {"begin": (1, 1), "end": (1, 1), "ended": True}
    convolved((2, 2 * inner, 2, columns), (1, 3 * lanes, 2 * inner, 1, 1), blocks, ended=True)
    convolved((2, inner, 3, columns), (1, 2 * lanes, inner, 3, 3), blocks, **around)
    convolved((1, 2 * inner, 3, columns), (2, lanes, inner, 3, 3), blocks, **around)
    parts = (2, lanes * 3 // 2, inner * 3 // 2, 3, 3)
    convolved((2, 3 * inner, 4, columns), parts, blocks, **around, strides=(2, 1))


@pytest.mark.parametrize("members", [1, 2, 8, 16])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("columns", [3, 21])
def test_groups_within_blocks_of_two_vectors(members: int, stride: int, columns: int) -> None:
    filters = (3 * LONG // members, members, members, 3, 3)
    around = {"strides": (stride,) * 2, "begin": (1, 1), "end": (2, 2), "ended": True}
    convolved((2, 3 * LONG, 5, columns), filters, (LONG, LONG), **around)


@pytest.mark.parametrize("channels", [2, 4, 6])
@pytest.mark.parametrize(("taps", "stride"), [(1, 1), (3, 1), (7, 2), (4, 4)])
@pytest.mark.parametrize("columns", [1, 13, 30])
def test_data_of_few_channels(channels: int, taps: int, stride: int, columns: int) -> None:
    """The only block of the data is as long as they are few: a row of taps is one step."""
    b = BLOCKS[0]
    chosen = convolved(
        (2, channels, 9, columns + 3),
        (1, 3 * b, channels, taps, min(taps, columns)),
        (channels, b),
        strides=(stride,) * 2,
        begin=(taps // 2, min(taps, columns) // 2),
        end=(taps // 2, min(taps, columns) // 2),
        ended=True,
    )
    steps = {spec.inner for spec, _ in chosen.calls if isinstance(spec, Dense)}
    assert steps == {channels * min(taps, columns)}


def test_few_channels_of_dilated_windows() -> None:
    b = BLOCKS[0]
    around = {"dilations": (2, 2), "begin": (2, 2), "end": (2, 2), "ended": True}
    chosen = convolved((1, 4, 9, 11), (1, 2 * b, 4, 3, 3), (4, b), **around)
    assert {spec.inner for spec, _ in chosen.calls if isinstance(spec, Dense)} == {4}


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("pixels", [(1, 1), (2, 3), (5, 17), (40, 33)])
@pytest.mark.parametrize("images", [1, 3])
def test_blocks_with_zeros(channels: int, pixels: tuple[int, int], images: int) -> None:
    block = channels + 1
    data = numbers(np.random.default_rng(channels), images, channels, *pixels)
    expected = np.zeros((images, 1, *pixels, block), np.float32)
    expected[:, 0, :, :, :channels] = np.moveaxis(data, 1, -1)
    layout = ChannelLayout(block, (channels,))
    assert np.array_equal(layout.laid(data), expected)
    run(ToBlocks(layout=layout), [data], expected, threads=(1, 3), tolerance=0)
    run(FromBlocks(layout=layout), [expected], data, threads=(1, 3), tolerance=0)


@pytest.mark.parametrize("runs", [(5,), (16, 3), (3, 40, 1), (8, 8, 7), (1, 1, 1), (33, 32)])
@pytest.mark.parametrize("pixels", [(1, 1), (2, 3), (5, 17)])
@pytest.mark.parametrize("block", [4, 8, 16])
def test_runs_of_channels(runs: tuple[int, ...], pixels: tuple[int, int], block: int) -> None:
    """Each run begins a block: written down run by run, beside what both directions make."""
    data = numbers(np.random.default_rng(block), 2, sum(runs), *pixels)
    parts = []
    for part in np.split(data, np.cumsum(runs)[:-1], axis=1):
        count = -(-part.shape[1] // block)
        zeros = np.zeros((2, count * block - part.shape[1], *pixels), np.float32)
        whole = np.concatenate([part, zeros], axis=1).reshape(2, count, block, *pixels)
        parts.append(whole.transpose(0, 1, 3, 4, 2))
    expected = np.ascontiguousarray(np.concatenate(parts, axis=1))
    layout = ChannelLayout(block, runs)
    assert np.array_equal(layout.laid(data), expected)
    run(ToBlocks(layout=layout), [data], expected, threads=(1, 3), tolerance=0)
    run(FromBlocks(layout=layout), [expected], data, threads=(1, 3), tolerance=0)


#: Ends that are computed with fewer digits where results are rounded to bf16.
ROUGH = ("HSigmoid-5", "HSwish-4", "Mish-4", "Sigmoid-1", "Swish-4", "Tanh-1")


@pytest.mark.skipif(not multiplies_pairs(host_target()), reason="no products of bf16")
@pytest.mark.parametrize("name", ROUGH)
@pytest.mark.parametrize("way", ["direct", "by tiles", "apart"])
def test_rough_ends(name: str, way: str) -> None:
    """In each way that convolutions over blocks go."""
    b = BLOCKS[0]
    filters = (2 * b, 1, 1, 3, 3) if way == "apart" else (1, 2 * b, 2 * b, 3, 3)
    side = 2 if way == "by tiles" else 0
    around = ((1, 1), (1, 1), (1, 1), (1, 1))
    plain, arrays, _ = described((1, 2 * b, 5, 9), filters, (b, b), around, side)
    # Sums around 1: of larger ones tiles round more than functions that end at 1 may be off.
    arrays[1] /= np.float32(np.sqrt(np.prod(filters[2:])))
    type_name, opset = name.split("-")
    members = [FusedMember(find(type_name, int(opset))(), (0,))]
    fused = FusedConvolution(plain.operation, 2, members)
    chosen = in_halves(plain.replace(operation=fused), arrays)
    assert chosen is not None
    ends = {op.op for spec, _ in chosen.calls for op in getattr(spec, "end", PLAIN).ops}
    assert f"rough_{type_name.lower()}" in ends


@pytest.mark.parametrize("blocks", list(itertools.product(BLOCKS, BLOCKS)))
@pytest.mark.parametrize(
    ("strides", "taps", "begin", "more"),
    [
        ((2, 2), (2, 2), (0, 0), (0, 0)),
        ((2, 2), (4, 4), (1, 1), (0, 0)),
        ((2, 3), (3, 5), (1, 2), (1, 1)),
        ((1, 2), (3, 3), (2, 0), (0, 1)),
        ((1, 1), (3, 3), (1, 1), (0, 0)),
    ],
)
@pytest.mark.parametrize("columns", [1, 5, 17])
def test_transposed(
    blocks: tuple[int, int],
    strides: tuple[int, int],
    taps: tuple[int, int],
    begin: tuple[int, int],
    more: tuple[int, int],
    columns: int,
) -> None:
    """Each remainder of places by the strides is a convolution of its own."""
    inner, lanes = blocks
    operation = find("ConvolutionBackpropData", 1)(
        strides=strides,
        dilations=(1, 1),
        pads_begin=begin,
        pads_end=(0, 1),
        output_padding=more,
    )
    generator = np.random.default_rng(columns)
    x = numbers(generator, 2, 2 * inner, 3, columns)
    w = numbers(generator, 1, 2 * inner, 3 * lanes, *taps)
    sizes = zip((3, columns), taps, strides, begin, (0, 1), more, strict=True)
    counts = [(n - 1) * s + k + m - b - e for n, k, s, b, e, m in sizes]
    expected = transposed_by_formula(x, w, strides, (1, 1), begin, counts)
    bias, other = numbers(generator, 1, 3 * lanes, 1, 1), numbers(generator, *expected.shape)
    members = [FusedMember(find("Add", 1)(), (0, 1)), FusedMember(find("Add", 1)(), (3, 2))]
    whole = FusedConvolution(operation, 2, [*members, FusedMember(find("ReLU", 1)(), (4,))])
    arrays = [to_blocks(x, inner), w[0], bias, to_blocks(other, lanes)]
    blocked = BlockedConvolution(whole, (True, False, False, True), lanes)
    if multiplies_pairs(host_target()):
        in_halves(blocked, arrays)
    expected = np.maximum(expected + bias + other, 0)
    run(blocked, arrays, to_blocks(expected, lanes), (1, 2))


def test_transposed_groups_and_sizes_of_the_call() -> None:
    """Groups that begin within a block, three axes, and a size that is an input."""
    b, generator = BLOCKS[0], np.random.default_rng(1)
    strides, ones = (1, 2, 2), (1, 1, 1)
    operation = find("GroupConvolutionBackpropData", 1)(strides=strides, dilations=ones)
    x, w = numbers(generator, 1, 3 * b, 2, 3, 5), numbers(generator, 2, 3 * b // 2, b, 2, 2, 3)
    counts = (3, 5, 12)
    begins = (0, 0, 0)  # (1 + 2, 4 + 2, 8 + 3) cells are reached: one row less, one column more
    expected = transposed_by_formula(x, w, strides, ones, begins, counts)
    blocked = BlockedConvolution(operation, (True, False, False), b)
    arrays = [to_blocks(x, b), w, np.array(counts)]
    specs = [spec_of(a, kind) for a, kind in zip(arrays, _KINDS, strict=True)]
    outputs = [TensorSpec(o.element_type, o.shape) for o in blocked.describe(specs)]
    chosen = select_kernel(blocked, specs, outputs, host_target())
    assert isinstance(chosen, KernelPlan), chosen
    results = run_fenced(chosen, specs, outputs, False, 2)
    assert results is not None
    np.testing.assert_allclose(results[0], to_blocks(expected, b), rtol=0, atol=2e-4)


@pytest.mark.parametrize("members", [1, 4])
def test_transposed_groups_within_blocks(members: int) -> None:
    """At stride 1: filters the other way round."""
    b, generator = BLOCKS[0], np.random.default_rng(2)
    around = {"strides": (1, 1), "dilations": (2, 1), "pads_begin": (1, 1), "pads_end": (0, 1)}
    operation = find("GroupConvolutionBackpropData", 1)(**around)
    x, w = (
        numbers(generator, 2, 2 * b, 5, 7),
        numbers(generator, 2 * b // members, *[members] * 2, 3, 2),
    )
    expected = transposed_by_formula(x, w, (1, 1), (2, 1), (1, 1), (8, 6))
    arrays = [to_blocks(x, b), w]
    chosen = run(BlockedConvolution(operation, (True, False), b), arrays, to_blocks(expected, b))
    assert chosen.kernel.startswith("depthwise")


def test_tiles_of_a_row_whose_length_the_call_tells() -> None:
    """Fewer than four pixels take as long as four: 16 are two tiles of 8, not 14 and 2."""
    widths = (14, 8, 7, 4, 2, 1)
    tiles = next_tiles(widths)

    def parts(left: int) -> list[int]:
        found: list[int] = []
        while left:
            kind = tiles >> KIND_BITS * left & (1 << KIND_BITS) - 1 if left <= CHOSEN else 0
            found.append(widths[kind])
            left -= found[-1]
        return found

    by_hand = {
        1: [1], 3: [2, 1], 4: [4], 7: [7], 8: [8], 10: [8, 2], 13: [7, 4, 2], 15: [8, 7],
        16: [8, 8], 18: [14, 4], 20: [8, 8, 4], 28: [14, 14],
    }  # fmt: skip
    assert {left: parts(left) for left in by_hand} == by_hand
    assert all(sum(parts(left)) == left for left in range(1, 100))


def test_sets_of_short_rows_have_three_blocks() -> None:
    """Of up to four pixels, whose sums of two blocks are eight at most; an open row has more."""
    avx2, avx512 = LEVELS["x86-64-v3"], LEVELS["x86-64-v4"]
    assert [blocks_together([n], avx2) for n in (1, 3, 4, 5, 6, 7, 8, 9, 14)] == [
        *(3, 3, 3, 2, 2, 3, 3, 2, 2)
    ]
    assert [blocks_together([n], avx512) for n in (1, 3, 4, 5, 7, 8)] == [3, 3, 3, 2, 2, 2]
    assert blocks_together([3, 12], avx2) == 2, "regions share the filters of sets"
    symbol = Facts().symbol("n", 0, None, "input", Origin(0, 0, 0))
    assert blocks_together([Size.of(symbol)], avx2) == 2


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_sets_have_every_block_once(most: int) -> None:
    for blocks in range(20):
        found = [
            number
            for size, first, sets in runs_of_sets(blocks, most)
            for number in range(first, first + size * sets)
        ]
        assert found == list(range(blocks))
    assert list(runs_of_sets(4, 3)) == [(2, 0, 2)], "a block alone would wait for itself"
    assert list(runs_of_sets(7, 3)) == [(3, 0, 1), (2, 3, 2)]
    assert list(runs_of_sets(8, 3)) == [(3, 0, 2), (2, 6, 1)]


@pytest.mark.parametrize("target", [None, "x86-64-v3"])
@pytest.mark.parametrize("outputs", [16, 24, 32, 56, 100, 112])
def test_rows_of_a_few_pixels(outputs: int, target: str | None) -> None:
    """By sets of three blocks and what is left of them; some outputs fill no blocks."""
    machine = host_target() if target is None else LEVELS[target]
    if lacking(machine):
        pytest.skip(f"needs {lacking(machine)}")
    rng = np.random.default_rng(outputs)
    builder = uncork.Builder("short rows")
    value = builder.parameter("x", "f32", [2, 16, 7, 7])
    for channels, to, taps, stride in ((16, 48, 1, 1), (48, outputs, 3, 2), (outputs, 16, 1, 1)):
        filters = rng.normal(size=(to, channels, taps, taps)) / taps
        (value,) = builder.add(
            "Convolution", 1, value, builder.constant(filters.astype(np.float32)),
            strides=[stride] * 2, dilations=[1, 1], pads_begin=[taps // 2] * 2,
            pads_end=[taps // 2] * 2,
        )  # fmt: skip
    builder.result(value, "y")
    model, x = builder.model(), rng.normal(size=(2, 16, 7, 7)).astype(np.float32)
    (expected,) = uncork.compile_model(model, backend="reference")(x).values()
    (got,) = uncork.compile_model(model, threads=1, target=target)(x).values()
    np.testing.assert_allclose(got, expected, atol=2e-5 * np.abs(expected).max())


def test_tiles_past_the_end() -> None:
    """Tiles of 14, 8 and 4 (or 6, 4 and 2) take every number of pixels, and few more."""
    symbol = Facts().symbol("n", 0, None, "input", Origin(0, 0, 0))
    for target in (host_target(), LEVELS["x86-64-v3"]):
        widths, counts = widths_of(Size.of(symbol), target)
        for pixels in range(1, 200):
            found = [Size.of(n).evaluate({symbol: pixels}) for n in counts]
            taken = sum(n * width for n, width in zip(found, widths, strict=True))
            assert min(found) >= 0 and pixels <= taken < pixels + widths[-1], (pixels, found)


def test_rows_of_any_length() -> None:
    rng = np.random.default_rng(8)
    builder = uncork.Builder("rows")
    value = builder.parameter("x", "f32", [1, 16, 2, None])
    for outputs, channels in ((32, 16), (16, 32), (32, 16)):
        filters = rng.normal(size=(outputs, channels, 3, 3))
        (value,) = builder.add(
            "Convolution", 1, value, builder.constant(filters.astype(np.float32)),
            strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1],
        )  # fmt: skip
    builder.result(value, "y")
    model = builder.model()
    ours = uncork.compile_model(model, threads=1, exact_convolutions=True)
    ours(np.zeros((1, 16, 2, 5), np.float32))
    assert "_open" in str(ours.plan)
    oracle = uncork.compile_model(model, backend="reference")
    for columns in range(1, 47):
        x = rng.normal(size=(1, 16, 2, columns)).astype(np.float32)
        wanted = oracle(x)[0]
        # Sums of up to 288 products round by so many units of the largest, three times over.
        unit = float(np.abs(wanted).max()) * np.finfo(np.float32).eps
        np.testing.assert_allclose(ours(x)[0], wanted, rtol=1e-4, atol=3 * 288**0.5 * unit)


def test_a_short_row_in_planes_whose_number_the_call_tells() -> None:
    """No tile is of the widest kind, so that no strips can be of such tiles."""
    rng = np.random.default_rng(9)
    builder = uncork.Builder("planes")
    x = builder.parameter("x", "f32", [None, 96, None, 1, 8])
    filters = builder.constant(rng.normal(size=(96, 96, 3, 3, 3)).astype(np.float32))
    ones, pads = [1, 1, 1], {"pads_begin": [2, 2, 2], "pads_end": [0, 0, 0]}
    (y,) = builder.add("Convolution", 1, x, filters, strides=ones, dilations=ones, **pads)
    builder.result(y, "y")
    model = builder.model()
    ours = uncork.compile_model(model, threads=1)
    oracle = uncork.compile_model(model, backend="reference")
    for batch, planes in ((1, 13), (2, 1), (3, 5)):
        data = rng.normal(size=(batch, 96, planes, 1, 8)).astype(np.float32)
        np.testing.assert_allclose(ours(data)[0], oracle(data)[0], rtol=1e-4, atol=1e-3)
    assert "BlockedConvolution" in str(ours.plan)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 9])
@pytest.mark.parametrize("pads", [(0, 0), (1, 0), (0, 2), (9, 9)])
def test_windows(stride: int, dilation: int, pads: tuple[int, int]) -> None:
    """Windows that reach out of the data, by much or little: with zeros around it, or by regions of
    equal taps.
    """
    b = BLOCKS[0]
    around = {
        "strides": (stride,) * 2,
        "dilations": (dilation,) * 2,
        "begin": (pads[0],) * 2,
        "end": (pads[1],) * 2,
    }
    convolved((1, b, 21, 20), (1, 3 * b, b, 3, 3), (b, b), **around, ended=True)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("members", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
@pytest.mark.parametrize("columns", [3, 7, 21, 34])
def test_groups_that_are_parts_of_a_block(
    block: int, members: int, stride: int, dilation: int, columns: int
) -> None:
    if members > block:
        pytest.skip("a group has no more members than the block has channels")
    around = {"strides": (stride,) * 2, "dilations": (dilation,) * 2, "begin": (1, 1)}
    convolved(
        (2, 3 * block, 9, columns + 2),
        (3 * block // members, members, members, 3, 3),
        (block, block),
        **around,
        end=(2, 2),
        ended=True,
    )


@pytest.mark.parametrize(("rows", "columns"), [(1, 49), (7, 7), (1, 9)])
@pytest.mark.parametrize("taps", [1, 3])
def test_filters_that_are_asked_for_in_time(rows: int, columns: int, taps: int) -> None:
    """More filters than are read again for each tile: those of the next outputs are asked for."""
    b, channels = BLOCKS[0], 16 // taps**2 + 1
    outputs = -(-(1 << 18) // (channels * b * taps * taps * 4 * b)) + 3
    chosen = convolved(
        (2, channels * b, rows, columns),
        (1, outputs * b, channels * b, taps, taps),
        (b, b),
        begin=(taps // 2,) * 2,
        end=(taps // 2,) * 2,
        ended=True,
    )
    asked = [
        dict(zip(spec.arguments, operands, strict=True)).get("asks_ahead")
        for spec, operands in chosen.calls
        if isinstance(spec, Dense)
    ]
    assert (1 in asked) == (rows * columns > 40)


@pytest.mark.parametrize(("inner", "lanes"), list(itertools.product(BLOCKS, BLOCKS)))
@pytest.mark.parametrize(("outputs", "channels"), [(1, 1), (3, 2), (2, 3)])
def test_groups_of_whole_blocks(inner: int, lanes: int, outputs: int, channels: int) -> None:
    filters = (3, outputs * lanes, channels * inner, 3, 3)
    convolved(
        (2, 3 * channels * inner, 9, 21),
        filters,
        (inner, lanes),
        begin=(1, 1),
        end=(1, 1),
        ended=True,
    )


#: Of groups: channels and outputs in quarters of a block, and how many groups fill whole blocks.
STRADDLING = [(6, 6, 2), (6, 6, 4), (10, 10, 4), (14, 14, 2), (3, 3, 4), (5, 9, 4), (8, 6, 2)]


@pytest.mark.parametrize("blocks", list(itertools.product(BLOCKS, BLOCKS)))
@pytest.mark.parametrize(("channels", "outputs", "groups"), STRADDLING)
def test_groups_that_straddle_blocks(
    blocks: tuple[int, int], channels: int, outputs: int, groups: int
) -> None:
    """Groups begin and end within blocks: all lie alike, or one in two, or in four; windows within
    the data, on zeros around them, by regions of taps, and in strips of rows.
    """
    inner, lanes = channels * blocks[0] // 4, outputs * blocks[1] // 4
    for taps, dilation, size in (
        (1, 1, (3, 16)),
        (3, 1, (6, 15)),
        (3, 5, (7, 6)),
        (3, 1, (90, 85)),
    ):
        pad = (taps // 2 * dilation,) * 2
        convolved(
            (2, groups * inner, *size),
            (groups, lanes, inner, taps, taps),
            blocks,
            strides=(2, 2) if size[0] == 90 else (1, 1),
            dilations=(dilation,) * 2,
            begin=pad,
            end=pad,
            ended=True,
            threads=(1, 3),
        )


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_groups_that_share_a_block_do_not_see_each_other(value: float) -> None:
    b, members = BLOCKS[0], 3 * BLOCKS[0] // 2
    x, w = np.ones((1, 4 * members, 5, 9)), np.ones((4, members, members, 1, 1))
    x[0, members + 1] = value
    expected = np.full((1, 4 * members, 5, 9), float(members))
    expected[0, members : 2 * members] = value
    operation = find("GroupConvolution", 1)(
        strides=(1, 1), dilations=(1, 1), pads_begin=(0, 0), pads_end=(0, 0)
    )
    arrays = [to_blocks(x.astype(np.float32), b), w.astype(np.float32)]
    blocked = BlockedConvolution(operation, (True, False), b)
    specs = [spec_of(array, ElementType.f32) for array in arrays]
    outputs = [TensorSpec(o.element_type, o.shape) for o in blocked.describe(specs)]
    chosen = select_kernel(blocked, specs, outputs, host_target())
    (found,) = run_fenced(chosen, specs, outputs, False)
    np.testing.assert_array_equal(found, to_blocks(expected.astype(np.float32), b))


@pytest.mark.parametrize("stride", [1, 2])
def test_data_larger_than_the_cache_in_strips(stride: int) -> None:
    """Rows are laid out some at a time, the last time fewer."""
    b, channels = BLOCKS[0], 128
    around = {"strides": (stride,) * 2, "begin": (1, 1), "end": (1, 1)}
    chosen = convolved((1, channels, 61, 67), (1, b, channels, 3, 3), (b, b), **around, ended=True)
    assert len(chosen.calls) > 4


def test_blocks_that_meet_in_a_cache() -> None:
    """Pixels of a power of two, and many blocks: the data are laid out before."""
    b = BLOCKS[0]
    side = 64 if b == 8 else 32
    chosen = convolved((1, 20 * b, side, side), (1, 2 * b, 20 * b, 1, 1), (b, b), ended=True)
    assert len(chosen.calls) > 1


def test_few_taps_are_on_the_data() -> None:
    """A dilation as large as the data: the middle tap alone, and at last none."""
    b = BLOCKS[0]
    chosen = convolved(
        (1, b, 8, 8),
        (1, b, b, 3, 3),
        (b, b),
        dilations=(8, 8),
        begin=(8, 8),
        end=(8, 8),
        ended=True,
    )
    assert len(chosen.calls) == 1
    convolved((1, b, 2, 3), (1, b, b, 2, 2), (b, b), dilations=(5, 5), begin=(7, 7), end=(7, 7))


@pytest.mark.parametrize("side", [2, 4])
@pytest.mark.parametrize("blocks", list(itertools.product(BLOCKS, BLOCKS)))
@pytest.mark.parametrize("sizes", [(1, 1), (3, 5), (8, 8), (13, 30)])
def test_winograd(side: int, blocks: tuple[int, int], sizes: tuple[int, int]) -> None:
    filters = (1, 3 * blocks[1], 2 * blocks[0], 3, 3)
    convolved(
        (2, 2 * blocks[0], *sizes), filters, blocks, begin=(1, 1), end=(1, 1), side=side, ended=True
    )


@pytest.mark.parametrize("side", [2, 4])
@pytest.mark.parametrize("pads", [((0, 0), (0, 0)), ((2, 0), (1, 4))])
def test_winograd_with_other_padding(
    side: int, pads: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    b = BLOCKS[0]
    convolved((1, b, 9, 40), (1, 2 * b, b, 3, 3), (b, b), begin=pads[0], end=pads[1], side=side)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_winograd_leaves_what_is_not_finite_to_the_reference(value: float) -> None:
    b = BLOCKS[0]
    x, w = np.ones((1, b, 9, 9), np.float32), np.ones((b, b, 3, 3), np.float32)
    x[0, 3, 4, 5] = value
    operation = find("Convolution", 1)(
        strides=(1, 1), dilations=(1, 1), pads_begin=(1, 1), pads_end=(1, 1)
    )
    specs = [spec_of(array, ElementType.f32) for array in (to_blocks(x, b), w)]
    for side in (2, 4):
        blocked = BlockedConvolution(operation, (True, False), b, side=side)
        outputs = [TensorSpec(o.element_type, o.shape) for o in blocked.describe(specs)]
        chosen = select_kernel(blocked, specs, outputs, host_target())
        assert run_fenced(chosen, specs, outputs, False) is None


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("taps", [(1, 3), (3, 3), (5, 5), (7, 2)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("columns", [1, 4, 9, 30])
def test_depthwise(block: int, taps: tuple[int, int], stride: int, columns: int) -> None:
    around = {"strides": (stride,) * 2, "begin": (2, 2), "end": (3, 3)}
    convolved(
        (2, 2 * block, 6, columns), (2 * block, 1, 1, *taps), (block, block), **around, ended=True
    )


@pytest.mark.parametrize("dilation", [2, 5])
def test_depthwise_dilated(dilation: int) -> None:
    b = BLOCKS[0]
    around = {"dilations": (dilation,) * 2, "begin": (dilation,) * 2, "end": (dilation,) * 2}
    convolved((1, b, 7, 23), (b, 1, 1, 3, 3), (b, b), **around)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 3), (2, 2), (5, 7), (16, 20)])
@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_and_back(block: int, sizes: tuple[int, int]) -> None:
    data = numbers(np.random.default_rng(1), 2, 3 * block, *sizes)
    layout = ChannelLayout(block, (3 * block,))
    run(ToBlocks(layout=layout), [data], to_blocks(data, block), (1, 2), 0)
    run(FromBlocks(layout=layout), [to_blocks(data, block)], data, (1, 2), 0)
    np.testing.assert_array_equal(from_blocks(to_blocks(data, block)), data)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_random(data: st.DataObject) -> None:
    def each(low: int, high: int) -> tuple[int, int]:
        return data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    blocks = data.draw(st.tuples(st.sampled_from(BLOCKS), st.sampled_from(BLOCKS)))
    channels, outputs, images = (data.draw(st.integers(1, n)) for n in (3, 4, 2))
    dilations, strides, taps, begin, end = (
        each(1, 3),
        each(1, 3),
        each(1, 4),
        each(0, 4),
        each(0, 4),
    )
    reach = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    sizes = [max(n, r - b - e) for n, r, b, e in zip(each(1, 20), reach, begin, end, strict=True)]
    filters = (1, outputs * blocks[1], channels * blocks[0], *taps)
    convolved(
        (images, channels * blocks[0], *sizes),
        filters,
        blocks,
        strides=strides,
        dilations=dilations,
        begin=begin,
        end=end,
        ended=data.draw(st.booleans()),
    )


def test_the_name_says_what_it_is() -> None:
    b = BLOCKS[0]
    assert (
        "winograd_4"
        in convolved(
            (1, b, 30, 30), (1, b, b, 3, 3), (b, b), begin=(1, 1), end=(1, 1), side=4
        ).kernel
    )


VOLUMES = [
    ((5, 26, 25), (3, 3, 3), (1, 1, 1), (1, 1, 1)),
    ((2, 13, 14), (3, 3, 3), (1, 1, 1), (1, 1, 1)),
    ((1, 4, 4), (3, 3, 3), (1, 1, 1), (1, 1, 1)),
    ((6, 9, 8), (3, 3, 3), (2, 2, 2), (1, 1, 1)),
    ((6, 9, 8), (3, 3, 3), (2, 1, 1), (0, 1, 1)),
    ((4, 9, 8), (2, 1, 1), (2, 2, 2), (0, 0, 0)),
    ((9, 6, 20), (7, 1, 1), (2, 1, 1), (3, 0, 0)),
    ((4, 9, 8), (1, 3, 3), (1, 1, 1), (0, 1, 1)),
    ((3, 7, 30), (5, 1, 3), (1, 2, 1), (4, 0, 2)),
]


@pytest.mark.parametrize("blocks", list(itertools.product(BLOCKS, BLOCKS)))
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("sizes", "taps", "strides", "begin"), VOLUMES)
def test_three_axes(
    blocks: tuple[int, int],
    dilation: int,
    sizes: tuple[int, ...],
    taps: tuple[int, ...],
    strides: tuple[int, ...],
    begin: tuple[int, ...],
) -> None:
    """Windows that see other planes at the borders; taps along the first axis of which none is on
    the data, too.
    """
    dilations = (dilation, 1, 1)
    if sizes[0] + 2 * begin[0] < (taps[0] - 1) * dilation + 1:
        pytest.skip("windows are longer than the data")
    winograd = taps[1:] == (3, 3) and strides[1:] == (1, 1)
    for side in (0, 2, 4) if winograd else (0,):
        chosen = convolved(
            (2, 2 * blocks[0], *sizes),
            (1, 3 * blocks[1], 2 * blocks[0], *taps),
            blocks,
            strides=strides,
            dilations=dilations,
            begin=begin,
            end=begin,
            side=side,
            ended=side != 2,
        )
        assert bool(side) == ("winograd" in chosen.kernel)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("sizes", "taps", "strides", "begin"), VOLUMES)
def test_three_axes_of_channels_by_themselves(
    block: int,
    members: int,
    dilation: int,
    sizes: tuple[int, ...],
    taps: tuple[int, ...],
    strides: tuple[int, ...],
    begin: tuple[int, ...],
) -> None:
    if sizes[0] + 2 * begin[0] < (taps[0] - 1) * dilation + 1:
        pytest.skip("windows are longer than the data")
    chosen = convolved(
        (2, 2 * block, *sizes),
        (2 * block // members, members, members, *taps),
        (block, block),
        strides=strides,
        dilations=(dilation, 1, 1),
        begin=begin,
        end=begin,
        ended=members == 1,
    )
    assert chosen.kernel.startswith("depthwise")


@pytest.mark.parametrize(
    ("groups", "channels", "sizes", "taps", "dilations", "begin"),
    [
        (1, 1, (4, 7, 9), (2, 3, 3), (1, 5, 5), (1, 5, 5)),  # regions of dilated windows
        (2, 1, (5, 6, 9), (3, 1, 2), (1, 1, 1), (1, 0, 0)),  # groups of whole blocks
        (1, 4, (5, 3, 400), (3, 1, 1), (1, 1, 1), (1, 0, 0)),  # a plane that fills the cache
    ],
)
def test_three_axes_of_rows_and_groups(
    groups: int,
    channels: int,
    sizes: tuple[int, ...],
    taps: tuple[int, ...],
    dilations: tuple[int, ...],
    begin: tuple[int, ...],
) -> None:
    block = BLOCKS[0]
    convolved(
        (groups, groups * channels * block, *sizes),
        (groups, block, channels * block, *taps),
        (block, block),
        strides=(1, 1, 1),
        dilations=dilations,
        begin=begin,
        end=begin if dilations[1] == 1 else (0, *begin[1:]),
    )


@pytest.mark.skipif(
    not host_target().has("avx2"), reason="the machine cannot run kernels of this processor"
)
@pytest.mark.parametrize("side", [0, 2, 4])
def test_kernels_for_shorter_vectors(side: int) -> None:
    """What another processor would run: fewer registers, and blocks of 8."""
    target = Target.of("x86_64", "haswell", "+sse2,+avx,+avx2,+fma,+f16c")
    generator = np.random.default_rng(side)
    x, w = numbers(generator, 1, 16, 9, 27), numbers(generator, 1, 24, 16, 3, 3) / 9
    operation = find("Convolution", 1)(
        strides=(1, 1), dilations=(1, 1), pads_begin=(1, 1), pads_end=(1, 1)
    )
    expected = to_blocks(by_formula(x, w, (1, 1), (1, 1), (1, 1), (9, 27)), 8)
    blocked = BlockedConvolution(operation, (True, False), 8, side=side)
    specs = [spec_of(array, ElementType.f32) for array in (to_blocks(x, 8), w[0])]
    outputs = [TensorSpec(o.element_type, o.shape) for o in blocked.describe(specs)]
    chosen = select_kernel(blocked, specs, outputs, target)
    assert isinstance(chosen, KernelPlan)
    results = run_fenced(chosen, specs, outputs, False, target=target)
    assert results is not None
    np.testing.assert_allclose(results[0], expected, rtol=0, atol=2e-5)
