"""Kernels of products and of attention over tensors of bf16, beside the same sums in f64."""

from __future__ import annotations

from collections.abc import Callable
from math import erf

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import bits, run_fenced
from tests.kernels._run import run_native
from uncork import storage
from uncork.internal_ops.attention import FusedAttention, Scoring
from uncork.internal_ops.fused import FusedLinear, FusedMember
from uncork.internal_ops.held import HeldAttention, HeldProduct
from uncork.kernels import select
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target, host_target
from uncork.kernels.stored_types import multiplies_pairs
from uncork.ops import Operation
from uncork.ops.activation import Gelu7, HSigmoid, HSwish, Mish, Sigmoid, Swish
from uncork.ops.arithmetic import Add
from uncork.ops.attention import ScaledDotProductAttention
from uncork.ops.matmul import MatMul
from uncork.ops.unary import Tanh
from uncork.types import ElementType, PartialShape, TensorSpec

F32, BF16 = ElementType.f32, ElementType.bf16
needs_pairs = pytest.mark.skipif(
    not multiplies_pairs(host_target()), reason="the processor has no products of bf16"
)


def known(value: np.ndarray, element_type: ElementType = F32) -> TensorSpec:
    return TensorSpec(element_type, PartialShape(value.shape), value)


def halves(value: np.ndarray) -> TensorSpec:
    return known(storage.encode(value.astype(np.float32), BF16), BF16)


