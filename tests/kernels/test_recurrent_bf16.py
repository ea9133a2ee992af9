"""GRU, LSTM and RNN with factors in bf16: held against a walk in f64 that rounds the same factors,
and against the f32 result.

Tolerances: 2e-3 against the walk (a state near the middle of two bf16 may round either way), 3e-2
against f32 on states of about 1, and 5e-5 where factors are sums of two bf16 ("bf16x3": 16 bits of
each factor).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork

pytest.importorskip("llvmlite")

from tests.kernels import _bf16 as bf16
from tests.kernels import _extremes as extremes
from uncork import functional as F
from uncork.compiler.compile import compile_for
from uncork.kernels.recurrent.select import supports
from uncork.kernels.runtime.target import Target, host_target

F32 = np.float32
available = pytest.mark.skipif(
    not supports("bf16", host_target()), reason="this CPU has no AVX512-BF16"
)


def rounded(values: Any) -> Any:
    """The nearest bf16, ties to even, as f64."""
    bits = np.ascontiguousarray(values, F32).view(np.uint32)
    return (
        ((bits + ((bits >> 16) & 1) + 0x7FFF) & 0xFFFF0000)
        .astype(np.uint32)
        .view(F32)
        .astype(np.float64)
    )


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def walk(cell: str, x: Any, h: Any, c: Any, lengths: Any, w: Any, r: Any, b: Any) -> Any:
    """Ho, by OpenVINO's formulas, one row and one step at a time."""
    hidden = r.shape[1]
    w, r = rounded(w), rounded(r)
    out = []
    for row in range(len(x)):
        state, memory = h[row].astype(np.float64), c[row].astype(np.float64)
        for t in range(lengths[row]):
            gates = w @ rounded(x[row, t])
            if cell == "gru":
                own = r[: 2 * hidden] @ rounded(state)
                z, reset = np.split(sigmoid(gates[: 2 * hidden] + own + b[: 2 * hidden]), 2)
                n = np.tanh(
                    gates[2 * hidden :] + r[2 * hidden :] @ rounded(reset * state) + b[2 * hidden :]
                )
                state = (1 - z) * n + z * state
            elif cell == "gru_after":
                own = r @ rounded(state)
                z, reset = np.split(
                    sigmoid(gates[: 2 * hidden] + own[: 2 * hidden] + b[: 2 * hidden]), 2
                )
                n = np.tanh(
                    gates[2 * hidden :]
                    + b[2 * hidden : 3 * hidden]
                    + reset * (own[2 * hidden :] + b[3 * hidden :])
                )
                state = (1 - z) * n + z * state
            elif cell == "lstm":
                f, i, n, o = np.split(gates + r @ rounded(state) + b, 4)
                memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(n)
                state = sigmoid(o) * np.tanh(memory)
            else:
                state = np.tanh(gates + r @ rounded(state) + b)
        out.append(state)
    return np.array(out)


CELLS = ("gru", "gru_after", "lstm", "rnn")


@available
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (1, 5, 3, 7), (3, 4, 5, 33), (9, 6, 64, 128), (17, 9, 31, 65)]
)
def test_factors_are_rounded_and_nothing_else(cell: str, shape: tuple[int, int, int, int]) -> None:
    compare_with_the_walk(cell, shape, host_target(tiles=True))


def compare_with_the_walk(cell: str, shape: tuple[int, int, int, int], target: Target) -> str:
    """One sequence in bf16 and bf16x3; the plan in bf16."""
    batch, steps, inputs, hidden = shape
    generator = np.random.default_rng(sum(shape))

    def some(*sizes: int) -> Any:
        return generator.standard_normal(sizes).astype(F32)

    gates = {"gru": 3, "gru_after": 3, "lstm": 4, "rnn": 1}[cell]
    w, r = (
        some(gates * hidden, inputs) / F32(np.sqrt(inputs)),
        some(gates * hidden, hidden) / F32(np.sqrt(hidden)),
    )
    b = some((gates + (cell == "gru_after")) * hidden) * F32(0.1)
    builder = uncork.Builder(cell)
    states = ["h", "c"] if cell == "lstm" else ["h"]
    sources = [
        builder.parameter("x", "f32", [batch, steps, inputs]),
        *(builder.parameter(s, "f32", [batch, 1, hidden]) for s in states),
    ]
    sources += [
        builder.parameter("lengths", "i64", [batch]),
        *(builder.constant(a[None]) for a in (w, r, b)),
    ]
    type_name = {"gru_after": "GRUSequence"}.get(cell, f"{cell.upper()}Sequence")
    attributes = {"linear_before_reset": cell == "gru_after"} if cell.startswith("gru") else {}
    for output in builder.add(
        type_name, 5, *sources, hidden_size=hidden, direction="forward", **attributes
    ):
        builder.result(output)
    model = builder.model()
    x, h, c, lengths = (
        some(batch, steps, inputs),
        some(batch, hidden),
        some(batch, hidden),
        generator.integers(0, steps + 1, batch),
    )
    given = [x, h[:, None], *([c[:, None]] if cell == "lstm" else []), lengths]
    compiled = compile_for(model, target, 1, "bf16")
    assert "bf16" in str(compiled.plan.steps)
    expected = walk(cell, x, h, c, lengths, w, r, b)
    expected[lengths == 0] = 0
    full = uncork.compile_model(model)(*given)
    for _ in range(2):  # the second in memory that the first has used
        got = compiled(*given)
        np.testing.assert_allclose(got[1][:, 0], expected, atol=2e-3)
        for one, two in zip(got, full, strict=True):
            np.testing.assert_allclose(one, two, atol=3e-2)
    near = compile_for(model, target, 1, "bf16x3")
    assert ("bf16x3" in str(near.plan.steps)) == ("bf16_all" in str(compiled.plan.steps)), (
        "elsewhere it is slower than f32"
    )
    for _ in range(2):
        for one, two in zip(near(*given), full, strict=True):
            np.testing.assert_allclose(one, two, atol=5e-5)
    return str(compiled.plan)


