"""Convolutions over blocks of channels by filters that are stored in few bits, against the formula
of the numbers that they stand for, between forbidden pages.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import run_fenced
from tests.kernels._run import spec_of
from tests.kernels.test_convolution import by_formula, numbers
from uncork.internal_ops.blocks import BlockedConvolution, to_blocks
from uncork.internal_ops.compressed_linear import CompressedMatrix
from uncork.internal_ops.decompression import Step
from uncork.internal_ops.stored_filters import StoredFilters
from uncork.kernels.convolution.spec_blocks import Dense
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target, host_target
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.storage import code_book
from uncork.types import Array, ElementType, TensorSpec

LANES = host_target().lanes
BLOCKS = [LANES] if LANES < 16 else [16, 8]
HASWELL = Target.of("x86_64", "haswell", "+sse2,+avx,+avx2,+fma,+f16c")
#: How numbers are stored: the type of codes; the step in f16 or f32; zero points; what they number.
FORMS = {
    "u8 by f16": ("u8", np.float16, True, False),
    "u8": ("u8", np.float32, True, False),
    "i8": ("i8", np.float32, False, False),
    "i8 by f16": ("i8", np.float16, False, False),
    "table of 16": ("u8", np.float32, False, True),
    "f8e4m3": ("f8e4m3", np.float32, False, False),
    "f8e5m2": ("f8e5m2", np.float32, False, False),
}


def stored(
    generator: np.random.Generator, form: str, shape: tuple[int, ...], lead: int = 1
) -> tuple[StoredFilters, Array]:
    """Filters of a form, and the numbers that they stand for by the formula of the layers."""
    outputs = int(np.prod(shape[:lead]))
    if form in ("f16", "bf16"):
        values = numbers(generator, outputs, 1, int(np.prod(shape[lead:])))
        if form == "f16":
            codes, made = values.astype(np.float16), values.astype(np.float16).astype(np.float32)
        else:
            codes = (values.view(np.uint32) >> 16).astype(np.uint16)
            made = (codes.astype(np.uint32) << 16).view(np.float32)
        matrix = CompressedMatrix(ElementType.parse(form), codes, (0, 1, 2))
        return StoredFilters(matrix, shape), made.reshape(shape)
    name, kind, points, table = FORMS[form]
    element_type = ElementType.parse(name)
    inner = int(np.prod(shape[lead:]))
    low, high = (-128, 128) if name == "i8" else (0, 16) if table else (0, 120)
    codes = generator.integers(low, high, (outputs, 1, inner)).astype(element_type.dtype)
    scales = (generator.random((outputs, 1)) / 100 + 0.001).astype(np.float16)
    zeros = generator.integers(40, 90, (outputs, 1)).astype(np.uint8) if points else None
    book = generator.standard_normal(16).astype(np.float32) if table else None
    if book is not None:
        values = book[codes]
    elif name.startswith("f8"):
        values = code_book(element_type)[codes]
    else:
        values = codes
    made = values.astype(kind)
    if zeros is not None:
        made = made - zeros.astype(kind)[..., np.newaxis]
    made = (made * scales.astype(kind)[..., np.newaxis]).astype(np.float32)
    half = kind is np.float16
    matrix = CompressedMatrix(element_type, codes, (0, 1, 2), zeros, scales, half, numbers=book)
    return StoredFilters(matrix, shape), made.reshape(shape)


def convolved(
    form: str | tuple[StoredFilters, Array],
    data: Sequence[int],
    filters: Sequence[int],
    blocks: tuple[int, int],
    stride: int = 1,
    around: int = 1,
    side: int = 0,
    target: Target | None = None,
    threads: Sequence[int] = (1, 2),
) -> KernelPlan:
    """A convolution held against the formula; `filters [G, O, C, rows, columns]`."""
    generator = np.random.default_rng(sum(data) + sum(filters))
    groups, *others = filters
    shape = (groups, *others) if groups > 1 else tuple(others)
    held, made = (
        stored(generator, form, shape, 2 if groups > 1 else 1) if isinstance(form, str) else form
    )
    x = numbers(generator, *data)
    counts = [
        (size + 2 * around - taps) // stride + 1
        for size, taps in zip(data[2:], filters[3:], strict=True)
    ]
    wide = by_formula(x, made.reshape(filters), (stride,) * 2, (1, 1), (around,) * 2, counts)
    expected = to_blocks(wide.astype(np.float32), blocks[1])
    name = "GroupConvolution" if groups > 1 else "Convolution"
    operation = find(name, 1)(
        strides=(stride,) * 2, dilations=(1, 1), pads_begin=(around,) * 2, pads_end=(around,) * 2
    )
    blocked = BlockedConvolution(operation, (True, False), blocks[1], side=side, stored=held)
    codes = spec_of(held.matrix.codes, held.matrix.element_type)
    specs = [spec_of(to_blocks(x, blocks[0]), ElementType.f32), codes]
    outputs = [TensorSpec(o.element_type, o.shape) for o in blocked.describe(specs)]
    target = target or host_target()
    chosen = select_kernel(blocked, specs, outputs, target)
    assert isinstance(chosen, KernelPlan), chosen
    scale = max(1.0, float(np.abs(expected).max()))
    for count, first in itertools.product(threads, (False, True)):
        results = run_fenced(chosen, specs, outputs, first, count, target=target)
        assert results is not None
        np.testing.assert_allclose(results[0], expected, rtol=0, atol=2e-5 * scale)
    (reference,) = blocked.evaluate(specs)
    np.testing.assert_allclose(reference.known, expected, rtol=0, atol=2e-5 * scale)
    return chosen


def kernels(plan: KernelPlan) -> list[Dense]:
    return [spec for spec, _ in plan.calls if isinstance(spec, Dense)]


@pytest.mark.parametrize("form", [*FORMS, "f16", "bf16"])
@pytest.mark.parametrize("block", BLOCKS)
def test_forms(form: str, block: int) -> None:
    plan = convolved(form, (1, 2 * block, 7, 9), (1, 3 * block, 2 * block, 3, 3), (block, block))
    assert all(spec.stored is not None for spec in kernels(plan))


@pytest.mark.parametrize("size", [2, 3, 15])
@pytest.mark.parametrize("stride", [1, 2])
def test_tiles_and_strides(size: int, stride: int) -> None:
    """One tile of pixels, and several; images one after the other."""
    block = BLOCKS[0]
    convolved("u8", (2, block, size, size), (1, block, block, 3, 3), (block, block), stride)


def test_slices_of_the_channels() -> None:
    """The filters of a set take more than the second cache keeps."""
    block = BLOCKS[0]
    plan = convolved("i8", (1, 40 * block, 4, 5), (1, block, 40 * block, 3, 3), (block, block))
    assert any(spec.sliced for spec in kernels(plan)) or LANES < 16


@pytest.mark.parametrize("form", ["u8", "f16"])
@pytest.mark.parametrize("each", [24, 12])
def test_groups_that_share_blocks(form: str, each: int) -> None:
    convolved(form, (1, 4 * each, 6, 7), (4, each, each, 3, 3), (BLOCKS[-1],) * 2)


@pytest.mark.parametrize("side", [2, 4])
def test_winograd_makes_numbers_once(side: int) -> None:
    block = BLOCKS[0]
    plan = convolved(
        "u8", (1, block, 9, 26), (1, 2 * block, block, 3, 3), (block, block), side=side
    )
    assert not kernels(plan)


def test_steps_that_follow() -> None:
    """A zero point that is no whole number, two scales, and a rounding between them."""
    block = BLOCKS[0]
    generator = np.random.default_rng(5)
    shape = (2 * block, block, 1, 1)
    codes = generator.integers(0, 256, (2 * block, 1, block)).astype(np.uint8)
    zeros = generator.random((2 * block, 1)).astype(np.float32)
    first = generator.random((2 * block, 1)).astype(np.float16)
    second = np.full((1, 1), 0.37, np.float32)
    made = (codes - zeros[..., np.newaxis]) * first[..., np.newaxis].astype(np.float32)
    made = made.astype(np.float16).astype(np.float32) * second[0, 0]
    later = (
        Step(first, False, True),
        Step(second, False, False),
    )
    matrix = CompressedMatrix(ElementType.u8, codes, (0, 1, 2), zeros, later=later)
    form = StoredFilters(matrix, shape), made.reshape(shape)
    convolved(form, (1, block, 5, 5), (1, *shape), (block, block), around=0)


@pytest.mark.skipif(
    not host_target().has("avx2"), reason="the machine cannot run kernels of this processor"
)
@pytest.mark.parametrize("form", ["u8 by f16", "f16", "table of 16"])
def test_kernels_for_shorter_vectors(form: str) -> None:
    convolved(form, (1, 16, 9, 27), (1, 24, 16, 3, 3), (8, 8), target=HASWELL, threads=(1,))


def test_processors_without_instructions_for_f16_read_them_as_well() -> None:
    """Without an instruction that converts f16, filters stay as they are stored, too."""
    old = Target.of("x86_64", "nehalem", "+sse2,+sse3,+ssse3,+sse4.1,+sse4.2")
    if not host_target().has("avx2"):
        pytest.skip("the machine cannot run kernels of this processor")
    block = old.lanes
    plan = convolved("f16", (1, block, 6, 6), (1, block, block, 3, 3), (block, block), target=old)
    assert all(spec.stored is not None for spec in kernels(plan))