def numbers(spec: TensorSpec) -> np.ndarray:
    assert spec.value is not None
    return storage.decode(spec.value, spec.element_type).astype(np.float64)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def rounded(value: np.ndarray) -> np.ndarray:
    """What bf16 makes of numbers: 8 digits, ties to even."""
    bits = np.ascontiguousarray(value, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def result_of(operation: HeldProduct | HeldAttention, specs: list[TensorSpec]) -> np.ndarray:
    found, selection = run_native(operation, specs)
    assert found is not None, selection
    assert isinstance(selection, KernelPlan)
    assert "pairs" in selection.kernel
    return storage.decode(found[0], operation.result).astype(np.float64)


@needs_pairs
@pytest.mark.parametrize("result", [F32, BF16], ids=str)
@pytest.mark.parametrize("rows", [1, 3, 8, 21])
@pytest.mark.parametrize(("inner", "columns"), [(2, 1), (64, 48), (66, 50), (130, 7), (6000, 49)])
def test_products(rows: int, inner: int, columns: int, result: ElementType) -> None:
    x, w = halves(random(rows, inner)), random(columns, inner, seed=1)
    operation = HeldProduct(MatMul(transpose_b=True), result)
    expected = numbers(x) @ rounded(w).T
    found = result_of(operation, [x, known(w)])
    assert found.shape == expected.shape
    most = abs(numbers(x)) @ abs(rounded(w)).T
    last = abs(expected) * 2**-8 if result is BF16 else 0
    assert (abs(found - expected) <= most * 1e-6 + last).all()


@needs_pairs
@pytest.mark.parametrize("result", [F32, BF16], ids=str)
def test_residuals_have_the_type_of_the_result(result: ElementType) -> None:
    x, w, bias = halves(random(9, 32)), random(32, 70, seed=1), random(70, seed=2)
    residual = random(9, 70, seed=3)
    other = halves(residual) if result is BF16 else known(residual)
    members = [FusedMember(Add(), (0, 1)), FusedMember(Add(), (3, 2))]
    operation = HeldProduct(FusedLinear(MatMul(), 2, members), result)
    expected = numbers(x) @ rounded(w) + bias + numbers(other)
    found = result_of(operation, [x, known(w), known(bias), other])
    assert np.allclose(found, expected, rtol=2**-8 if result is BF16 else 0, atol=2e-5)
    wrong = known(residual) if result is BF16 else halves(residual)
    refused, why = run_native(operation, [x, known(w), known(bias), wrong])
    assert refused is None
    assert "an operand of" in str(why)


@needs_pairs
def test_a_rough_gelu_is_that_of_rounded_results() -> None:
    """At most 7e-5 of the argument off, and f32's last digit of it far out."""
    x = np.zeros((64, 2), np.float32)
    x[:, 0] = np.concatenate([np.linspace(-6, 6, 60), [-1e30, -50, 50, 1e30]])
    operation = HeldProduct(
        FusedLinear(MatMul(), 2, [FusedMember(Gelu7(approximation_mode="ERF"), (0,))]), BF16
    )
    given = halves(x)
    found = result_of(operation, [given, known(np.array([[1.0], [0.0]], np.float32))])[:, 0]
    exact = numbers(given)[:, 0]
    expected = np.array([v * (1 + erf(v / 2**0.5)) / 2 for v in exact])
    last = abs(expected) * 2**-8
    near = abs(exact) <= 6
    assert (abs(found - expected)[near] <= 7e-5 * abs(exact)[near] + last[near] + 1e-7).all()
    assert (abs(found - expected)[~near] <= 2e-7 * abs(exact)[~near] + last[~near]).all()


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


#: Activations that have a rougher way where results are rounded, and their formulas in f64.
ROUGH: dict[str, tuple[Operation, Callable[[np.ndarray], np.ndarray]]] = {
    "sigmoid": (Sigmoid(), _sigmoid),
    "tanh": (Tanh(), np.tanh),
    "swish": (Swish(), lambda x: x * _sigmoid(x)),
    "hsigmoid": (HSigmoid(), lambda x: np.clip(x + 3, 0, 6) / 6),
    "hswish": (HSwish(), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "mish": (Mish(), lambda x: x * np.tanh(np.logaddexp(0, x))),
    "gelu by tanh": (
        Gelu7(approximation_mode="TANH"),
        lambda x: x * _sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
    ),
}


@needs_pairs
@pytest.mark.parametrize("columns", [1, 16])
@pytest.mark.parametrize("name", ROUGH)
def test_rough_activations_of_every_bf16(name: str, columns: int) -> None:
    """What is rounded is at most 2.5e-4 of the exact number off: an eighth of half the smallest
    step of bf16.
    """
    activation, formula = ROUGH[name]
    bits = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):  # of NaN that signal
        every = storage.decode(bits, BF16).astype(np.float64)
    normal = (every == 0) | (abs(every) >= 2.0**-126) & np.isfinite(every)
    x = np.zeros((len(bits), 2), np.uint16)
    x[:, 0] = np.where(normal | np.isnan(every), bits, 0)
    weights = np.zeros((2, columns), np.float32)
    weights[0] = 1
    operation = HeldProduct(FusedLinear(MatMul(), 2, [FusedMember(activation, (0,))]), BF16)
    found = result_of(operation, [known(x, BF16), known(weights)])
    assert (found == found[:, :1]).all(axis=1)[normal].all()
    assert np.isnan(found[np.isnan(every)]).all()
    given, got = every[normal], found[normal, 0]
    with np.errstate(over="ignore", under="ignore"):
        exact = formula(given)
    # What may be taken for 0: of Mish all whose e^x is no normal number.
    least = 2.0**-119 if name == "mish" else 2.0**-120
    tiny = abs(exact) < least
    assert (abs(got[tiny]) <= least).all()
    exact, got = exact[~tiny], got[~tiny]
    half_step = 2.0 ** (np.floor(np.log2(abs(exact))) - 8)
    assert (abs(got - exact) <= half_step + 2.5e-4 * abs(exact)).all()


@needs_pairs
@pytest.mark.parametrize("beta", [-1.5, 0.0, 1.702])
def test_a_rough_swish_with_beta(beta: float) -> None:
    """Beta is an operand of the end."""
    x = np.zeros((256, 2), np.float32)
    x[:, 0] = np.linspace(-40, 40, 256)
    operation = HeldProduct(FusedLinear(MatMul(), 2, [FusedMember(Swish(), (0, 1))]), BF16)
    data, weights = halves(x), known(np.eye(2, 5, dtype=np.float32))
    found = result_of(operation, [data, weights, known(np.array(beta, np.float32))])[:, 0]
    given = numbers(data)[:, 0]
    exact = given * _sigmoid(float(np.float32(beta)) * given)
    assert (abs(found - exact) <= abs(exact) * (2**-8 + 2.5e-4) + 1e-30).all()


@needs_pairs
def test_numbers_that_are_none() -> None:
    x = np.ones((3, 4), np.float32)
    x[1, 2], x[2, 3] = np.nan, np.inf
    found = result_of(HeldProduct(MatMul(), BF16), [halves(x), known(np.ones((4, 5), np.float32))])
    assert found[0].tolist() == [4.0] * 5
    assert np.isnan(found[1]).all()
    assert (found[2] == np.inf).all()


def attention_of(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, causal: bool
) -> np.ndarray:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ v)


