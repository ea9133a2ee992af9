"""Kernels of attention: edge values, blocks that change the largest score, other processors'
vectors, and sizes that only calls know.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from tests.kernels.test_open_sizes import hold
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target, host_target
from uncork.ops import find
from uncork.types import ElementType, TensorSpec

F32 = ElementType.f32
LEAST = np.finfo(np.float32).min
#: Queries and keys for the kernel of few queries, and for that of many.
SIZES = [(1, 40), (3, 600), (20, 40), (60, 700)]


def f32(array: np.ndarray) -> TensorSpec:
    return spec_of(np.ascontiguousarray(array, np.float32), F32)


def tensors(targets: int, sources: int, size: int = 8, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [
        generator.standard_normal((1, 2, rows, size)).astype(np.float32)
        for rows in (targets, sources, sources)
    ]


def attend(
    arrays: list[np.ndarray], *more: TensorSpec, causal: bool = False, target: Target | None = None
) -> np.ndarray:
    operation = find("ScaledDotProductAttention", 13)(causal=causal)
    results, choice = run_native(operation, [*map(f32, arrays), *more], target=target)
    assert isinstance(choice, KernelPlan), choice
    assert results is not None
    return results[0]


def in_f64(arrays: list[np.ndarray], bias: np.ndarray | float = 0.0) -> np.ndarray:
    """The formula, in f64."""
    query, key, value = (array.astype(np.float64) for array in arrays)
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]) + bias
    with np.errstate(invalid="ignore"):
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ value


@pytest.mark.parametrize(("targets", "sources"), SIZES)
def test_a_row_that_may_look_at_nothing(targets: int, sources: int) -> None:
    arrays = tensors(targets, sources)
    mask = np.zeros((targets, sources), np.float32)
    mask[0] = -np.inf
    result = attend(arrays, f32(mask))
    assert np.isnan(result[:, :, 0]).all()
    np.testing.assert_allclose(result[:, :, 1:], in_f64(arrays)[:, :, 1:], rtol=1e-4, atol=1e-6)
    assert np.isnan(attend(arrays, spec_of(mask == 0, ElementType.boolean))[:, :, 0]).all()


@pytest.mark.parametrize("targets", [1, 3, 20, 60])
@pytest.mark.parametrize("causal", [False, True])
def test_sums_over_no_keys_are_0(targets: int, causal: bool) -> None:
    """A sum of nothing is 0, in one plan with calls that have keys."""
    builder = uncork.Builder()
    inputs = [builder.parameter(name, "f32", [1, 2, None, 8]) for name in ("q", "k", "v")]
    (y,) = builder.add("ScaledDotProductAttention", 13, *inputs, causal=causal)
    builder.result(y, "y")
    compiled = uncork.compile_model(builder.model())
    for sources in (targets, 0, targets + 1, 0):
        arrays = tensors(targets, sources)
        bias = np.where(np.tri(targets, sources) > 0, 0, -np.inf) if causal else 0.0
        expected = in_f64(arrays, bias) if sources else np.zeros((1, 2, targets, 8))
        np.testing.assert_allclose(compiled(*arrays)[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("targets", "sources"), SIZES)
def test_a_row_of_the_least_number_is_the_mean(targets: int, sources: int) -> None:
    """Padding on the left, as transformers mask it: every key weighs the same."""
    arrays = tensors(targets, sources)
    mask = np.zeros((targets, sources), np.float32)
    mask[0] = LEAST
    expected = np.broadcast_to(arrays[2].mean(2), (1, 2, arrays[2].shape[-1]))
    np.testing.assert_allclose(attend(arrays, f32(mask))[:, :, 0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("targets", "sources"), SIZES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_keys_that_are_no_numbers(targets: int, sources: int, bad: float) -> None:
    """A NaN, or an infinity less an infinity, is in every result of its head and in no other's."""
    arrays = tensors(targets, sources)
    arrays[1][0, 1, sources // 2] = bad
    with np.errstate(invalid="ignore"):
        result, expected = (
            attend(arrays),
            find("ScaledDotProductAttention", 13)(causal=False)
            .evaluate([*map(f32, arrays)])[0]
            .value,
        )
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    assert np.isnan(result).any()
    assert not np.isnan(result[0, 0]).any()


@pytest.mark.parametrize(("targets", "sources"), [(3, 600), (20, 40), (60, 700)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_behind_the_last_query(targets: int, sources: int, bad: float) -> None:
    """They weigh nothing, and nothing times infinity is no number: so the formula has it."""
    arrays = tensors(targets, sources)
    assert not np.isnan(attend(arrays, causal=True)).any()
    arrays[2][0, 1, -1] = bad
    result = attend(arrays, causal=True)
    assert np.isnan(result[0, 1]).all()
    assert not np.isnan(result[0, 0]).any()


@pytest.mark.parametrize("place", [0, 511, 512, 1023, 1300])
def test_the_largest_score_is_in_any_block(place: int) -> None:
    for targets in (1, 20):
        arrays = tensors(targets, 1301)
        arrays[1][:, :, place] *= 40.0
        np.testing.assert_allclose(attend(arrays), in_f64(arrays), rtol=2e-4, atol=2e-5)


def test_scores_that_grow_from_block_to_block() -> None:
    """Everything before is scaled down again and again, to nothing at last."""
    for targets in (2, 50):
        arrays = tensors(targets, 2000)
        slope = np.linspace(-300, 300, 2000)
        np.testing.assert_allclose(
            attend(arrays, f32(slope[None])), in_f64(arrays, slope), rtol=2e-4, atol=2e-5
        )


@pytest.mark.parametrize("sink", [-np.inf, -5.0, 100.0])
def test_a_sink(sink: float) -> None:
    for targets in (2, 50):
        arrays = tensors(targets, 70)
        key = np.concatenate([np.zeros(70), [0.0]])
        more = [f32(np.zeros(())), f32(np.float32(8**-0.5)), f32(np.full((1, 1, 1, 1), sink))]
        # One more key without a value, whose logit is the sink.
        wide = [
            arrays[0],
            *(np.concatenate([a, np.zeros_like(a[:, :, :1])], 2) for a in arrays[1:]),
        ]
        key[-1] = sink
        expected = in_f64(wide, key)
        np.testing.assert_allclose(attend(arrays, *more), expected, rtol=2e-4, atol=1e-6)


@pytest.mark.skipif(not host_target().has("avx2"), reason="it takes AVX2")
@pytest.mark.parametrize(
    ("targets", "sources", "size"),
    [(1, 1, 3), (1, 70, 64), (4, 300, 20), (5, 17, 8), (50, 600, 33), (49, 64, 64)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_vectors_of_eight(targets: int, sources: int, size: int, causal: bool) -> None:
    target = Target.of("x86_64", "x86-64-v3", "+sse2,+sse4.2,+avx,+avx2,+fma,+f16c")
    arrays = tensors(targets, sources, size)
    bias = np.where(np.tri(targets, sources) > 0, 0, -np.inf) if causal else 0.0
    np.testing.assert_allclose(
        attend(arrays, causal=causal, target=target), in_f64(arrays, bias), rtol=2e-4, atol=2e-6
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", ["", "f32", "boolean"])
def test_open_sizes(causal: bool, masked: str) -> None:
    """Batches, queries and keys of any number, few and many in turn."""
    generator = np.random.default_rng(1)
    builder = uncork.Builder()
    arrays = [
        builder.parameter(name, "f32", [None, 3, None, 16]) for name in ("query", "key", "value")
    ]
    mask = [builder.parameter("mask", masked, [None, 1, None, None])] if masked else []
    builder.result(
        builder.add("ScaledDotProductAttention", 13, *arrays, *mask, causal=causal)[0], "y"
    )
    calls = []
    for batch, targets, sources in (
        (2, 5, 7),
        (1, 1, 300),
        (3, 4, 17),
        (2, 60, 70),
        (1, 7, 600),
        (1, 1, 2),
    ):
        given = [
            generator.standard_normal((batch, 3, rows, 16)).astype(np.float32)
            for rows in (targets, sources, sources)
        ]
        if masked == "f32":
            given.append(generator.standard_normal((batch, 1, targets, sources)).astype(np.float32))
        elif masked:
            given.append(generator.random((batch, 1, targets, sources)) < 0.9)
            given[-1][..., 0] = True
        calls.append(given)
    hold(
        builder.model(),
        [calls[0], *(call for call in calls[1:] if call[0].shape[0] > 1 or not masked)],
    )
