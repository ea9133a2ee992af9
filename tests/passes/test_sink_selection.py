"""Sequences of which one step is used: what is rewritten, what is not and why, and that no number
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from uncork.compiler import execute
from uncork.compiler.compile import compile_model
from uncork.compiler.plan import Step
from uncork.errors import InputError
from uncork.internal_ops.final_states import StepLengths
from uncork.ir.model import Source
from uncork.kernels.kernel_plan import KernelPlan
from uncork.types import ElementType

HIDDEN, INNER, STEPS = 19, 7, 9
CELLS = {"GRUSequence": 3, "LSTMSequence": 4, "RNNSequence": 1}
#: From the builder, Y [B, 1, T, H] and a source of indices [B] to the model's output.
Taking = Callable[[uncork.Builder, Source, Source], Source]


def model_of(
    take: Taking,
    cell: str = "GRUSequence",
    batch: int | None = None,
    full: bool = True,
    **options: Any,
) -> uncork.Model:
    """x [B, T, I], step [B] (and lengths [B] unless they are `full`) -> what `take` makes of Y."""
    generator = np.random.default_rng(len(cell))
    gates = CELLS[cell]
    b = uncork.Builder(cell)
    x, step = b.parameter("x", "f32", [batch, STEPS, INNER]), b.parameter("step", "i64", [batch])
    (rows,) = b.add("ShapeOf", 3, step, name="rows")
    if full:
        (lengths,) = b.add("Broadcast", 3, b.constant(np.int64(STEPS)), rows, name="full")
    else:
        lengths = b.parameter("lengths", "i32", [batch])
    (shape,) = b.add("Concat", 1, rows, b.constant(np.array([1, HIDDEN])), axis=0)
    (state,) = b.add("Broadcast", 3, b.constant(np.float32(0.25)), shape)
    states = [state, state] if cell == "LSTMSequence" else [state]
    weights = [
        generator.standard_normal((1, gates * HIDDEN, *last)).astype(np.float32) / 3
        for last in ((INNER,), (HIDDEN,), ())
    ]
    given = [b.constant(w) for w in weights]
    y, *last = b.add(
        cell,
        5,
        x,
        *states,
        lengths,
        *given,
        hidden_size=HIDDEN,
        direction="forward",
        name="sequence",
    )
    b.result(take(b, y, step), "taken")
    if options.get("states"):
        b.result(last[0], "last")
    if options.get("all_steps"):
        b.result(y, "y")
    return b.model()


def number(b: uncork.Builder, *values: int) -> Source:
    return b.constant(np.array(values if len(values) > 1 else values[0]))


def squeezed(b: uncork.Builder, y: Source) -> Source:
    return b.add("Squeeze", 1, y, number(b, 1), name="squeezed")[0]


def by_gather(b: uncork.Builder, y: Source, step: Source) -> Source:
    """y[b, step[b]]"""
    return b.add("Gather", 8, squeezed(b, y), step, number(b, 1), batch_dims=1, name="taken")[0]


def by_gather_7(b: uncork.Builder, y: Source, step: Source) -> Source:
    return b.add("Gather", 7, squeezed(b, y), step, number(b, 1), batch_dims=1, name="taken")[0]


def by_gather_nd(b: uncork.Builder, y: Source, step: Source) -> Source:
    tuples = b.add("Unsqueeze", 1, step, number(b, 1))[0]
    return b.add("GatherND", 8, squeezed(b, y), tuples, batch_dims=1, name="taken")[0]


def by_elements(b: uncork.Builder, y: Source, step: Source) -> Source:
    """As PyTorch writes y.gather(1, step.view(-1, 1, 1).expand(-1, 1, n)), behind a layer."""
    dense = b.add("MatMul", 1, squeezed(b, y), weights(HIDDEN, 5)(b), name="dense")[0]
    biased = b.add("Add", 1, dense, weights(1, 1, 5)(b), name="biased")[0]
    one_each = b.add("Reshape", 1, step, b.constant(np.array([-1, 1, 1])), special_zero=False)[0]
    wide = b.add("Broadcast", 3, one_each, b.constant(np.array([1, 1, 5])), mode="bidirectional")[0]
    narrow = b.add("Convert", 1, wide, destination_type="i32")[0]
    taken = b.add("GatherElements", 6, biased, narrow, axis=1, name="taken")[0]
    return b.add("Squeeze", 1, taken, number(b, 1))[0]


def turned(b: uncork.Builder, y: Source, step: Source) -> Source:
    """Steps first, as PyTorch has them without batch_first; an activation and a scale between."""
    steps_first = b.add(
        "Transpose", 1, squeezed(b, y), b.constant(np.array([1, 0, 2])), name="turned"
    )[0]
    ended = b.add(
        "Tanh",
        1,
        b.add("Multiply", 1, steps_first, weights(HIDDEN)(b), name="scaled")[0],
        name="ended",
    )[0]
    one_each = b.add("Reshape", 1, step, b.constant(np.array([1, -1, 1])), special_zero=False)[0]
    wide = b.add("Tile", 1, one_each, b.constant(np.array([1, 1, HIDDEN])))[0]
    return b.add("GatherElements", 6, ended, wide, axis=0, name="taken")[0]


def the_last(b: uncork.Builder, y: Source, step: Source) -> Source:
    """y[:, -1], the same step of all rows."""
    dense = b.add("MatMul", 1, squeezed(b, y), weights(HIDDEN, 5)(b), name="dense")[0]
    return b.add("Gather", 8, dense, number(b, -1), number(b, 1), name="taken")[0]


def weights(*shape: int) -> Callable[[uncork.Builder], Source]:
    values = np.random.default_rng(int(np.prod(shape))).standard_normal(shape).astype(np.float32)
    return lambda b: b.constant(values)


TAKINGS = [by_gather, by_gather_7, by_gather_nd, by_elements, turned, the_last]
#: Of these a step outside is an error; of the others it gives zeros.
REFUSING = {by_gather_nd, by_elements, turned}


def inputs(
    generator: np.random.Generator, steps: Sequence[int], lengths: Sequence[int] | None = None
) -> list[np.ndarray]:
    x = generator.standard_normal((len(steps), STEPS, INNER)).astype(np.float32)
    return [
        x,
        np.array(steps, np.int64),
        *([] if lengths is None else [np.array(lengths, np.int32)]),
    ]


def steps_for(compiled: uncork.CompiledModel, arrays: Sequence[np.ndarray]) -> tuple[Step, ...]:
    return compiled.plan_for(*(array.shape for array in arrays)).steps


def kernels(compiled: uncork.CompiledModel, arrays: Sequence[np.ndarray]) -> list[str]:
    return [step.kernel for step in steps_for(compiled, arrays)]


def reason(compiled: uncork.CompiledModel, arrays: Sequence[np.ndarray]) -> str:
    (step,) = [step for step in steps_for(compiled, arrays) if step.layer == "sequence"]
    assert step.operation.endswith("Sequence-5")
    return step.note


def check(
    model: uncork.Model,
    arrays: Sequence[np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
    rewritten: bool = True,
    exactly: bool = False,
) -> None:
    """As without the pass and as the references; and every step of the program is native.

    `exactly`: to the bit, where rows end by whole tiles, of eight or of six. How many rows run
    together decides in which order a product is summed up.
    """
    compiled = compile_model(model, threads=1)
    got = list(compiled(*arrays))
    chosen = kernels(compiled, arrays)
    assert "reference" not in chosen
    assert any(kernel.startswith("lengths") for kernel in chosen) == rewritten, chosen
    with monkeypatch.context() as patch:
        patch.setattr(execute, "_fused", lambda target, model: model)
        plain = compile_model(model, threads=1)
        for one, other in zip(got, plain(*arrays), strict=True):
            np.testing.assert_allclose(
                one, other, rtol=0 if exactly else 1e-5, atol=0 if exactly else 2e-6
            )
        assert not any(kernel.startswith("lengths") for kernel in kernels(plain, arrays))
    for one, other in zip(got, compile_model(model, backend="reference")(*arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("take", TAKINGS)
def test_every_position(take: Taking, cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [*range(STEPS), *range(-1, -STEPS - 1, -1), 3, 3]
    if take is by_gather_7:
        steps = [step % STEPS for step in steps]
    model = model_of(take, cell)
    check(
        model,
        inputs(np.random.default_rng(0), [step for step in steps for _ in range(24)]),
        monkeypatch,
        exactly=True,
    )
    arrays = inputs(np.random.default_rng(0), steps)
    check(model, arrays, monkeypatch)
    for row in (0, 5):  # one row alone has no axis of rows
        check(model, [array[row : row + 1] for array in arrays], monkeypatch)


@pytest.mark.parametrize("take", TAKINGS)
def test_rows_of_their_own_lengths(take: Taking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the end of its row a step is zero."""
    pairs = [(step, length) for step in range(STEPS) for length in range(STEPS + 1)]
    arrays = inputs(np.random.default_rng(1), *zip(*pairs, strict=True))
    check(model_of(take, full=False), arrays, monkeypatch)