@needs_pairs
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("targets", "sources"), [(1, 5), (7, 7), (16, 33), (70, 301), (9, 64)])
@pytest.mark.parametrize(("size", "depth"), [(64, 64), (32, 40), (2, 5)])
def test_attention(
    size: int, depth: int, targets: int, sources: int, masked: bool, causal: bool
) -> None:
    if causal and masked:
        pytest.skip("a causal attention takes no mask")
    q, k, v = (
        halves(random(2, 3, n, d, seed=s))
        for s, (n, d) in enumerate([(targets, size), (sources, size), (sources, depth)])
    )
    mask = np.where(random(2, 1, targets, sources, seed=9) > -1, 0, -np.inf).astype(np.float32)
    mask[..., 0] = 0.5
    specs = [q, k, v, *([known(mask)] if masked else [])]
    expected = attention_of(numbers(q), numbers(k), numbers(v), mask if masked else None, causal)
    operation = HeldAttention(ScaledDotProductAttention(causal=causal), BF16)
    found, selection = run_native(operation, specs)
    assert found is not None, selection
    # Weights are rounded, and the sums: each by half of the last of 8 digits.
    most = attention_of(numbers(q), numbers(k), abs(numbers(v)), mask if masked else None, causal)
    error = abs(storage.decode(found[0], BF16) - expected)
    assert (error <= 2**-7 * most).all()


@needs_pairs
@pytest.mark.parametrize("rows", [1, 5, 49])
def test_attention_with_a_mask_for_each_window(rows: int) -> None:
    """Three windows of two pictures: the mask has one for each window, which both pictures read."""
    q, k, v = (halves(random(6, 2, rows, 32, seed=s)) for s in range(3))
    mask = np.where(random(3, 1, rows, rows, seed=9) > 0, 0, -100).astype(np.float32)
    attention = FusedAttention(ScaledDotProductAttention(causal=False), recurs=True)
    found, selection = run_native(HeldAttention(attention, BF16), [q, k, v, known(mask)])
    assert found is not None, selection
    both = np.concatenate([mask, mask])
    expected = attention_of(numbers(q), numbers(k), numbers(v), both, False)
    most = attention_of(numbers(q), numbers(k), abs(numbers(v)), both, False)
    assert (abs(storage.decode(found[0], BF16) - expected) <= 2**-7 * most).all()


@needs_pairs
@pytest.mark.parametrize("rows", [1, 5, 49])
def test_attention_whose_scores_have_a_cap(rows: int) -> None:
    q, k, v = (halves(random(2, 3, count, 32, seed=s)) for s, count in enumerate((rows, 21, 21)))
    attention = FusedAttention(ScaledDotProductAttention(causal=False), scoring=Scoring(0.7, 1.5))
    found, selection = run_native(HeldAttention(attention, BF16), [q, k, v])
    assert found is not None, selection
    scores = 1.5 * np.tanh(0.7 * numbers(q) @ numbers(k).swapaxes(-1, -2))
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    error = abs(storage.decode(found[0], BF16) - weights @ numbers(v))
    assert (error <= 2**-7 * (weights @ abs(numbers(v)))).all()


@needs_pairs
def test_values_that_are_none_spread_where_they_are_seen() -> None:
    """The last key stands alone in its pair; what lies beside it counts as 0."""
    q, k, v = (random(1, 1, 5, 16, seed=s) for s in range(3))
    v[0, 0, 4, 3] = np.inf
    given = [halves(array) for array in (q, k, v)]
    causal = HeldAttention(ScaledDotProductAttention(causal=True), BF16)
    found, _ = run_native(causal, given)
    assert found is not None
    result = storage.decode(found[0], BF16)[0, 0]
    assert result[4, 3] == np.inf
    assert np.isfinite(result[:, :3]).all()


