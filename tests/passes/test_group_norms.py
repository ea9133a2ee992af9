"""The parts of a group normalisation become one layer, which ends with what follows: what does,
what stays apart, and that the results are those of the formula.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.ir.model import Source

GENERATOR = np.random.default_rng(8)
EPSILON = 1e-3
SHAPE = [2, 12, 5, 9]


def numbers(*shape: int) -> np.ndarray:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def expected(x: np.ndarray, groups: int, scale: object, shift: object) -> np.ndarray:
    parts = x.astype(np.float64).reshape(x.shape[0], groups, -1)
    spread = parts.var(axis=2, keepdims=True) + EPSILON
    normal = (parts - parts.mean(axis=2, keepdims=True)) / np.sqrt(spread)
    return normal.reshape(x.shape) * scale + shift


def mvn(b: uncork.Builder, x: Source, axes: list[int], mode: str = "inside_sqrt") -> Source:
    along = b.constant(np.array(axes, np.int64))
    return b.add("MVN", 6, x, along, normalize_variance=True, eps=EPSILON, eps_mode=mode)[0]


def shaped(b: uncork.Builder, x: Source, sizes: list[int]) -> Source:
    return b.add("Reshape", 1, x, b.constant(np.array(sizes, np.int64)), special_zero=True)[0]


def joined(b: uncork.Builder, kind: str, x: Source, value: np.ndarray) -> Source:
    return b.add(kind, 1, x, b.constant(value))[0]


def run(b: uncork.Builder, y: Source, *arrays: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The operations of the steps, and the result."""
    b.result(y, "y")
    compiled = compile_model(b.model())
    result = compiled(*arrays)["y"]
    return [step.operation for step in compiled.plan.steps], result


@pytest.mark.parametrize("sizes", [SHAPE, [-1, 12, -1, 9], [-1, 12, -1, -1]])
def test_groups_with_scales_of_both_kinds(sizes: list[int]) -> None:
    b = uncork.Builder()
    x = b.parameter("x", "f32", sizes)
    of_groups, of_channels = numbers(2, 4, 1), numbers(2, 12, 1, 1)
    y = mvn(b, shaped(b, x, [0, 4, -1]), [2])
    y = joined(b, "Add", joined(b, "Multiply", y, of_groups[0]), of_groups[1])
    y = b.add("Reshape", 1, y, b.add("ShapeOf", 3, x)[0], special_zero=False)[0]
    y = joined(b, "Add", joined(b, "Multiply", y, of_channels[0]), of_channels[1])
    given = numbers(*SHAPE)
    operations, got = run(b, y, given)
    inner, outer = (np.repeat(n, 3, axis=0).reshape(12, 1, 1) for n in of_groups), of_channels
    scale, shift = inner
    want = expected(given, 4, scale * outer[0], shift * outer[0] + outer[1])
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    assert operations == ["GroupNormalization-12"]


def test_each_channel_is_a_group_and_an_activation_follows() -> None:
    b = uncork.Builder()
    scale, shift = numbers(12, 1, 1), numbers(1, 12, 1, 1)
    y = mvn(b, b.parameter("x", "f32", SHAPE), [-1, 2])
    y = joined(b, "Add", joined(b, "Multiply", y, scale), shift)
    given = numbers(*SHAPE)
    operations, got = run(b, b.add("Swish", 4, y)[0], given)
    normal = expected(given, 12, scale, shift)
    np.testing.assert_allclose(got, normal / (1 + np.exp(-normal)), rtol=2e-5, atol=2e-5)
    assert operations == ["FusedNormalization-0"]


def test_a_residual_and_bounds_end_it() -> None:
    b = uncork.Builder()
    x, other = (b.parameter(name, "f32", SHAPE) for name in ("x", "other"))
    scale, shift = numbers(12), numbers(12)
    y = b.add(
        "GroupNormalization",
        12,
        *(x, b.constant(scale), b.constant(shift)),
        num_groups=3,
        epsilon=EPSILON,
    )[0]
    y = b.add("Add", 1, other, b.add("Multiply", 1, y, b.constant(numbers(12, 1, 1) * 0 + 2))[0])[0]
    y = b.add("Clamp", 1, y, min=-0.5, max=float("inf"))[0]
    given, more = numbers(*SHAPE), numbers(*SHAPE)
    operations, got = run(b, y, given, more)
    normal = expected(given, 3, scale.reshape(12, 1, 1), shift.reshape(12, 1, 1))
    np.testing.assert_allclose(got, np.maximum(normal * 2 + more, -0.5), rtol=2e-5, atol=2e-5)
    assert operations == ["FusedNormalization-0"]


@pytest.mark.parametrize("case", ["other axes", "other epsilon", "of elements", "read elsewhere"])
def test_what_comes_near_stays(case: str) -> None:
    b = uncork.Builder()
    x = b.parameter("x", "f32", SHAPE)
    parts = shaped(b, x, [0, 4, -1])
    y = mvn(
        *(b, parts, [1, 2] if case == "other axes" else [2]),
        *(["outside_sqrt"] if case == "other epsilon" else []),
    )
    if case == "of elements":
        y = joined(b, "Multiply", y, numbers(4, 135))
    if case == "read elsewhere":
        b.result(y, "also")
    y = joined(b, "Add", shaped(b, y, SHAPE), numbers(12, 1, 1))
    b.result(y, "y")
    fast, slow = (compile_model(b.model(), backend=name) for name in ("cpu", "reference"))
    given = numbers(*SHAPE)
    np.testing.assert_allclose(fast(given)["y"], slow(given)["y"], rtol=2e-5, atol=2e-5)
    assert "MVN-6" in [step.operation for step in fast.plan.steps]