@pytest.mark.parametrize("take", TAKINGS)
def test_no_rows(take: Taking) -> None:
    arrays = inputs(np.random.default_rng(2), [])
    for batch in (None, 0):
        model = model_of(take, batch=batch)
        fast, slow = (
            compile_model(model)(*arrays),
            compile_model(model, backend="reference")(*arrays),
        )
        assert fast[0].shape == slow[0].shape
        assert fast[0].size == 0


@pytest.mark.parametrize("outside", [STEPS, -STEPS - 1, 2**31 - 1, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("take", TAKINGS[:-1])
def test_steps_outside(take: Taking, outside: int) -> None:
    """What they give stays as it is: zeros, or an error with the layer that takes the step."""
    arrays = inputs(np.random.default_rng(3), [2, outside, 4])
    fast, slow = (
        compile_model(model_of(take), backend=backend) for backend in ("cpu", "reference")
    )
    if take not in REFUSING:
        np.testing.assert_array_equal(fast(*arrays)[0][1], np.zeros(HIDDEN))
        np.testing.assert_allclose(fast(*arrays)[0], slow(*arrays)[0], rtol=2e-5, atol=2e-5)
    else:
        errors = []
        for compiled in (fast, slow):
            with pytest.raises(InputError, match="'taken'") as raised:
                compiled(*arrays)
            errors.append(str(raised.value))
        assert errors[0] == errors[1]


@pytest.mark.parametrize("outside", [-(2**63), 2**63 - 1])
def test_steps_that_wrap_as_written(outside: int) -> None:
    """On the way through i32 they become steps that there are: 0 and the last one."""
    arrays = inputs(np.random.default_rng(3), [2, outside, 4])
    model = model_of(by_elements)
    fast, slow = (compile_model(model, backend=b, ids="as-written") for b in ("cpu", "reference"))
    np.testing.assert_allclose(fast(*arrays)[0], slow(*arrays)[0], rtol=2e-5, atol=2e-5)
    there = inputs(np.random.default_rng(3), [2, 0 if outside < 0 else -1, 4])
    np.testing.assert_array_equal(fast(*arrays)[0], fast(*there)[0])


def test_a_step_outside_behind_a_layer() -> None:
    """Gather-8 gives zeros, and not the layer's bias."""

    def take(b: uncork.Builder, y: Source, step: Source) -> Source:
        biased = b.add("Add", 1, squeezed(b, y), weights(HIDDEN)(b), name="biased")[0]
        return b.add("Gather", 8, biased, step, number(b, 1), batch_dims=1, name="taken")[0]

    arrays = inputs(np.random.default_rng(11), [2, STEPS, -1])
    compiled = compile_model(model_of(take))
    assert any(kernel.startswith("lengths") for kernel in kernels(compiled, arrays))
    np.testing.assert_array_equal(compiled(*arrays)[0][1], np.zeros(HIDDEN))
    np.testing.assert_allclose(
        compiled(*arrays)[0],
        compile_model(model_of(take), backend="reference")(*arrays)[0],
        rtol=2e-5,
        atol=2e-5,
    )


@pytest.mark.parametrize("take", [by_gather, by_gather_7])
def test_strict(take: Taking) -> None:
    compiled = compile_model(model_of(take), strict=True)
    arrays = inputs(np.random.default_rng(4), [2, 1, 4])
    assert compiled(*arrays)[0].shape == (3, HIDDEN)
    arrays[1][1] = STEPS
    with pytest.raises(InputError, match="'taken'"):
        compiled(*arrays)


@pytest.mark.parametrize("bad", [-1, STEPS + 1])
def test_lengths_that_are_refused(bad: int) -> None:
    arrays = inputs(np.random.default_rng(5), [2, 1], [3, bad])
    with pytest.raises(InputError, match=r"'sequence' .*sequence_lengths"):
        compile_model(model_of(by_gather, full=False))(*arrays)


def test_zeros_are_not_put_through_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gather-7 gives zeros for a negative step, of which a layer before it would have made its
    bias: nothing is rewritten.
    """

    def take(b: uncork.Builder, y: Source, step: Source) -> Source:
        biased = b.add("Add", 1, squeezed(b, y), weights(HIDDEN)(b), name="biased")[0]
        return b.add("Gather", 7, biased, step, number(b, 1), batch_dims=1, name="taken")[0]

    arrays = inputs(np.random.default_rng(6), [2, -1])
    check(model_of(take), arrays, monkeypatch, rewritten=False)
    compiled = compile_model(model_of(take))
    np.testing.assert_array_equal(compiled(*arrays)[0][1], np.zeros(HIDDEN))
    assert "may give zeros" in reason(compiled, arrays)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"states": True}, "the last states are read, too"), ({"all_steps": True}, "has 2 readers")],
)
def test_other_readers(
    options: dict[str, bool], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, arrays = model_of(by_gather, **options), inputs(np.random.default_rng(7), [2, 8, 0])
    check(model, arrays, monkeypatch, rewritten=False)
    assert said in reason(compile_model(model), arrays)


def different_steps(b: uncork.Builder, y: Source, step: Source) -> Source:
    """Every unit is taken from a step of its own."""
    places = b.add(
        "Add",
        1,
        b.add("Unsqueeze", 1, step, number(b, 1, 2))[0],
        b.constant(np.arange(HIDDEN).reshape(1, 1, -1) % 3),
    )[0]
    return b.add("GatherElements", 6, squeezed(b, y), places, axis=1, name="taken")[0]


def two_steps(b: uncork.Builder, y: Source, step: Source) -> Source:
    return b.add(
        "Gather", 8, squeezed(b, y), b.constant(np.array([1, 4])), number(b, 1), name="taken"
    )[0]


def other_rows(b: uncork.Builder, y: Source, step: Source) -> Source:
    """Step 2 of rows that indices choose: not of each row."""
    return b.add("Gather", 8, squeezed(b, y), step, number(b, 0), name="taken")[0]


def a_sum_over_steps(b: uncork.Builder, y: Source, step: Source) -> Source:
    total = b.add("CumSum", 3, squeezed(b, y), number(b, 1), name="total")[0]
    return b.add("Gather", 8, total, step, number(b, 1), batch_dims=1, name="taken")[0]


def weights_of_steps(b: uncork.Builder, y: Source, step: Source) -> Source:
    weighted = b.add("Multiply", 1, squeezed(b, y), weights(STEPS, 1)(b), name="weighted")[0]
    return b.add("Gather", 8, weighted, step, number(b, 1), batch_dims=1, name="taken")[0]


def a_product_over_steps(b: uncork.Builder, y: Source, step: Source) -> Source:
    product = b.add(
        "MatMul", 1, squeezed(b, y), weights(STEPS, STEPS)(b), transpose_a=True, name="product"
    )[0]
    return b.add("Gather", 8, product, step, number(b, 2), batch_dims=1, name="taken")[0]


@pytest.mark.parametrize(
    "take",
    [
        different_steps,
        two_steps,
        other_rows,
        a_sum_over_steps,
        weights_of_steps,
        a_product_over_steps,
    ],
)
def test_what_is_not_one_step_of_each_row(take: Taking) -> None:
    arrays = inputs(np.random.default_rng(8), [2, 1, 0, 3])
    compiled, reference = (
        compile_model(model_of(take), backend=backend) for backend in ("cpu", "reference")
    )
    np.testing.assert_allclose(compiled(*arrays)[0], reference(*arrays)[0], rtol=2e-5, atol=2e-5)
    assert not any(kernel.startswith("lengths") for kernel in kernels(compiled, arrays))
    assert reason(compiled, arrays) == ""


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_other_directions(direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    b = uncork.Builder(direction)
    x, step = b.parameter("x", "f32", [3, STEPS, INNER]), b.parameter("step", "i64", [3])
    sizes = (
        (directions, 3 * HIDDEN, INNER),
        (directions, 3 * HIDDEN, HIDDEN),
        (directions, 3 * HIDDEN),
    )
    given = [weights(*size)(b) for size in sizes]
    state, lengths = (
        b.constant(np.zeros((3, directions, HIDDEN), np.float32)),
        b.constant(np.full(3, STEPS)),
    )
    y, _ = b.add(
        "GRUSequence",
        5,
        x,
        state,
        lengths,
        *given,
        hidden_size=HIDDEN,
        direction=direction,
        name="sequence",
    )
    b.result(b.add("Gather", 8, y, step, number(b, 2), name="taken")[0], "taken")
    arrays = inputs(np.random.default_rng(9), [2, 1, 0])
    fast, slow = (compile_model(b.model(), backend=backend) for backend in ("cpu", "reference"))
    np.testing.assert_allclose(fast(*arrays)[0], slow(*arrays)[0], rtol=2e-5, atol=2e-5)
    assert reason(fast, arrays) == ""


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("threads", [1, 4])
def test_states_alone(cell: str, direction: str, threads: int) -> None:
    """Where only last states are used, Y takes no room, and two layers hand states from one to the
    other.
    """
    directions, rows, hidden = 2 if direction == "bidirectional" else 1, 37, 64
    generator = np.random.default_rng(10)

    def layers(b: uncork.Builder, with_y: bool) -> None:
        x, lengths = (
            b.parameter("x", "f32", [rows, STEPS, INNER]),
            b.parameter("lengths", "i64", [rows]),
        )
        states = [b.constant(np.zeros((rows, directions, hidden), np.float32))] * (
            2 if cell == "LSTMSequence" else 1
        )
        for layer in range(2):
            gates = CELLS[cell] * hidden
            given = [weights(directions, gates, *last)(b) for last in ((INNER,), (hidden,), ())]
            y, *states = b.add(
                cell,
                5,
                x,
                *states,
                lengths,
                *given,
                hidden_size=hidden,
                direction=direction,
                name=f"layer {layer}",
            )
            if with_y:
                b.result(y, f"y_{layer}")
        for position, state in enumerate(states):
            b.result(state, f"state_{position}")

    made = []
    arrays = [
        generator.standard_normal((rows, STEPS, INNER)).astype(np.float32),
        generator.integers(0, STEPS + 1, rows),
    ]
    for with_y in (False, True):
        b = uncork.Builder("states")
        layers(b, with_y)
        compiled = compile_model(b.model(), threads=threads)
        made.append(
            [compiled(*arrays)[f"state_{n}"] for n in range(len(compiled.outputs) - 2 * with_y)]
        )
        operations = {step.operation for step in compiled.plan.steps}
        assert operations == ({f"{cell}-5"} if with_y else {"LastStates-0"})
    for without, with_them in zip(*made, strict=True):
        np.testing.assert_array_equal(without, with_them)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_kernel_of_lengths(data: st.DataObject) -> None:
    """Against a plain loop over Python's numbers."""
    index, length = (
        data.draw(st.sampled_from(["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]))
        for _ in range(2)
    )
    steps, rows, stride = (
        data.draw(st.integers(1, 100)),
        data.draw(st.integers(0, 12)),
        data.draw(st.integers(0, 3)),
    )
    wraps, zeros = data.draw(st.booleans()), data.draw(st.booleans())
    types = [ElementType.parse(index), ElementType.parse(length)]
    limits = np.iinfo(types[0].dtype)
    near = st.integers(max(limits.min, -steps - 2), min(limits.max, steps + 2)) | st.sampled_from(
        [int(limits.min), int(limits.max)]
    )
    size = rows * stride + 1
    places = np.array(data.draw(st.lists(near, min_size=size, max_size=size)), types[0].dtype)
    lengths = np.array(
        data.draw(st.lists(st.integers(0, steps), min_size=rows, max_size=rows)), types[1].dtype
    )
    expected: list[int] | None = []
    for row in range(rows):
        place = int(places[row * stride])
        if wraps and place < 0:
            place += steps
        if not 0 <= place < steps and not zeros:
            expected = None
            break
        expected.append(place + 1 if 0 <= place < int(lengths[row]) else 0)
    operation = StepLengths(steps, stride, wraps, zeros)
    specs = [
        spec_of(array, element_type)
        for array, element_type in zip((places, lengths), types, strict=True)
    ]
    results, choice = run_native(operation, specs)
    assert isinstance(choice, KernelPlan)
    assert (None if results is None else results[0].tolist()) == expected
    if expected is None:
        with pytest.raises(InputError, match="indices"):
            operation.evaluate(specs)
    else:
        assert operation.evaluate(specs)[0].value.tolist() == expected