def between_fences(
    operation: HeldProduct | HeldAttention, specs: list[TensorSpec], tiles: bool = False
) -> np.ndarray:
    """The result, which reads and writes nothing outside, whoever makes its parts."""
    outputs, target = operation.describe(specs), host_target(tiles)
    outputs = [TensorSpec(o.element_type, o.shape) for o in outputs]
    chosen = select.select_kernel(operation, specs, outputs, target)
    assert isinstance(chosen, KernelPlan), chosen
    assert not tiles or "tiles" in chosen.kernel
    ways = [(first, threads) for first in (False, True) for threads in (1, 3)]
    results = [run_fenced(chosen, specs, outputs, *way, target) for way in ways]
    assert len({tuple(bits(found) or ()) for found in results}) == 1
    assert results[0] is not None
    return storage.decode(results[0][0], operation.result).astype(np.float64)


@needs_pairs
@pytest.mark.parametrize("result", [F32, BF16], ids=str)
@pytest.mark.parametrize("inner", [2, 34, 66])
def test_products_between_fences(inner: int, result: ElementType) -> None:
    for rows in (1, 2, 7, 13):
        for columns in (1, 15, 17, 49, 65):
            x, w, bias = halves(random(rows, inner)), random(inner, columns), random(columns)
            residual = random(rows, columns, seed=3)
            other = halves(residual) if result is BF16 else known(residual)
            given, expected = [x, known(w), known(bias)], numbers(x) @ rounded(w) + bias
            members = [FusedMember(Add(), (0, 1))]
            if result is F32 or min(rows, columns) > 1:  # numbers of rows and of columns are f32
                members.append(FusedMember(Add(), (3, 2)))
                given.append(other)
                expected = expected + numbers(other)
            operation = HeldProduct(FusedLinear(MatMul(), 2, members), result)
            found = between_fences(operation, given)
            near = 2**-8 if result is BF16 else 0
            np.testing.assert_allclose(found, expected, rtol=near, atol=2e-5)


@needs_pairs
@pytest.mark.parametrize(("size", "depth"), [(16, 16), (6, 20), (34, 3)])
def test_attention_between_fences(size: int, depth: int) -> None:
    for targets in (1, 5, 17):
        for sources in (1, 2, 15, 16, 33, 65):
            sizes = [(targets, size), (sources, size), (sources, depth)]
            q, k, v = (halves(random(2, 2, n, d, seed=s)) for s, (n, d) in enumerate(sizes))
            mask = random(2, 1, targets, sources, seed=9)
            operation = HeldAttention(ScaledDotProductAttention(causal=False), BF16)
            found = between_fences(operation, [q, k, v, known(mask)])
            expected = attention_of(numbers(q), numbers(k), numbers(v), mask, False)
            most = attention_of(numbers(q), numbers(k), abs(numbers(v)), mask, False)
            assert (abs(found - expected) <= 2**-7 * most).all()


def test_references_round_as_kernels_do() -> None:
    x, w = halves(random(4, 6)), random(6, 3, seed=1)
    for result in (F32, BF16):
        (made,) = HeldProduct(MatMul(), result).evaluate([x, known(w)])
        expected = numbers(x) @ rounded(w)
        if result is BF16:
            expected = rounded(expected)
        assert made.element_type is result
        assert np.allclose(numbers(made), expected, rtol=2**-7 if result is BF16 else 1e-6)


def test_other_processors_have_no_kernel() -> None:
    x, w = halves(random(4, 6)), known(random(6, 3, seed=1))
    q = halves(random(2, 3, 4))
    older = Target.of("x86_64", "x86-64-v4", "+avx512f,+avx512bw")
    for operation, given in (
        (HeldProduct(MatMul(), F32), [x, w]),
        (HeldAttention(ScaledDotProductAttention(causal=False), BF16), [q, q, q]),
    ):
        found, why = run_native(operation, given, target=older)
        assert found is None
        assert why == "no products of bf16 on this machine"
