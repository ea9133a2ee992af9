"""Products of rows as digits with stored weights, in whole numbers: as near to the exact product as
`spec_dots` says, and rows without digits as f32 has them.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("llvmlite")

from tests.kernels._compressed import matrix
from tests.kernels._run import run_native, spec_of
from tests.kernels.test_compressed import multiplied, numbers
from tests.kernels.test_elf_link import AARCH64, objects
from uncork.internal_ops.compressed_linear import (
    CompressedLinear,
    CompressedMatrix,
    FusedCompressedLinear,
)
from uncork.internal_ops.fused import FusedMember
from uncork.kernels.compressed.spec_dots import BlockDigits, Digits, DotFew, DotRows
from uncork.kernels.gemm.dots import FOUR_MIXED, FOUR_SIGNED, PAIRS, dot_method_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.kernel_spec import llvm_text
from uncork.kernels.runtime.target import LEVELS, Target, host_target
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.types import ElementType

AVX_VNNI = Target.of("x86_64", "x86-64-v3", "+sse2,+sse4.2,+avx,+avx2,+fma,+f16c,+avxvnni")
AVX2 = LEVELS["x86-64-v3"]
AVX512 = Target.of(
    "x86_64",
    "x86-64-v4",
    "+sse2,+sse4.2,+avx,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512vnni",
)
NEON = Target.of("aarch64", "neoverse-n1", "+neon,+fp-armv8,+fullfp16,+dotprod")
#: Columns, inner size, size of a group: around the edges of vectors, words, runs and panels.
SIZES = [(5, 8, 0), (70, 40, 0), (33, 264, 0), (3, 520, 0), (51, 160, 32), (64, 384, 128)]
SIZES += [(16, 1024, 512), (32, 2048, 1024)]
ROWS = [1, 2, 3, 5, 6, 8, 11]
#: Up to so many rows three digits are faster than f32 by pairs of 16 bits.
FEW = 4


def dots_of(
    weights: CompressedMatrix, rows: int, target: Target | None = None
) -> DotRows | DotFew | None:
    """The kernel in whole numbers, where it is selected."""
    operation = CompressedLinear(find("MatMul", 1)(transpose_b=True), weights)
    x = spec_of(np.zeros((rows, weights.inner), np.float32), ElementType.f32)
    choice = select_kernel(operation, [x], operation.describe([x]), target or host_target())
    assert isinstance(choice, KernelPlan), choice
    return next((spec for spec, _ in choice.calls if isinstance(spec, (DotRows, DotFew))), None)


def runnable(target: Target) -> bool:
    """This machine has the instructions of another one."""
    wanted = [name[1:] for name in target.features.split(",") if name.startswith("+")]
    return all(host_target().has(name) for name in wanted)


def hold(
    got: np.ndarray,
    weights: CompressedMatrix,
    x: np.ndarray,
    unit: int,
    error: float = 2.0**-24,
    left_out: float = 0.0,
) -> None:
    """A number of the data is off by so much of the largest of its run, each product by what was
    left out, of the largest factors, and the rest is f32: each run's sum and the total are rounded
    a few times.
    """
    w, wide = weights.values().astype(np.float64), x.astype(np.float64)
    expected = wide @ w.T
    bound = np.zeros_like(expected)
    for first in range(0, weights.inner, unit):
        run = slice(first, first + unit)
        off = np.abs(wide[:, run]).max(axis=1)[:, None] * np.abs(w[:, run]).sum(axis=1)
        bound += error * off + 2.0**-21 * np.abs(wide[:, run] @ w[:, run].T)
        bound += left_out * unit * np.abs(wide[:, run]).max(axis=1)[:, None] * np.abs(w).max()
    assert (np.abs(got - expected) <= bound).all()


@pytest.mark.parametrize("target", ["host", "AVX-512", "AVX-VNNI", "AVX2", "SSE4"])
@pytest.mark.parametrize("stored", ["i8", "u8", "i4", "u4"])
@pytest.mark.parametrize(
    ("zeros", "scales"), [("", False), ("", True), ("whole", True), ("small", True)]
)
def test_stored_types(stored: str, zeros: str, scales: bool, target: str) -> None:
    targets = {"AVX-512": AVX512, "AVX-VNNI": AVX_VNNI, "AVX2": AVX2, "SSE4": LEVELS["x86-64-v2"]}
    given = targets.get(target, host_target())
    if not runnable(given):
        pytest.skip("another processor")
    generator = np.random.default_rng(1)
    for (columns, inner, group), rows in product(SIZES, ROWS):
        weights = matrix(generator, stored, columns, inner, group, zeros, scales)
        spec = dots_of(weights, rows, given)
        is_wide = scales and group == 512 and weights.element_type.bits == 8
        if (is_wide or rows > FEW) and dot_method_of(given)[0] == PAIRS:
            assert spec is None  # such sums are more than 32 bits hold, or f32 takes less time
            continue
        assert spec is not None
        x = numbers(rows, inner)
        hold(multiplied(weights, x, target=given), weights, x, spec.unit)


@pytest.mark.parametrize("target", ["AVX-512", "AVX-VNNI"])
@pytest.mark.parametrize("stored", ["i8", "u4"])
@pytest.mark.parametrize(
    ("activations", "error"), [("f32", 2.0**-24), ("i16", 2.0**-15), ("i8", 2.0**-7)]
)
def test_many_rows(activations: str, error: float, stored: str, target: str) -> None:
    """They fill tiles or not, lie beside each other or not, and meet several panels where a second
    cache does not hold their digits; the last panels are fewer and not full. The last row has no
    digits, so that those after it, which fill its tile, have none.
    """
    given = {"AVX-512": AVX512, "AVX-VNNI": AVX_VNNI}[target]
    if not runnable(given):
        pytest.skip("another processor")
    generator = np.random.default_rng(3)
    beside = set()
    for (columns, inner, group), rows in product(
        [(70, 40, 0), (400, 2048, 1024), (131, 4096, 128)], [9, 13, 17, 135]
    ):
        weights = matrix(generator, stored, columns, inner, group, "small")
        linear = find("MatMul", 1)(transpose_b=True)
        operation = CompressedLinear(linear, weights, activations=activations)
        x = numbers(rows, inner)
        x[-1, 3] = np.inf
        results, choice = run_native(operation, [spec_of(x, ElementType.f32)], target=given)
        assert isinstance(choice, KernelPlan) and results is not None, choice
        spec = next(spec for spec, _ in choice.calls if isinstance(spec, DotRows))
        assert spec.panels(inner, inner // group if group else 1) > 1
        beside.add(spec.beside)
        hold(results[0][:-1], weights, x[:-1], spec.unit, error)
        assert not np.isfinite(results[0][-1]).any()
    assert beside == {8 if given is AVX512 and activations == "i8" else 1}


@pytest.mark.parametrize(
    ("zeros", "group", "rows", "digits"),
    [("any", 32, 31, True), ("any", 32, 32, False), ("", 32, 32, True), ("any", 64, 99, True)],
)
def test_short_runs_of_many_rows(zeros: str, group: int, rows: int, digits: bool) -> None:
    """Eight instructions turn the sums of a run into its part of the total, and 24 products are
    multiplied before: as many as there are numbers in a run of 32.
    """
    weights = matrix(np.random.default_rng(4), "u4", 40, 256, group, zeros and "small")
    assert isinstance(dots_of(weights, rows, AVX512), DotRows) == digits
    amx = replace(AVX512, features=f"{AVX512.features},+amx-tile,+amx-int8", tiles=True)
    assert isinstance(dots_of(weights, rows, amx), DotRows)


@pytest.mark.parametrize("target", ["host", "AVX-512", "AVX-VNNI", "AVX2", "SSE4"])
@pytest.mark.parametrize("stored", ["small book", "large book"])
def test_tables(stored: str, target: str) -> None:
    """Of numbers that are whole multiples of a unit; others stay f32, and so do all but one or two
    rows by numbers of two bytes in products of bytes, and all but a few by pairs of 16 bits.
    """
    targets = {"AVX-512": AVX512, "AVX-VNNI": AVX_VNNI, "AVX2": AVX2, "SSE4": LEVELS["x86-64-v2"]}
    given = targets.get(target, host_target())
    if not runnable(given):
        pytest.skip("another processor")
    four = dot_method_of(given)[0] == FOUR_MIXED
    generator = np.random.default_rng(1)
    for (columns, inner, group), rows in product(SIZES, ROWS):
        if group == 512:
            continue
        weights = matrix(generator, stored, columns, inner, group)
        spec = dots_of(weights, rows, given)
        x = numbers(rows, inner)
        few = 2 if stored == "large book" else max(ROWS)
        if rows > (few if four else FEW):
            assert spec is None
            continue
        assert spec is not None
        left_out = 2.0**-23 if four and stored == "large book" else 0.0
        hold(multiplied(weights, x, target=given), weights, x, spec.unit, left_out=left_out)
        assert weights.numbers is not None
        weights.numbers[3] = np.float32(1 / 3)
        assert dots_of(weights, rows, given) is None


@pytest.mark.parametrize("target", ["AVX-512", "AVX-VNNI"])
@pytest.mark.parametrize(("activations", "error"), [("i16", 2.0**-15), ("i8", 2.0**-7)])
def test_tables_of_two_bytes(activations: str, error: float, target: str) -> None:
    """One or two rows meet each byte of the numbers, rounded or not; more stay f32."""
    given = {"AVX-512": AVX512, "AVX-VNNI": AVX_VNNI}[target]
    if not runnable(given):
        pytest.skip("another processor")
    generator = np.random.default_rng(1)
    for columns, inner, group in SIZES:
        weights = matrix(generator, "large book", columns, inner, group)
        linear = find("MatMul", 1)(transpose_b=True)
        operation = CompressedLinear(linear, weights, activations=activations)
        for rows in (1, 2, 5):
            x = numbers(rows, inner)
            results, choice = run_native(operation, [spec_of(x, ElementType.f32)], target=given)
            assert isinstance(choice, KernelPlan) and results is not None, choice
            kernels = [spec for spec, _ in choice.calls]
            assert any(isinstance(spec, DotFew) for spec in kernels) == (rows <= 2)
            hold(results[0], weights, x, 32 if activations == "i8" else group or 256, error)


@pytest.mark.parametrize("factor", [1e-30, 1e-4, 30.0, 1000.0, 1e12])
def test_numbers_of_many_sizes(factor: float) -> None:
    """One of a run is much larger, or runs differ."""
    weights = matrix(np.random.default_rng(2), "i8", 40, 512)
    spec = dots_of(weights, 6)
    if spec is None:
        pytest.skip("the processor has no products of four bytes")
    x = numbers(6, 512)
    x[0, 3] *= factor
    x[1, :256] *= factor
    x[2, 7::256] = factor
    x[3] = 0
    x[4, 256:] = 0
    got = multiplied(weights, x)
    # A row whose runs have no digits is f32's.
    hold(np.delete(got, 1, 0), weights, np.delete(x, 1, 0), spec.unit)
    np.testing.assert_allclose(got[1], x[1].astype(np.float64) @ weights.values().T, rtol=1e-3)
    assert not got[3].any()


def test_as_near_as_f32() -> None:
    """At most twice as far from the exact product as sums of f32 numbers in order."""
    generator = np.random.default_rng(3)
    for stored, group in (("i8", 0), ("u4", 128)):
        weights = matrix(generator, stored, 96, 1024, group, "small")
        if dots_of(weights, 5) is None:
            pytest.skip("the processor has no products of four bytes")
        x = generator.standard_normal((16, 1024)).astype(np.float32)
        w = weights.values()
        expected = x.astype(np.float64) @ w.astype(np.float64).T
        by_f32 = np.abs(np.cumsum(x[:, None] * w, axis=2, dtype=np.float32)[:, :, -1] - expected)
        for rows in (1, 2, 16):
            by_dots = np.abs(multiplied(weights, x[:rows]) - expected[:rows])
            assert by_dots.max() <= 2 * by_f32[:rows].max()


@pytest.mark.parametrize("stored", ["i8", "u4"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38, 1e-44])
def test_rows_without_digits(stored: str, bad: float) -> None:
    """They are what the reference has; their neighbours are as if they were not there."""
    weights = matrix(np.random.default_rng(4), stored, 37, 288, 32, "small")
    x = numbers(9, 288)
    alone = multiplied(weights, x)
    x[2] = 0 if bad < 1e-40 else x[2]
    x[2, 30] = x[5, 287] = bad
    operation = CompressedLinear(find("MatMul", 1)(transpose_b=True), weights)
    with np.errstate(all="ignore"):
        expected = operation.evaluate([spec_of(x, ElementType.f32)])[0].value
    got = multiplied(weights, x)
    np.testing.assert_allclose(got[[2, 5]], expected[[2, 5]], rtol=2e-5, atol=1e-5)
    others = [row for row in range(9) if row not in (2, 5)]
    np.testing.assert_array_equal(got[others], alone[others])
    few, three = multiplied(weights, x[1:4]), multiplied(weights, x[[1, 0, 3]])
    np.testing.assert_allclose(few[1], expected[2], rtol=2e-5, atol=1e-5)
    np.testing.assert_array_equal(few[[0, 2]], three[[0, 2]])
    np.testing.assert_allclose(multiplied(weights, x[5:6]), expected[5:6], rtol=2e-5, atol=1e-5)


def test_what_ends_a_row_without_digits() -> None:
    """A bias, an activation and a residual, over what was written before."""
    weights = matrix(np.random.default_rng(5), "i4", 41, 64)
    add, relu = find("Add", 1)(), find("ReLU", 1)()
    members = [FusedMember(add, (0, 1)), FusedMember(relu, (3,)), FusedMember(add, (4, 2))]
    operation = FusedCompressedLinear(
        CompressedLinear(find("MatMul", 1)(transpose_b=True), weights), 1, members
    )
    x = numbers(6, 64)
    x[4, 9] = np.inf
    others = [numbers(41), numbers(6, 41)]
    specs = [spec_of(array, ElementType.f32) for array in (x, *others)]
    results, choice = run_native(operation, specs)
    assert isinstance(choice, KernelPlan), choice
    assert results is not None
    with np.errstate(all="ignore"):
        expected = operation.evaluate(specs)[0].value
    np.testing.assert_allclose(results[0], expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"stored": "f16"},
        {"zeros": "broken"},
        {"half": True},
        {"scale": 2.0**50},
        {"scale": 2.0**-50},
        {"scale": np.inf},
        {"scale": np.nan},
        {"inner": 250},
        {"group": 16},
        {"target": AVX2, "rows": 16},
        {"target": AVX2, "group": 512, "inner": 1024},
        {"target": LEVELS["x86-64-v4"]},
        {"target": LEVELS["x86-64"]},
    ],
)
def test_what_f32_takes(change: dict[str, object]) -> None:
    """Weights that are rounded to f16, or are no whole numbers, or may overflow, short
    groups, words that columns share; many rows, sums of more than 32 bits, and processors for which
    pairs take as long.
    """
    given = {"rows": 8, "stored": "i8", "inner": 256, "target": AVX512} | change
    weights = matrix(
        np.random.default_rng(6),
        str(given["stored"]),
        16,
        int(given["inner"]),  # type: ignore[call-overload]
        int(given.get("group", 0)),  # type: ignore[call-overload]
        str(given.get("zeros", "")),
        half=bool(given.get("half")),
    )
    if "scale" in given:
        assert weights.scales is not None
        weights.scales[-1] = given["scale"]
    assert isinstance(given["target"], Target)
    assert dots_of(weights, int(given["rows"]), given["target"]) is None  # type: ignore[call-overload]


def test_what_whole_numbers_take() -> None:
    """The case above without any change, and a scale of nothing."""
    weights = matrix(np.random.default_rng(6), "i8", 16, 256)
    assert dots_of(weights, 8, AVX512) is not None
    assert weights.scales is not None
    weights.scales[-1] = 0
    assert dots_of(weights, 8, AVX512) is not None


@pytest.mark.parametrize("stored", ["i8", "u8", "i4", "u4"])
def test_neon_compiles(stored: str) -> None:
    """Signed products of four bytes, which this machine need not have."""
    weights = matrix(np.random.default_rng(7), stored, 16, 256, 64, "small")
    few, many = dots_of(weights, 2, NEON), dots_of(weights, 8, NEON)
    assert isinstance(few, DotFew) and isinstance(many, DotRows)
    assert few.blocks.how == many.how == FOUR_SIGNED
    for spec in (
        few,
        BlockDigits(few.blocks, 64),
        many,
        Digits(many.unit, many.per_word == 8, many.rows),
    ):
        text = llvm_text(spec, NEON)
        assert "sdot" in text or isinstance(spec, (BlockDigits, Digits))
        try:
            assert objects(text, (AARCH64[0], NEON.cpu))
        except RuntimeError as error:  # an LLVM that has no such processors
            pytest.skip(str(error))
