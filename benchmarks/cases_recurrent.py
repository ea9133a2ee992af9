"""Cases of GRUSequence-5, LSTMSequence-5 and RNNSequence-5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import (
    arrays,
    contenders_onnxruntime,
    contenders_openvino,
    contenders_torch,
    contenders_uncork,
    limits,
)
from benchmarks.cases import Case, Prepared
from benchmarks.options import Options
from benchmarks.timing import Expected
from uncork import Builder, Model
from uncork.compiler.compile import Precision
from uncork.types import Array

GATES = {"gru": 3, "lstm": 4, "rnn": 1}
#: (batch, steps, input size, hidden size)
_SHAPES = (
    (1, 1, 64, 128),
    (1, 50, 64, 128),
    (1, 100, 256, 256),
    (1, 100, 512, 512),
    (16, 50, 64, 128),
    (64, 50, 128, 256),
    (256, 20, 64, 128),
)


@dataclass(frozen=True)
class Sequence_:
    """What one case is. `after`: linear_before_reset, the mode of a GRU that torch and cuDNN
    have.
    """

    batch: int
    steps: int
    inner: int
    hidden: int
    cell: str = "gru"
    after: bool = False
    ragged: bool = False
    directions: int = 1

    @property
    def name(self) -> str:
        flags = (
            [{True: "after", False: "std"}[self.after]] * (self.cell == "gru")
            + ["ragged"] * self.ragged
            + ["bidirectional"] * (self.directions == 2)
        )
        return " ".join([f"{self.batch} x {self.steps}, {self.inner} to {self.hidden}", *flags])

    @property
    def group(self) -> str:
        if self.cell != "gru":
            return f"{self.cell.upper()}"
        if self.batch * self.steps == 1:
            return "GRU, tiny"
        return (
            "GRU, batch 1"
            if self.batch == 1
            else "GRU, ragged"
            if self.ragged
            else "GRU, full batches"
        )


@dataclass(frozen=True)
class _Weights:
    """In the IR's order of gates. The biases of input and state are apart, as torch and ONNX have
    them.
    """

    w: Array
    r: Array
    input_bias: Array
    recurrent_bias: Array

    def bias(self, case: Sequence_) -> Array:
        """As the IR has it: one sum, but for the last gate of a GRU that resets after its
        product.
        """
        if not case.after:
            return self.input_bias + self.recurrent_bias
        both = 2 * case.hidden
        return np.concatenate(
            [
                self.input_bias[:, :both] + self.recurrent_bias[:, :both],
                self.input_bias[:, both:],
                self.recurrent_bias[:, both:],
            ],
            1,
        )


def all_cases() -> list[Sequence_]:
    """The 25 cases of GRUs, then some LSTMs and RNNs."""
    found: list[Sequence_] = []
    for shape in _SHAPES:
        for ragged in (False, True) if shape[0] > 1 else (False,):
            found += [Sequence_(*shape, after=after, ragged=ragged) for after in (True, False)]
    found += [
        Sequence_(16, 50, 64, 128, after=True, directions=2),
        Sequence_(1, 100, 256, 256, after=True, directions=2),
        Sequence_(64, 50, 128, 256, after=True, ragged=True, directions=2),
        Sequence_(16, 50, 64, 128, directions=2),
        Sequence_(512, 100, 256, 512, after=True, ragged=True),
    ]
    for cell in ("lstm", "rnn"):
        found += [
            Sequence_(*shape, cell=cell)
            for shape in (
                (1, 1, 64, 128),
                (1, 50, 64, 128),
                (1, 100, 256, 256),
                (16, 50, 64, 128),
                (64, 50, 128, 256),
            )
        ]
        found += [
            Sequence_(16, 50, 64, 128, cell=cell, ragged=True),
            Sequence_(16, 50, 64, 128, cell=cell, directions=2),
        ]
    return found


def cases() -> Iterator[Case]:
    for sequence in all_cases():
        small = sequence.batch * sequence.steps * sequence.hidden <= 16 * 50 * 128
        yield Case(sequence.group, sequence.name, partial(prepare, sequence), quick=small)


def prepare(case: Sequence_, options: Options) -> Prepared:
    """Arrays and contenders of a case."""
    generator = np.random.default_rng(case.batch + case.steps)
    weights = random_weights(case, generator)
    count = 2 if case.batch * case.steps * case.inner > 4_000_000 else 4
    sets = [random_inputs(case, generator) for _ in range(count)]
    full = None if case.ragged else np.full(case.batch, case.steps, np.int32)
    sizes = [given[-1] if full is None else full for given in sets]
    constants = [weights.w, weights.r, weights.bias(case)]
    apart = [weights.w, weights.r, weights.input_bias, weights.recurrent_bias]
    steps = float(np.mean([size.sum() for size in sizes])) * case.directions
    operations = 2.0 * steps * GATES[case.cell] * case.hidden * (case.inner + case.hidden)
    prepared = Prepared(
        sets=count,
        expect=lambda i: [Expected(a) for a in expected(case, weights, sets[i], sizes[i])],
        tolerance=1e-5,
        about=asdict(case) | {"operations": operations, "tiny": case.batch * case.steps == 1},
        limit=_limit(case, operations),
    )
    threads = options.threads
    prepared.add(
        "uncork", lambda: contenders_uncork.of_model(model(case, constants, full), sets, threads)
    )
    precisions: tuple[tuple[Precision, float], ...] = (("bf16x3", 2e-5), ("bf16", 3e-2))
    for precision, tolerance in precisions if case.cell == "gru" else ():
        made = partial(
            contenders_uncork.of_model,
            model(case, constants, full),
            sets,
            threads,
            precision,
            tolerance,
        )
        prepared.add(f"uncork {precision}", made)
    openvino, torch, runtime = (
        options.peers.get(name) for name in ("openvino", "torch", "onnxruntime")
    )
    if openvino:
        graph = contenders_openvino.sequence(
            openvino, case.cell, sets[0], constants, full, case.after
        )
        state = (case.batch, case.directions, case.hidden)
        results = [((case.batch, case.directions, case.steps, case.hidden), np.float32)] + [
            (state, np.float32)
        ] * (2 if case.cell == "lstm" else 1)
        run = partial(contenders_openvino.of_model, openvino, graph, sets, threads, results)
        prepared.add("openvino", run)
        if case.cell == "gru":
            prepared.add(
                "openvino default", lambda: [c for c in run(None, 3e-2) if c.precision != "f32"]
            )
    if torch:
        if case.cell == "gru" and not case.after:
            prepared.left_out["torch"] = "has no GRU that resets before the product"
        else:
            prepared.add(
                "torch",
                lambda: contenders_torch.sequence(torch, case.cell, sets, apart, case.ragged),
            )
    if runtime:
        prepared.add(
            "onnxruntime",
            lambda: contenders_onnxruntime.sequence(
                runtime, case.cell, sets, apart, full, case.after, threads
            ),
        )
    return prepared


def _limit(case: Sequence_, operations: float) -> float | None:
    """Microseconds: products at the best rate of a large one; a single row reads all of R in each
    step, from the cache it fits.
    """
    if case.batch > 1:
        return operations / limits.peak() * 1e6
    gates = GATES[case.cell] * case.hidden
    state_bytes = 4.0 * gates * case.hidden
    speed = limits.bandwidth_for(
        state_bytes if case.steps > 1 else state_bytes + 4.0 * gates * case.inner
    )
    if speed is None:
        return None
    steps = case.steps * case.directions
    if case.steps == 1:
        return (state_bytes + 4.0 * gates * case.inner) / speed * 1e6
    return (steps * state_bytes / speed + 2.0 * steps * gates * case.inner / limits.peak()) * 1e6


def random_weights(case: Sequence_, generator: np.random.Generator) -> _Weights:
    """W, R and the biases, as large as trained ones begin."""
    gates, directions = GATES[case.cell] * case.hidden, case.directions
    bound = case.hidden**-0.5
    shapes = (
        (directions, gates, case.inner),
        (directions, gates, case.hidden),
        (directions, gates),
        (directions, gates),
    )
    return _Weights(
        *(generator.uniform(-bound, bound, shape).astype(np.float32) for shape in shapes)
    )


def random_inputs(case: Sequence_, generator: np.random.Generator) -> list[Array]:
    """X, the first states and, where rows differ in length, the lengths."""
    states = 2 if case.cell == "lstm" else 1
    given = [arrays.normal(generator, (case.batch, case.steps, case.inner))]
    given += [
        0.5 * arrays.normal(generator, (case.batch, case.directions, case.hidden))
        for _ in range(states)
    ]
    if case.ragged:
        given.append(generator.integers(1, case.steps + 1, case.batch).astype(np.int32))
    return given


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def expected(
    case: Sequence_, weights: _Weights, given: Sequence[Array], sizes: Array
) -> list[Array]:
    """The layer in f64, step by step."""
    size, states = case.hidden, 2 if case.cell == "lstm" else 1
    outputs = np.zeros((case.batch, case.directions, case.steps, size))
    lasts = [state.astype(np.float64) for state in given[1 : 1 + states]]
    x = given[0].astype(np.float64)
    for direction in range(case.directions):
        w, r, bias, inner_bias = (
            a[direction].astype(np.float64)
            for a in (weights.w, weights.r, weights.input_bias, weights.recurrent_bias)
        )
        projected = x @ w.T + bias
        for step in range(case.steps):
            rows = np.flatnonzero(step < sizes)
            places = sizes[rows] - 1 - step if direction else np.full(len(rows), step)
            from_x = projected[rows, places]
            h = lasts[0][rows, direction]
            if case.cell == "rnn":
                h = np.tanh(from_x + h @ r.T + inner_bias)
            elif case.cell == "lstm":
                f, i, c, o = np.split(from_x + h @ r.T + inner_bias, 4, 1)
                cell = _sigmoid(f) * lasts[1][rows, direction] + _sigmoid(i) * np.tanh(c)
                h = _sigmoid(o) * np.tanh(cell)
                lasts[1][rows, direction] = cell
            else:
                gates = _sigmoid(
                    from_x[:, : 2 * size] + h @ r[: 2 * size].T + inner_bias[: 2 * size]
                )
                z, reset = gates[:, :size], gates[:, size:]
                from_h = (
                    reset * (h @ r[2 * size :].T + inner_bias[2 * size :])
                    if case.after
                    else (reset * h) @ r[2 * size :].T + inner_bias[2 * size :]
                )
                h = (1 - z) * np.tanh(from_x[:, 2 * size :] + from_h) + z * h
            lasts[0][rows, direction] = h
            outputs[rows, direction, places] = h
    return [outputs, *lasts]


def model(case: Sequence_, constants: Sequence[Array], lengths: Array | None) -> Model:
    """The case as a model for uncork."""
    builder = Builder("sequence")
    states = ["h", "c"] if case.cell == "lstm" else ["h"]
    inputs = [builder.parameter("x", "f32", [case.batch, case.steps, case.inner])]
    inputs += [
        builder.parameter(name, "f32", [case.batch, case.directions, case.hidden])
        for name in states
    ]
    inputs.append(
        builder.parameter("lengths", "i32", [case.batch])
        if lengths is None
        else builder.constant(lengths)
    )
    inputs += [builder.constant(array) for array in constants]
    more: dict[str, Any] = {"linear_before_reset": case.after} if case.cell == "gru" else {}
    direction = "bidirectional" if case.directions == 2 else "forward"
    outputs = builder.add(
        f"{case.cell.upper()}Sequence",
        5,
        *inputs,
        hidden_size=case.hidden,
        direction=direction,
        **more,
    )
    for name, source in zip(("y", *states), outputs, strict=True):
        builder.result(source, name)
    return builder.model()
