"""Many rows of a sequence in passes, of which the last one may be longer than the others."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.kernels.recurrent.spec import Recurrent
from uncork.kernels.recurrent.workspace import most_of_pass, rows_of_pass
from uncork.kernels.runtime.target import LEVELS, lacking

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, INPUTS, HIDDEN = 5, 12, 128


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("cell", ["rnn", "gru", "gru_after", "lstm"])
def test_states_of_a_pass_stay_in_the_first_cache(cell: str, registers: int) -> None:
    activations = ("sigmoid", "tanh", "tanh")
    spec = Recurrent(cell, activations, {16: 8, 32: 16}[registers])
    rows = rows_of_pass(spec, registers, HIDDEN)
    assert 8 <= rows <= 16 * 1024 // (HIDDEN * 4)
    assert most_of_pass(1000, rows) == rows + rows // 2
    assert most_of_pass(3, rows) == 3
    # Three, four gates of 1024 x 1024 are read from memory: once for all rows.
    assert rows_of_pass(spec, registers, 1024) == 0


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6, 7, 11])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "GRU, after", "LSTM"])
def test_ends_of_some_rows_are_computed_together(kind: str, rows: int, target: str) -> None:
    """Three and six rows, which 16 registers hold: beside the reference."""
    if missing := lacking(LEVELS[target]):
        pytest.skip(f"needs {missing}")
    generator = np.random.default_rng(rows)
    cell = kind.split(",")[0]
    gates = GATES[cell]

    def numbers(*shape: int) -> np.ndarray:
        return (generator.standard_normal(shape) * 0.3).astype(np.float32)

    b = uncork.Builder("together")
    states = [b.constant(numbers(rows, 1, 24)) for _ in range(1 + (cell == "LSTM"))]
    lengths = b.constant(np.full(rows, STEPS, np.int32))
    biases = gates + (kind == "GRU, after")
    shapes = (1, gates * 24, INPUTS), (1, gates * 24, 24), (1, biases * 24)
    weights = [b.constant(numbers(*shape)) for shape in shapes]
    more = {"linear_before_reset": True} if kind == "GRU, after" else {}
    x = b.parameter("x", "f32", [rows, STEPS, INPUTS])
    given = [x, *states, lengths, *weights]
    y = b.add(f"{cell}Sequence", 5, *given, hidden_size=24, direction="forward", **more)[0]
    b.result(y, "y")
    data = numbers(rows, STEPS, INPUTS)
    compiled = uncork.compile_model(b.model(), threads=1, target=target)
    got = compiled(data)["y"]
    assert not [step for step in compiled.plan.steps if step.kernel == "reference"]
    expected = uncork.compile_model(b.model(), backend="reference")(data)["y"]
    assert np.abs(got - expected).max() < 3e-6


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("batch", [47, 75])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "GRU, after", "LSTM"])
def test_every_row_has_its_states(kind: str, batch: int, precision: str, known: bool) -> None:
    """Rows of all lengths, both ways, beside the reference; the batch is known or is not."""
    cell, dtype = kind.split(",")[0], {"f32": np.float32, "f64": np.float64}[precision]
    generator = np.random.default_rng(batch)
    gates = GATES[cell]
    biases = gates + (kind == "GRU, after")

    def numbers(*shape: int) -> np.ndarray:
        return (generator.standard_normal(shape) / np.sqrt(HIDDEN)).astype(dtype)

    b = uncork.Builder("passes")
    rows = batch if known else -1
    names = ["x", "h", *(["c"] if cell == "LSTM" else []), "lengths"]
    inputs = [b.parameter("x", precision, [rows, STEPS, INPUTS])]
    inputs += [b.parameter(name, precision, [rows, 2, HIDDEN]) for name in names[1:-1]]
    inputs += [b.parameter("lengths", "i32", [rows])]
    shapes = (
        (2, gates * HIDDEN, INPUTS),
        (2, gates * HIDDEN, HIDDEN),
        (2, biases * HIDDEN),
    )
    weights = [b.constant(numbers(*shape)) for shape in shapes]
    more = {"linear_before_reset": True} if kind == "GRU, after" else {}
    outputs = b.add(
        f"{cell}Sequence", 5, *inputs, *weights,
        hidden_size=HIDDEN, direction="bidirectional", **more,
    )  # fmt: skip
    for number, output in enumerate(outputs):
        b.result(output, f"out{number}")
    given = [numbers(batch, STEPS, INPUTS), *(numbers(batch, 2, HIDDEN) for _ in names[1:-1])]
    given.append(generator.integers(0, STEPS + 1, batch).astype(np.int32))
    model = b.model()
    compiled = uncork.compile_model(model, threads=1)
    got = compiled(*given)
    assert not [step for step in compiled.plan.steps if step.kernel == "reference"]
    expected = uncork.compile_model(model, backend="reference")(*given)
    for number in range(len(outputs)):
        name = f"out{number}"
        assert np.abs(got[name] - expected[name]).max() < (3e-6 if precision == "f32" else 1e-12)
