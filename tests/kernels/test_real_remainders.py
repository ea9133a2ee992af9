"""Remainders of floats, bit by bit those of C, and sines of all angles, at every vector width."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.kernels.runtime.target import level_of, levels_here

GENERATOR = np.random.default_rng(3)
TARGETS = [str(level_of(target)) for target in levels_here()]
EDGES = np.array(
    [0, 1, 3, 6, 0.7, np.inf, np.nan, 1e-45, 1.1754944e-38, 3.4e38, 1 + 2**-23], np.float32
)
EDGES = np.concatenate([EDGES, -EDGES])


def any_floats(count: int) -> np.ndarray:
    """Floats of all sizes, infinity, NaN and subnormal numbers among them."""
    return GENERATOR.integers(0, 1 << 32, count).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("type_name", "exact"), [("Mod", np.fmod), ("FloorMod", np.mod)])
def test_remainders_are_exact(type_name: str, exact: np.ufunc, target: str) -> None:
    near = GENERATOR.integers(-50, 50, (2, 3000)).astype(np.float32)
    a = np.concatenate([any_floats(20000), np.repeat(EDGES, len(EDGES)), near[0], near[0] * 0.1])
    b = np.concatenate([any_floats(20000), np.tile(EDGES, len(EDGES)), near[1], near[1] * 0.1])
    builder = uncork.Builder()
    x, y = (builder.parameter(name, "f32", [-1]) for name in ("x", "y"))
    builder.result(builder.add(type_name, 1, x, y)[0], "z")
    compiled = compile_model(builder.model(), target=target)
    got = compiled(a, b)["z"]
    with np.errstate(all="ignore"):
        want = exact(a, b)
    assert all(step.kernel != "reference" for step in compiled.plan.steps)
    np.testing.assert_array_equal(got, want)
    some = ~np.isnan(want)
    assert (np.signbit(got) == np.signbit(want))[some].all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("type_name", "exact"), [("Sin", np.sin), ("Cos", np.cos)])
def test_sines_of_all_angles(type_name: str, exact: np.ufunc, target: str) -> None:
    wide = np.outer(GENERATOR.standard_normal(5000), [1, 100, 1e6]).reshape(-1)
    turns = np.arange(-5000, 5000) * (np.pi / 2)
    some_angles = np.concatenate([wide, turns]).astype(np.float32)
    x = np.concatenate([any_floats(20000), some_angles, EDGES])
    x = x[~(np.abs(x) >= 2.0**40) | ~np.isfinite(x)]
    builder = uncork.Builder()
    angle = builder.parameter("x", "f32", [-1])
    builder.result(builder.add(type_name, 1, angle)[0], "y")
    got = compile_model(builder.model(), target=target)(x)["y"]
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64))
    some = np.isfinite(x)
    assert np.isnan(got[~some]).all()
    unit = np.spacing(np.abs(want[some]).astype(np.float32)).astype(np.float64)
    assert (np.abs(got[some] - want[some]) <= 0.51 * unit).all()


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("length", [49, 64, 100, 1000])
def test_long_rows_are_searched(length: int, right: bool) -> None:
    borders = np.sort(GENERATOR.integers(-200, 200, length)).astype(np.float32)
    values = np.concatenate([borders, GENERATOR.uniform(-250, 250, 501), EDGES]).astype(np.float32)
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [-1])
    builder.result(
        builder.add(
            "Bucketize",
            3,
            *(x, builder.constant(borders)),
            output_type="i64",
            with_right_bound=right,
        )[0],
        "y",
    )
    compiled = compile_model(builder.model())
    want = np.searchsorted(borders, values, "left" if right else "right")
    assert compiled(values)["y"].tolist() == want.tolist()
    assert all(step.kernel != "reference" for step in compiled.plan.steps)
