"""Products with weights as they are stored, against the same products with the matrix that the
layers would make, in f64.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("llvmlite")

from tests.kernels._compressed import matrix
from tests.kernels._run import run_native, spec_of
from uncork.internal_ops.compressed_linear import (
    CompressedLinear,
    CompressedMatrix,
    FusedCompressedLinear,
)
from uncork.internal_ops.decompression import Step
from uncork.internal_ops.fused import FusedMember
from uncork.kernels.compressed import select
from uncork.kernels.compressed.form import stored_of
from uncork.kernels.compressed.select import declined
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.kernel_spec import llvm_text
from uncork.kernels.runtime.target import Target, host_target
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.types import ElementType, PartialShape, TensorSpec

AVX2 = Target.of("x86_64", "x86-64-v3", "+sse2,+sse4.2,+avx,+avx2,+fma,+f16c")
STORED = ["f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8", "i4", "u4", "book", "wide book"]
#: Columns, inner size, size of a group: around the edges of vectors, words and blocks.
SIZES = [
    (5, 8, 0),
    (70, 40, 0),
    (3, 264, 24),
    (51, 160, 32),
    (4, 144, 16),
    (64, 384, 128),
    (7, 240, 40),
    (6, 1288, 0),
]
#: One, two, a tile, rows for which columns are decoded into lines, and many.
ROWS = [1, 2, 3, 6, 16, 17, 33]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def multiplied(
    weights: CompressedMatrix, x: np.ndarray, target: Target | None = None
) -> np.ndarray:
    operation = CompressedLinear(find("MatMul", 1)(transpose_b=True), weights)
    results, choice = run_native(operation, [spec_of(x, ElementType.f32)], target=target)
    assert isinstance(choice, KernelPlan), choice
    assert results is not None
    return results[0]


def close(got: np.ndarray, weights: CompressedMatrix, x: np.ndarray) -> None:
    expected = x.astype(np.float64) @ weights.values().astype(np.float64).T
    assert np.abs(got - expected).max() <= 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize(
    ("zeros", "scales", "half"),
    [
        ("", False, False),
        ("", True, True),
        ("whole", True, False),
        ("broken", True, True),
        ("small", True, False),
        ("small", True, True),
    ],
)
def test_stored_types(stored: str, zeros: str, scales: bool, half: bool) -> None:
    generator = np.random.default_rng(1)
    taken = 0
    turn = STORED.index(stored) + len(zeros)  # each size meets each count of rows in half of them
    for at, (columns, inner, group) in enumerate(SIZES, turn):
        weights = matrix(generator, stored, columns, inner, group, zeros, scales, half)
        if declined(weights):
            continue
        for rows in ROWS[at % 2 :: 2]:
            x = numbers(rows, inner)
            close(multiplied(weights, x), weights, x)
            taken += 1
    assert taken


def floats_of_a_byte(stored: str, codes: np.ndarray) -> np.ndarray:
    """What codes stand for, by the definition of their bits: sign, exponent, fraction."""
    fraction = {"f8e4m3": 3, "f8e5m2": 2}[stored]
    exponents = (codes & 0x7F) >> fraction
    parts = (codes & ((1 << fraction) - 1)) + (exponents > 0) * (1 << fraction)
    bias = (1 << 6 - fraction) - 1
    sizes = np.ldexp(
        parts.astype(np.float64), np.maximum(exponents, 1).astype(int) - bias - fraction
    )
    return np.where(codes & 0x80, -sizes, sizes)


@pytest.mark.parametrize("stored", ["f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("target", [None, AVX2], ids=["here", "AVX2"])
def test_codes_that_become_halves(stored: str, half: bool, target: Target | None) -> None:
    """Columns that end within a vector, with a block and within one; small numbers, which f16 has
    no normal ones for, among them.
    """
    if target is not None and not host_target().has("avx2"):
        pytest.skip("it takes AVX2")
    generator = np.random.default_rng(7)
    for columns, inner in ((1, 1), (2, 511), (3, 512), (5, 513), (4, 127), (7, 129), (3, 1100)):
        finite = [c for c in range(256) if c & 0x7F < {"f8e4m3": 0x7F, "f8e5m2": 0x7C}[stored]]
        codes = generator.choice(np.array(finite, np.uint8), (columns, 1, inner))
        scales = generator.uniform(0.5, 1, (columns, 1)).astype(np.float16)
        if not half:
            scales = scales.astype(np.float32)
        weights = CompressedMatrix(ElementType.parse(stored), codes, (0, 1, 2), None, scales, half)
        exact = floats_of_a_byte(stored, codes[:, 0]) * scales.astype(np.float64)
        if half:
            exact = exact.astype(np.float16).astype(np.float64)
        for rows in (1, 2, 4, 5):
            x = numbers(rows, inner)
            got, wide = multiplied(weights, x, target), x.astype(np.float64)
            terms = np.abs(wide) @ np.abs(exact).T
            assert (np.abs(got - wide @ exact.T) <= terms * 2.0**-24 * (8 + inner / 8)).all()


@pytest.mark.parametrize("stored", ["f16", "bf16"])
@pytest.mark.parametrize("rows", [8, 9, 17, 40])
def test_codes_in_panels(monkeypatch: pytest.MonkeyPatch, stored: str, rows: int) -> None:
    """On a processor that converts beside its multiplications, as on others; matrices of either
    order.
    """
    for columns, inner in ((1, 3), (48, 5), (50, 33), (97, 64)):
        weights = matrix(np.random.default_rng(columns), stored, columns, inner, scales=False)
        turned = replace(weights, codes=weights.codes.transpose(1, 2, 0).copy(), axes=(2, 0, 1))
        x = numbers(rows, inner)
        for cpu, given in product(("", "none"), (weights, turned)):
            monkeypatch.setattr(select, "_CONVERTING", cpu)
            operation = CompressedLinear(find("MatMul", 1)(transpose_b=True), given)
            results, choice = run_native(operation, [spec_of(x, ElementType.f32)])
            assert isinstance(choice, KernelPlan) and results is not None
            assert "_panels" in choice.kernel
            assert ("_widened" in choice.kernel) == (not cpu and host_target().lanes == 16)
            close(results[0], weights, x)


def brains(weights: CompressedMatrix) -> CompressedLinear:
    """The product of data that are numbers of bf16."""
    return CompressedLinear(find("MatMul", 1)(transpose_b=True), weights, ElementType.bf16)


def rounded(x: np.ndarray) -> np.ndarray:
    """Numbers of bf16 near those."""
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.mark.skipif(not host_target().has("avx512bf16"), reason="it takes AVX512-BF16")
@pytest.mark.parametrize("panels", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 17, 40])
def test_pairs_of_bf16(monkeypatch: pytest.MonkeyPatch, rows: int, panels: bool) -> None:
    """Matrices of either order, kept in panels or brought into them by each call."""
    monkeypatch.setattr(select, "_fits_panels", lambda *given: panels)
    for columns, inner in ((1, 2), (48, 6), (50, 34), (97, 64), (70, 130), (5, 300)):
        weights = matrix(np.random.default_rng(columns), "bf16", columns, inner, scales=False)
        turned = replace(weights, codes=weights.codes.transpose(1, 2, 0).copy(), axes=(2, 0, 1))
        x = rounded(numbers(rows, inner))
        for given in (weights, turned):
            results, choice = run_native(brains(given), [spec_of(x, ElementType.f32)])
            assert isinstance(choice, KernelPlan) and results is not None
            assert ("_panels" in choice.kernel) == (panels and rows >= 8)
            assert "_pairs" in choice.kernel
            close(results[0], weights, x)


@pytest.mark.skipif(not host_target().has("avx512bf16"), reason="it takes AVX512-BF16")
def test_pairs_at_the_ends_of_bf16() -> None:
    """Infinite data and NaN go where the reference has them; subnormal data may count as 0, which
    is less than 2**-109 for each.
    """
    weights = matrix(np.random.default_rng(3), "bf16", 9, 64, scales=False)
    for bad in (np.nan, np.inf, 2.0**127):
        x = rounded(numbers(12, 64))
        x[0, 5] = bad
        with np.errstate(all="ignore"):
            expected = brains(weights).evaluate([spec_of(x, ElementType.f32)])[0].value
        results, _ = run_native(brains(weights), [spec_of(x, ElementType.f32)])
        np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-5)
    x = np.full((8, 64), 2.0**-130, np.float32)
    results, _ = run_native(brains(weights), [spec_of(x, ElementType.f32)])
    expected = x.astype(np.float64) @ weights.values().astype(np.float64).T
    assert np.abs(results[0] - expected).max() <= 64 * 2.0**-109


@pytest.mark.parametrize(
    ("code", "features", "pairs"),
    [
        (0x4780, "+avx512f,+avx512bf16", True),  # 65536
        (0x4781, "+avx512f,+avx512bf16", False),  # the number after it
        (0x0080, "+avx512f,+avx512bf16", True),  # the least normal number
        (0x807F, "+avx512f,+avx512bf16", False),  # the largest subnormal one, negative
        (0xFF80, "+avx512f,+avx512bf16", False),  # infinite
        (0x3F80, "+avx512f", False),
    ],
)
def test_where_pairs_of_bf16_are_multiplied(code: int, features: str, pairs: bool) -> None:
    """On processors that have the instruction, for weights with which it errs by little, where the
    data are numbers of bf16.
    """
    target = Target.of("x86_64", "x86-64-v4", f"+sse2,+avx,+avx2,+fma,+f16c,{features}")
    codes = np.full((5, 1, 6), 0x3F80, np.uint16)
    codes[2, 0, 3] = code
    weights = CompressedMatrix(ElementType.bf16, codes, (0, 1, 2))
    operation = brains(weights)
    data = TensorSpec(ElementType.f32, PartialShape((16, 6)))
    outputs = operation.describe([data])
    choice = select_kernel(operation, [data], outputs, target)
    assert isinstance(choice, KernelPlan) and ("_pairs" in choice.kernel) == pairs
    texts = [llvm_text(spec, target) for spec, _ in choice.calls]
    assert any("dpbf16ps" in text for text in texts) == pairs
    plain = CompressedLinear(find("MatMul", 1)(transpose_b=True), weights)
    choice = select_kernel(plain, [data], outputs, target)
    assert isinstance(choice, KernelPlan) and "_pairs" not in choice.kernel
    odd = replace(weights, codes=np.ascontiguousarray(codes[..., :5]))
    data = TensorSpec(ElementType.f32, PartialShape((16, 5)))
    choice = select_kernel(brains(odd), [data], outputs, target)
    assert isinstance(choice, KernelPlan) and "_pairs" not in choice.kernel


@pytest.mark.skipif(not host_target().has("avx2"), reason="it takes AVX2")
@pytest.mark.parametrize("stored", ["f16", "f8e4m3", "u8", "i4", "u4", "book", "wide book"])
def test_vectors_of_eight(stored: str) -> None:
    generator = np.random.default_rng(2)
    for (columns, inner, group), rows in product(SIZES, (1, 3, 17)):
        weights = matrix(generator, stored, columns, inner, group, "whole", half=True)
        if not declined(weights):
            x = numbers(rows, inner)
            close(multiplied(weights, x, target=AVX2), weights, x)


def test_every_rounding_to_f16() -> None:
    """All codes by all scales of two binades: what comes out is what f16 holds, bit by bit."""
    scales = np.arange(1024, 3072, dtype=np.float32) / 2**17
    codes = np.broadcast_to(np.arange(-128, 128, dtype=np.int8), (len(scales), 256))[:, None]
    weights = CompressedMatrix(
        ElementType.i8, np.ascontiguousarray(codes), (0, 1, 2), None, scales[:, None], True
    )
    expected = (
        (codes[:, 0].astype(np.float32) * scales[:, None]).astype(np.float16).astype(np.float32)
    )
    np.testing.assert_array_equal(multiplied(weights, np.eye(256, dtype=np.float32)), expected.T)
    np.testing.assert_array_equal(
        multiplied(weights, np.eye(256, dtype=np.float32)[:5]), expected.T[:5]
    )


@pytest.mark.parametrize("scale", [2.0**-24, 3 * 2.0**-20, 400.0, np.inf, 0.0])
def test_scales_at_the_ends_of_f16(scale: float) -> None:
    """Subnormal numbers, and what is too large for f16."""
    codes = np.arange(-8, 8, dtype=np.int8)[None, None]
    weights = CompressedMatrix(
        ElementType.i4, codes, (0, 1, 2), None, np.array([[scale]], np.float32), True
    )
    with np.errstate(all="ignore"):
        expected = (
            (codes[0].astype(np.float32) * np.float32(scale)).astype(np.float16).astype(np.float32)
        )
    for rows in (1, 2):
        x = np.eye(16, dtype=np.float32)[9 : 9 + rows]
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(multiplied(weights, x), x @ expected.T)


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_data_that_is_no_number(rows: int) -> None:
    """It goes where the reference has it."""
    weights = matrix(np.random.default_rng(3), "u4", 9, 64, 32, "whole")
    for bad in (np.nan, np.inf):
        x = numbers(rows, 64)
        x[0, 5] = bad
        operation = CompressedLinear(find("MatMul", 1)(transpose_b=True), weights)
        with np.errstate(all="ignore"):
            expected = operation.evaluate([spec_of(x, ElementType.f32)])[0].value
        np.testing.assert_allclose(multiplied(weights, x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("columns", [2, 50])
@pytest.mark.parametrize("rows", [1, 5, 20])
def test_what_ends_a_product(columns: int, rows: int) -> None:
    """A bias, an activation, a number for all, and another tensor that is added."""
    weights = matrix(np.random.default_rng(4), "i8", columns, 40)
    add, multiply, tanh = (find(name, 1)() for name in ("Add", "Multiply", "Tanh"))
    members = [
        FusedMember(add, (0, 1)),
        FusedMember(tanh, (4,)),
        FusedMember(multiply, (5, 2)),
        FusedMember(add, (6, 3)),
    ]
    operation = FusedCompressedLinear(
        CompressedLinear(find("MatMul", 1)(transpose_b=True), weights), 1, members
    )
    x = numbers(rows, 40)
    others = [numbers(columns), numbers(1), numbers(rows, columns)]
    specs = [spec_of(array, ElementType.f32) for array in (x, *others)]
    results, choice = run_native(operation, specs)
    assert isinstance(choice, KernelPlan), choice
    assert results is not None
    expected = (
        np.tanh(x.astype(np.float64) @ weights.values().T + others[0]) * others[1] + others[2]
    )
    np.testing.assert_allclose(results[0], expected, rtol=2e-5, atol=2e-5)


def test_what_no_kernel_takes() -> None:
    weights = matrix(np.random.default_rng(5), "i4", 4, 12)
    assert "within a word" in declined(weights)


#: Columns, inner size, size of a group: of half a block of codes, of parts of words, of one number.
SHORT = [(5, 64, 64), (3, 160, 32), (7, 72, 0), (6, 192, 96), (5, 48, 2), (4, 72, 6), (9, 40, 1)]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("zeros", ["", "small"])
@pytest.mark.parametrize("stored", ["u4", "i4", "u8", "f8e4m3", "book", "wide book"])
def test_every_number_is_what_the_layers_make(
    stored: str, zeros: str, half: bool, later: bool
) -> None:
    """Rows of the unit matrix give the numbers themselves, bit for bit, by all kernels."""
    generator = np.random.default_rng(6)
    for columns, inner, group in SHORT:
        weights = matrix(generator, stored, columns, inner, group, zeros, True, half)
        steps = []
        if later:
            shared = generator.uniform(0, 1, (1, weights.shape[1])).astype(np.float16)
            steps.append(Step(shared, subtracts=True, rounds=half))
            own = generator.uniform(0.5, 2, (columns, 1)).astype(np.float32)
            steps.append(Step(own))
        weights = replace(weights, later=tuple(steps))
        whole = np.eye(inner, dtype=np.float32)
        for rows in (whole[-1:], whole[:3], whole[-6:], whole):
            got = multiplied(weights, rows)
            if "dot_" in plan_of(weights, rows).kernel:  # sums of whole numbers
                np.testing.assert_allclose(got, rows @ weights.values().T, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(got, rows @ weights.values().T)


def plan_of(weights: CompressedMatrix, x: np.ndarray) -> KernelPlan:
    operation = CompressedLinear(find("MatMul", 1)(transpose_b=True), weights)
    choice = run_native(operation, [spec_of(x, ElementType.f32)])[1]
    assert isinstance(choice, KernelPlan)
    return choice


def test_products_that_f16_has_are_not_rounded() -> None:
    """Numbers of few digits times powers of 2; others, and those beyond f16's range, are."""
    generator = np.random.default_rng(7)
    weights = matrix(generator, "f8e4m3", 4, 64, 32, "", True, True)
    assert weights.scales is not None
    powers = (2.0 ** generator.integers(-9, 4, weights.scales.shape)).astype(np.float16)
    exact = replace(weights, scales=powers)
    assert not stored_of(exact, AVX2).rounds_product
    assert (exact.values() == replace(exact, half=False).values()).all()
    for scale in (2.0**-16, 2.0**9, 1.5, np.inf, np.nan):
        other = powers.copy()
        other[1, 1] = scale
        expected = scale == 1.5  # of two digits, as the numbers have four of eleven
        rounds = stored_of(replace(weights, scales=other), AVX2).rounds_product
        assert bool(rounds) != expected, scale
