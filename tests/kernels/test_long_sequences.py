"""States that come back for a thousand steps: kernels drift no further from the exact sums than the
references do.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork

STEPS, HIDDEN, INPUTS = 1500, 32, 16
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def walked(kind: str, x: np.ndarray, w: np.ndarray, r: np.ndarray) -> np.ndarray:
    """The states [steps, hidden] by the formulas of the pages, in f64."""
    h, c, found = np.zeros(HIDDEN), np.zeros(HIDDEN), []
    for ahead in x.astype(np.float64) @ w.astype(np.float64).T:
        again = np.split(r.astype(np.float64), GATES[kind])
        gates = np.split(ahead, GATES[kind])
        if kind == "RNN":
            h = np.tanh(gates[0] + again[0] @ h)
        elif kind == "GRU":
            z, reset = (sigmoid(gates[g] + again[g] @ h) for g in (0, 1))
            h = (1 - z) * np.tanh(gates[2] + again[2] @ (reset * h)) + z * h
        else:
            f, i, o = (sigmoid(gates[g] + again[g] @ h) for g in (0, 1, 3))
            c = f * c + i * np.tanh(gates[2] + again[2] @ h)
            h = o * np.tanh(c)
        found.append(h)
    return np.array(found)


@pytest.mark.parametrize("slow", [True, False])
@pytest.mark.parametrize("kind", GATES)
def test_no_further_than_the_reference(kind: str, slow: bool) -> None:
    """Slow states hardly change, and are small: there errors of one sign add up."""
    generator = np.random.default_rng(6)
    rows = GATES[kind] * HIDDEN
    w = generator.standard_normal((rows, INPUTS)).astype(np.float32) / np.float32(INPUTS**0.5)
    if slow:
        x = generator.standard_normal((STEPS, INPUTS)).astype(np.float32) / np.float32(100)
        r = np.tile(np.eye(HIDDEN) * 0.999, (GATES[kind], 1)).astype(np.float32)
    else:
        x = generator.standard_normal((STEPS, INPUTS)).astype(np.float32)
        r = (generator.standard_normal((rows, HIDDEN)) / HIDDEN**0.5).astype(np.float32)
    b = uncork.Builder("long")
    given = b.parameter("x", "f32", [1, STEPS, INPUTS])
    state = [b.constant(np.zeros((1, 1, HIDDEN), np.float32))] * (2 if kind == "LSTM" else 1)
    weights = [b.constant(a[np.newaxis]) for a in (w, r, np.zeros(rows, np.float32))]
    lengths = b.constant(np.array([STEPS]))
    outputs = b.add(
        f"{kind}Sequence", 5, given, *state, lengths, *weights,
        hidden_size=HIDDEN, direction="forward",
    )  # fmt: skip
    b.result(outputs[0], "y")
    exact = walked(kind, x, w, r)
    errors = []
    for backend in ("cpu", "reference"):
        compiled = uncork.compile_model(b.model(), backend=backend, threads=1)
        error = np.asarray(compiled(x[np.newaxis])["y"]).reshape(STEPS, HIDDEN) - exact
        errors.append(float(np.sqrt((error**2).mean())))
    assert errors[0] <= 1.5 * errors[1], errors
