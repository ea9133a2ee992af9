"""Recurrent layers of states, inputs and weights that are infinite, no numbers or huge: their
formulas, and cases of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GATES = {"gru": 3, "gru_after": 3, "lstm": 4, "rnn": 1}
ACTIVATIONS = {
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "tanh": np.tanh,
    "relu": lambda v: np.where(v < 0, 0, v),  # of NaN it is NaN
}
DEFAULTS = {
    "gru": ("sigmoid", "tanh"),
    "gru_after": ("sigmoid", "tanh"),
    "lstm": ("sigmoid", "tanh", "tanh"),
    "rnn": ("tanh",),
}
#: What a row of a batch has in one place, and where.
ROWS = [
    *(("state", number) for number in (np.inf, -np.inf, np.nan, 1.0, -1.0)),
    *(("input", number) for number in (np.inf, -np.inf, np.nan, 1.0)),
    ("state", 0.0),
]


def step(
    cell: str,
    functions: tuple[str, ...],
    x: Array,
    states: list[Array],
    weights: tuple[Array, Array, Array],
) -> list[Array]:
    """The states after one step, by the formulas of the specification's pages, in f64."""
    f, g = (ACTIVATIONS[functions[min(i, len(functions) - 1)]] for i in (0, 1))
    w, r, b = (each.astype(np.float64) for each in weights)
    x, h = x.astype(np.float64), states[0].astype(np.float64)
    wx, bias = np.split(x @ w.T, GATES[cell], axis=1), np.split(b, len(b) // h.shape[1])
    rh = [h @ part.T for part in np.split(r, GATES[cell])]
    if cell == "rnn":
        return [f(wx[0] + rh[0] + bias[0])]
    if cell == "lstm":
        forget, into, new, out = (a + c + d for a, c, d in zip(wx, rh, bias, strict=True))
        memory = f(forget) * states[1].astype(np.float64) + f(into) * g(new)
        return [f(out) * ACTIVATIONS[functions[2]](memory), memory]
    z, reset = (f(wx[i] + rh[i] + bias[i]) for i in (0, 1))
    if cell == "gru_after":
        new = g(wx[2] + reset * (rh[2] + bias[3]) + bias[2])
    else:
        new = g(wx[2] + (reset * h) @ r[2 * h.shape[1] :].T + bias[2])
    return [(1 - z) * new + z * h]


def cases(
    cell: str, hidden: int, seed: int, huge: float
) -> Iterator[tuple[str, Array, list[Array], tuple[Array, Array, Array]]]:
    """(what is extreme, X, states, weights): a row of the batch for each of `ROWS`, of which 1 is
    `huge`, then weights with an infinity.
    """
    chance, inputs = np.random.default_rng(seed), 3
    rows, gates = len(ROWS), GATES[cell]

    def some(*shape: int) -> Array:
        return chance.choice([-1.0, 1.0], shape) * chance.uniform(0.1, 1, shape)

    biases = gates + (cell == "gru_after")
    weights = some(gates * hidden, inputs), some(gates * hidden, hidden), some(biases * hidden)
    x, states = some(rows, inputs), [some(rows, hidden) for _ in range(1 + (cell == "lstm"))]
    yield "nothing", x, states, weights
    for place in range(len(states)):
        changed = [x.copy(), *(state.copy() for state in states)]
        for row, (which, number) in enumerate(ROWS):
            target = changed[1 + place if which == "state" else 0]
            target[row, chance.integers(target.shape[1])] = number * huge
        yield f"rows {place}", changed[0], changed[1:], weights
    for place in range(3):
        some_weights = [each.copy() for each in weights]
        some_weights[place].reshape(-1)[chance.integers(some_weights[place].size)] = np.inf
        yield f"weight {place}", x, states, tuple(some_weights)