@available
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("shape", [(1, 5, 3, 7), (3, 4, 5, 33), (9, 6, 64, 128)])
def test_factors_that_the_call_brings(cell: str, shape: tuple[int, int, int, int]) -> None:
    """Weights are arrays of the call: a function on arrays rounds them as a model its own."""
    batch, steps, inputs, hidden = shape
    generator = np.random.default_rng(sum(shape))

    def some(*sizes: int) -> Any:
        return generator.standard_normal(sizes).astype(F32)

    gates = {"gru": 3, "gru_after": 3, "lstm": 4, "rnn": 1}[cell]
    w = some(gates * hidden, inputs) / F32(np.sqrt(inputs))
    r = some(gates * hidden, hidden) / F32(np.sqrt(hidden))
    b = some((gates + (cell == "gru_after")) * hidden) * F32(0.1)
    x, h, c = some(batch, steps, inputs), some(batch, hidden), some(batch, hidden)
    lengths = generator.integers(0, steps + 1, batch)
    lengths[0] = steps
    expected = walk(cell, x, h, c, lengths, w, r, b)
    expected[lengths == 0] = 0
    states = [h[:, None], *([c[:, None]] if cell == "lstm" else [])]
    arguments = [x, *states, lengths, w[None], r[None], b[None]]
    function = {"gru_after": F.gru_sequence}.get(cell) or getattr(F, f"{cell}_sequence")
    attributes = {"linear_before_reset": True} if cell == "gru_after" else {}
    single = function(*arguments, **attributes)
    for precision in ("bf16", "fast", "bf16"):  # the last by the entry that the first has made
        got = function(*arguments, **attributes, precision=precision)
        np.testing.assert_allclose(got[1][:, 0], expected, atol=2e-3)
        for one, two in zip(got, single, strict=True):
            np.testing.assert_allclose(one, two, atol=3e-2)
        assert (got[0] != single[0]).any()


@available
@pytest.mark.parametrize("cell", CELLS)
def test_factors_may_be_infinite(cell: str) -> None:
    compare_extremes(cell, host_target(tiles=True))


def compare_extremes(cell: str, target: Target) -> None:
    """Infinite, missing and huge numbers in bf16, held against the formula: those that fill a pair
    or a panel meet none of them.
    """
    steps, attributes = 2, {"linear_before_reset": cell == "gru_after"}
    type_name = f"{cell.partition('_')[0].upper()}Sequence"
    for hidden in (1, 17):
        for what, x, states, weights in extremes.cases(cell, hidden, hidden, 1e30):
            builder = uncork.Builder(cell)
            sources = [
                builder.parameter(name, "f32", [len(x), *shape])
                for name, shape in (
                    ("x", (steps, x.shape[1])),
                    *((f"state{i}", (1, hidden)) for i in range(len(states))),
                )
            ]
            sources.append(builder.constant(np.full(len(x), steps)))
            sources += [builder.constant(each[None].astype(F32)) for each in weights]
            for output in builder.add(
                type_name,
                5,
                *sources,
                hidden_size=hidden,
                direction="forward",
                **(attributes if type_name == "GRUSequence" else {}),
            ):
                builder.result(output)
            model = builder.model()
            given = [np.repeat(x[:, None], steps, 1).astype(F32)]
            given += [state[:, None].astype(F32) for state in states]
            expected = states
            for _ in range(steps):
                with np.errstate(all="ignore"):
                    expected = extremes.step(cell, extremes.DEFAULTS[cell], x, expected, weights)
            results = compile_for(model, target, 1, "bf16")(*given)
            for got, wanted in zip(list(results)[1:], expected, strict=True):
                np.testing.assert_allclose(
                    got[:, 0],
                    wanted.astype(F32),
                    rtol=2e-2,
                    atol=5e-2,
                    err_msg=f"{hidden} {what}",
                )


def test_tile_instructions_give_the_same(tmp_path: Path) -> None:
    """AMX, or its emulator where the processor has none."""
    why = bf16.kernels_unavailable()
    if why:
        pytest.skip(why)
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "tests.kernels._amx_recurrent", str(tmp_path)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("well") == 7 * len(CELLS) + 1


def test_what_it_takes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = uncork.Builder("plain")
    builder.result(builder.parameter("x", "f32", [1]))
    model = builder.model()
    with pytest.raises(
        uncork.UnsupportedError, match="'bf16' needs kernels, which the reference has none of"
    ):
        uncork.compile_model(model, precision="bf16", backend="reference")
    monkeypatch.setattr(
        "uncork.compiler.compile.kernel_target",
        lambda precision, name: Target.of("x86_64", "generic", ""),
    )
    with pytest.raises(uncork.UnsupportedError, match="'bf16' needs a CPU with AVX512-BF16"):
        uncork.compile_model(model, precision="bf16")
