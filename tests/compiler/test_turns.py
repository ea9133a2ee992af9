"""Turns of loops by native code: what the references give, whatever is sliced, carried, put
together or counted.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler._interrupts import interrupted_after
from uncork.compiler.bodies import KernelBody
from uncork.compiler.compile import compile_model
from uncork.errors import InputError
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    InnerResult,
    JoinedOutput,
    SlicedInput,
    Slicing,
    TurnNumber,
)

FOREVER = np.int64(-1)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for each turn that Python makes."""
    made: list[int] = []
    run = KernelBody.evaluate

    def counted(self: KernelBody, inputs: Sequence[Any]) -> list[Any]:
        made.append(1)
        return run(self, inputs)

    monkeypatch.setattr(KernelBody, "evaluate", counted)
    return made


def agree(
    model: uncork.Model, *calls: Sequence[np.ndarray], **options: Any
) -> uncork.CompiledModel:
    """Each call twice, by kernels and by the references."""
    fast, slow = (
        compile_model(model, **options),
        compile_model(model, backend="reference", **options),
    )
    for arrays in itertools.chain.from_iterable(itertools.repeat(call, 2) for call in calls):
        for ours, theirs in zip(fast(*arrays), slow(*arrays), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)
    return fast


def loop(
    body: uncork.Builder, maps: dict[str, Any], trips: Any, *values: Any, outputs: int = 1
) -> uncork.Model:
    """A model that is one Loop: `values` are constants, or the shapes of inputs of f32."""
    b = uncork.Builder("loop")
    given = [
        b.parameter(f"x{n}", "f32", value) if isinstance(value, list) else b.constant(value)
        for n, value in enumerate(values)
    ]
    sources = [b.constant(trips), b.constant(np.array(True)), *given]
    made = b.add_with_bodies(
        "Loop", 5, *sources, bodies={"body": BodyMap(GraphBody(body.model()), **maps)}
    )
    for number in range(outputs):
        b.result(made[number], f"y{number}")
    return b.model()


def add(b: uncork.Builder, kind: str, *inputs: Source, opset: int = 1, **attributes: Any) -> Source:
    return b.add(kind, opset, *inputs, **attributes)[0]


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(np.float32)


SLICINGS = [
    Slicing(0),
    Slicing(1),
    Slicing(-1),
    Slicing(0, start=-1, end=0, stride=-1),
    Slicing(1, start=-1, end=0, stride=-2, part_size=2),
    Slicing(1, stride=2, part_size=2),
    Slicing(2, stride=2),
    Slicing(0, start=2, end=-1, stride=2),
    Slicing(1, start=0, end=4, stride=4, part_size=3),
]


@pytest.mark.parametrize("taken", SLICINGS, ids=str)
@pytest.mark.parametrize("direction", [1, -1])
def test_parts_of_inputs_and_outputs(taken: Slicing, direction: int, alone: list[int]) -> None:
    """Running sums of the parts along an axis, joined along it and along new axes, beside the last
    one.
    """
    inner = uncork.Builder("body")
    x, total = (inner.parameter(name, "f32", [None, None, None]) for name in ("x", "total"))
    new = add(inner, "Add", x, add(inner, "Multiply", total, inner.constant(np.float32(0.5))))
    inner.result(new, "new")
    for axis in (0, 1, 3):
        squashed = add(inner, "Tanh", new)
        inner.result(
            add(inner, "Unsqueeze", squashed, inner.constant(np.array([axis]))), f"along {axis}"
        )
    first, last = (0, -1) if direction > 0 else (-1, 0)
    along = Slicing(taken.axis, first, last, direction * taken.part_size, taken.part_size)
    pieces = [
        (0, along),
        *(
            (n, Slicing(axis, first, last, direction))
            for n, axis in ((1, 0), (2, 1), (3, 3), (3, -1))
        ),
    ]
    outputs = (
        BodyOutput(0, 0),
        *(JoinedOutput(port, n, how) for port, (n, how) in enumerate(pieces, 1)),
    )
    b = uncork.Builder("iterator")
    data, start = (b.parameter(name, "f32", [None, None, None]) for name in ("data", "start"))
    maps = BodyMap(
        GraphBody(inner.model()), (SlicedInput(0, 0, taken), BodyInput(1, 1)), outputs, ((0, 1),)
    )
    for number, y in enumerate(
        b.add_with_bodies("TensorIterator", 1, data, start, bodies={"body": maps})
    ):
        b.result(y, f"y{number}")
    calls = []
    for sizes in ((4, 4, 6), (6, 8, 2), (1, 4, 4), (4, 4, 6)):
        if len(range(*slice(taken.start, None).indices(sizes[taken.axis % 3]))) < abs(taken.stride):
            continue
        part = [
            taken.part_size if axis == taken.axis % 3 else size for axis, size in enumerate(sizes)
        ]
        calls.append((draw(*sizes), draw(*part)))
    agree(b.model(), *calls)
    assert len(alone) <= 1, "only the first turn of all, which makes the plan"


def counting(kind: str, shape: list[int]) -> tuple[uncork.Builder, Source, Source]:
    """A body with the number of the turn and a value of [1, 4]."""
    inner = uncork.Builder("body")
    return inner, inner.parameter("i", kind, shape), inner.parameter("x", "f32", [1, 4])


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize("shape", [[], [1]], ids=str)
def test_the_number_of_the_turn(kind: str, shape: list[int], alone: list[int]) -> None:
    """As a number among others."""
    inner, i, x = counting(kind, shape)
    inner.result(add(inner, "Add", x, add(inner, "Convert", i, destination_type="f32")), "y")
    inputs = (TurnNumber(0), BodyInput(2, 1))
    maps = {
        "inputs": inputs,
        "outputs": (BodyOutput(0, 0), JoinedOutput(1, 0, Slicing(0))),
        "back_edges": ((0, 1),),
    }
    agree(loop(inner, maps, np.int32(7), [1, 4], outputs=2), (draw(1, 4),), (draw(1, 4) + 3,))
    assert len(alone) <= 1


def test_a_size_that_follows_from_the_number_of_the_turn(alone: list[int]) -> None:
    """Each turn sums the first rows of x, one more than the turn before: sizes are new in each."""
    inner = uncork.Builder("body")
    i, x, rows = (
        inner.parameter("i", "i64", [1]),
        inner.parameter("x", "f32", [1, 4]),
        inner.parameter("rows", "f32", [None, 4]),
    )
    one, zero = inner.constant(np.array([1])), inner.constant(np.array([0]))
    some = add(inner, "Slice", rows, zero, add(inner, "Add", i, one), one, zero, opset=8)
    inner.result(add(inner, "Add", x, add(inner, "ReduceSum", some, zero, keep_dims=True)), "y")
    inputs = (TurnNumber(0), BodyInput(2, 1), BodyInput(3, 2))
    maps = {
        "inputs": inputs,
        "outputs": (BodyOutput(0, 0), JoinedOutput(1, 0, Slicing(0))),
        "back_edges": ((0, 1),),
    }
    model = loop(inner, maps, np.int64(9), [1, 4], [None, 4], outputs=2)
    agree(model, (draw(1, 4), draw(9, 4)), (draw(1, 4), draw(5, 4)))
    assert len(alone) <= 2


def test_a_value_that_grows(alone: list[int]) -> None:
    """A row more in each turn: its memory is made larger as it is needed, and the loop ends with
    all rows.
    """
    inner = uncork.Builder("grow")
    rows, row = inner.parameter("rows", "f32", [None, 3]), inner.parameter("row", "f32", [1, 3])
    inner.result(add(inner, "Concat", rows, add(inner, "Add", row, row), axis=0), "longer")
    inner.result(add(inner, "Add", row, inner.constant(np.float32(1))), "next")
    maps = {
        "inputs": (BodyInput(2, 0), BodyInput(3, 1)),
        "outputs": (BodyOutput(0, 0),),
        "back_edges": ((0, 0), (1, 1)),
    }
    model = loop(inner, maps, np.int64(300), [None, 3], [1, 3])
    compiled = compile_model(model)
    for n in (2, 40):
        x, row = draw(n, 3), draw(1, 3)
        expected = [x, *(2 * (row.astype(np.float64) + turn) for turn in range(300))]
        for _ in range(2):
            np.testing.assert_allclose(
                compiled(x, row)[0], np.concatenate(expected), rtol=1e-5, atol=1e-4
            )
    assert len(alone) <= 1


def halving(limit: float, trips: Any = FOREVER) -> uncork.Model:
    """Halves x until its sum is below a limit; all values in between are put together."""
    inner = uncork.Builder("halving")
    x = inner.parameter("x", "f32", [1, 4])
    y = add(inner, "Multiply", x, inner.constant(np.float32(0.5)))
    inner.result(y, "y")
    total = add(inner, "ReduceSum", add(inner, "Abs", y), inner.constant(np.array([0, 1])))
    inner.result(add(inner, "Greater", total, inner.constant(np.float32(limit))), "go on")
    outputs = (
        InnerResult(1, purpose="execution_condition"),
        BodyOutput(0, 0),
        JoinedOutput(1, 0, Slicing(0)),
    )
    maps = {"inputs": (BodyInput(2, 0),), "outputs": outputs, "back_edges": ((0, 0),)}
    return loop(inner, maps, trips, [1, 4], outputs=2)


def test_a_condition_ends_the_loop(alone: list[int]) -> None:
    """After as many turns as nobody knows: more than parts are given room for at first, too."""
    ones = np.ones((1, 4), np.float32)
    compiled = agree(
        halving(1.0), (ones,), (ones * 2**20,), (ones * np.float32(2.0**120),), (ones * 2**-3,)
    )
    for power, turns in ((0, 2), (20, 22), (120, 122), (61, 63), (62, 64), (63, 65), (-3, 1)):
        last, every = compiled(ones * np.float32(2.0**power))
        np.testing.assert_array_equal(
            every, np.repeat([2.0 ** (power - t) for t in range(1, turns + 1)], 4).reshape(-1, 4)
        )
        np.testing.assert_array_equal(last, every[-1:])
    assert len(alone) <= 1
    agree(halving(1.0, np.int64(5)), (ones * 2**20,))


@pytest.mark.parametrize(("cell", "opset", "states"), [("GRUCell", 3, 1), ("LSTMCell", 4, 2)])
def test_cells(cell: str, opset: int, states: int, alone: list[int]) -> None:
    """Recurrent layers as older converters write them: batches of any size, any number of steps."""
    hidden, gates = 20, {"GRUCell": 3, "LSTMCell": 4}[cell]
    inner = uncork.Builder("body")
    x = inner.parameter("x", "f32", [None, 1, 6])
    given = [inner.parameter(f"h{n}", "f32", [None, hidden]) for n in range(states)]
    weights = [inner.constant(draw(gates * hidden, *last) / 4) for last in ((6,), (hidden,), ())]
    step = add(inner, "Squeeze", x, inner.constant(np.array([1])))
    after = inner.add(cell, opset, step, *given, *weights, hidden_size=hidden)
    for number, state in enumerate(after):
        inner.result(state, f"after {number}")
    inner.result(add(inner, "Unsqueeze", after[0], inner.constant(np.array([1]))), "y")
    steps = Slicing(1)
    maps = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(0, 0, steps), *(BodyInput(n + 1, n + 1) for n in range(states))),
        (JoinedOutput(0, states, steps), *(BodyOutput(n + 1, n) for n in range(states))),
        tuple((n, n + 1) for n in range(states)),
    )
    b = uncork.Builder("iterator")
    sources = [b.parameter("data", "f32", [None, None, 6])]
    sources += [b.parameter(f"state{n}", "f32", [None, hidden]) for n in range(states)]
    for number, y in enumerate(
        b.add_with_bodies("TensorIterator", 1, *sources, bodies={"body": maps})
    ):
        b.result(y, f"y{number}")
    calls = [
        [draw(rows, turns, 6), *(draw(rows, hidden) for _ in range(states))]
        for rows, turns in ((1, 5), (9, 3), (2, 1), (1, 40))
    ]
    agree(b.model(), *calls)
    assert len(alone) <= 1


def test_what_beams_compute_of_their_numbers(alone: list[int]) -> None:
    """Turns until every number is done: quotients and remainders of ids, and a condition of all."""
    inner = uncork.Builder("body")
    ids = inner.parameter("ids", "i64", [None])
    some = inner.constant(np.int64(7))
    smaller = add(inner, "Add", add(inner, "Divide", ids, some), add(inner, "FloorMod", ids, some))
    inner.result(smaller, "ids")
    done = add(inner, "Less", smaller, inner.constant(np.int64(7)))
    axes = inner.constant(np.array([0]))
    inner.result(
        add(inner, "LogicalNot", add(inner, "ReduceLogicalAnd", done, axes, keep_dims=True)), "more"
    )
    maps = BodyMap(
        GraphBody(inner.model()),
        (BodyInput(2, 0),),
        (BodyOutput(0, 0), InnerResult(1, purpose="execution_condition")),
        ((0, 0),),
    )
    b = uncork.Builder("loop")
    sources = [b.constant(FOREVER), b.constant(np.array(True)), b.parameter("ids", "i64", [None])]
    b.result(b.add_with_bodies("Loop", 5, *sources, bodies={"body": maps})[0], "y")
    compiled = compile_model(b.model())
    for given in ([100, 3], [7], [10**12, 48, 49, -1, 0], [100, 3]):
        wanted = given
        while True:
            wanted = [n // 7 + n % 7 for n in wanted]
            if all(n < 7 for n in wanted):
                break
        assert compiled(np.array(given))["y"].tolist() == wanted
    assert len(alone) <= 1


@pytest.mark.parametrize("limit", [0, 1, 5, 1000])
def test_a_loop_that_never_ends_meets_its_limit(limit: int) -> None:
    compiled = compile_model(halving(-1.0), loop_limit=limit)
    for _ in range(2):
        with pytest.raises(
            InputError,
            match=rf"layer '.*' \(Loop-5, id \d+\): still running after {limit} iterations, the "
            r"limit given by loop_limit",
        ):
            compiled(np.ones((1, 4), np.float32))
    enough = compile_model(halving(1.0), loop_limit=3)
    with pytest.raises(InputError, match="still running after 3 iterations"):
        enough(np.full((1, 4), 64, np.float32))
    assert enough(np.ones((1, 4), np.float32))[1].shape == (2, 4), "the model is as it was"


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_outputs_that_outgrow_memory(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that never ends and puts all its turns together is refused, not killed."""
    compiled = compile_model(halving(-1.0), backend=backend)  # type: ignore[arg-type]
    for module in ("uncork.ops._turns", "uncork.compiler.working_memory"):
        monkeypatch.setattr(f"{module}.available", lambda: (50_000, "this machine's memory"))
    with pytest.raises(
        InputError, match=r"Loop-5, id \d+\): its outputs need .* iterations, more than this"
    ):
        compiled(np.ones((1, 4), np.float32))


def test_carried_values_that_outgrow_the_limit() -> None:
    """They are working memory of the call; the model is usable afterwards."""
    inner = uncork.Builder("doubling")
    rows = inner.parameter("rows", "f32", [None, 2])
    inner.result(add(inner, "Concat", rows, rows, axis=0), "longer")
    maps = {
        "inputs": (BodyInput(2, 0),),
        "outputs": (BodyOutput(0, 0),),
        "back_edges": ((0, 0),),
    }
    compiled = compile_model(loop(inner, maps, np.int64(10), [None, 2]), memory_limit=100_000)
    for rows_ in (1, 3, 1):
        array = draw(rows_, 2)
        np.testing.assert_array_equal(compiled(array)[0], np.tile(array, (1024, 1)))
        with pytest.raises(
            InputError,
            match=r"not enough memory for this call: it needs .* bytes of working memory, more "
            r"than memory_limit \(100,000 bytes\); turns of a loop give most of it to the next",
        ):
            compiled(draw(20, 2))


def test_parts_of_one_size_and_other_shapes_are_not_joined() -> None:
    """Each turn turns what it is given: 2 x 3, then 3 x 2."""
    inner = uncork.Builder("turning")
    x = inner.parameter("x", "f32", [None, None])
    turned = add(inner, "Tanh", add(inner, "Transpose", x, inner.constant(np.array([1, 0]))))
    inner.result(turned, "turned")
    inner.result(add(inner, "Unsqueeze", turned, inner.constant(np.array([0]))), "piece")
    outputs = (BodyOutput(0, 0), JoinedOutput(1, 1, Slicing(0)))
    maps = {"inputs": (BodyInput(2, 0),), "outputs": outputs, "back_edges": ((0, 0),)}
    compiled = agree(loop(inner, maps, np.int64(3), [None, None], outputs=2), (draw(2, 2),))
    for _ in range(2):
        with pytest.raises(
            InputError, match=r"pieces of output 1 cannot be joined: .*3, 2.* and .*2, 3"
        ):
            compiled(draw(2, 3))


def test_an_endless_loop_is_interrupted() -> None:
    """Python sees signals while turns are made, and the model is usable afterwards."""
    compiled = compile_model(halving(-1.0, np.int64(2**62)))
    ends = compile_model(halving(1.0))
    for _ in range(2):
        with interrupted_after(0.2):
            compiled(np.ones((1, 4), np.float32))
        assert ends(np.ones((1, 4), np.float32))[1].shape == (2, 4)


def test_a_value_that_a_kernel_refuses_in_the_middle() -> None:
    """The error names the inner layer and the value; calls after it are right."""
    inner = uncork.Builder("body")
    ids, total = inner.parameter("ids", "i64", [1]), inner.parameter("total", "f32", [1, 2])
    table = inner.constant(np.arange(6, dtype=np.float32).reshape(3, 2))
    row = add(
        inner,
        "EmbeddingBagOffsetsSum",
        table,
        ids,
        inner.constant(np.array([0])),
        opset=3,
        name="bag",
    )
    inner.result(add(inner, "Add", row, total), "sum")
    b = uncork.Builder("outer")
    x, start = b.parameter("x", "i64", [None]), b.constant(np.zeros((1, 2), np.float32))
    inputs = (SlicedInput(0, 0, Slicing(0)), BodyInput(1, 1))
    maps = BodyMap(GraphBody(inner.model()), inputs, (BodyOutput(0, 0),), ((0, 1),))
    b.result(b.add_with_bodies("TensorIterator", 1, x, start, bodies={"body": maps})[0], "sum")
    compiled = compile_model(b.model())
    for _ in range(2):
        np.testing.assert_array_equal(compiled(np.array([0, 1, 2, 1]))[0], [[8, 12]])
        with pytest.raises(InputError, match=r"layer 'bag' .*indices\[0\] is 7"):
            compiled(np.array([0, 1, 2, 7, 1]))


def test_sizes_that_contradict_each_other_in_a_body() -> None:
    """Parts of two inputs are added, whose widths only the call knows."""
    inner = uncork.Builder("body")
    x, y = inner.parameter("x", "f32", [1, None]), inner.parameter("y", "f32", [None])
    inner.result(add(inner, "Add", x, y, name="sum"), "z")
    b = uncork.Builder("outer")
    x, y = b.parameter("x", "f32", [None, None]), b.parameter("y", "f32", [None])
    maps = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(0, 0, Slicing(0)), BodyInput(1, 1)),
        (JoinedOutput(0, 0, Slicing(0)),),
    )
    b.result(b.add_with_bodies("TensorIterator", 1, x, y, bodies={"body": maps})[0], "z")
    compiled = agree(
        b.model(),
        (draw(3, 4), draw(4)),
        (draw(3, 4), draw(1)),
        (draw(3, 1), draw(5)),
        (draw(0, 4), draw(4)),
    )
    for _ in range(2):
        with pytest.raises(InputError, match=r"layer 'sum' .*\[1, ?4\].*\[3\]"):
            compiled(draw(2, 4), draw(3))
        assert compiled(draw(2, 4), draw(4))[0].shape == (2, 4)


def test_loops_in_loops(alone: list[int]) -> None:
    """The inner one is native in each turn of the outer one."""
    deep = uncork.Builder("deep")
    x = deep.parameter("x", "f32", [1, 4])
    deep.result(add(deep, "Tanh", add(deep, "Add", x, deep.constant(np.float32(0.1)))), "y")
    inner = uncork.Builder("inner")
    x = inner.parameter("x", "f32", [1, 4])
    maps = BodyMap(GraphBody(deep.model()), (BodyInput(2, 0),), (BodyOutput(0, 0),), ((0, 0),))
    sources = [inner.constant(np.int64(20)), inner.constant(np.array(True)), x]
    inner.result(
        add(
            inner,
            "Multiply",
            inner.add_with_bodies("Loop", 5, *sources, bodies={"body": maps})[0],
            x,
        ),
        "y",
    )
    maps = {
        "inputs": (BodyInput(2, 0),),
        "outputs": (BodyOutput(0, 0), JoinedOutput(1, 0, Slicing(0))),
        "back_edges": ((0, 0),),
    }
    agree(loop(inner, maps, np.int64(5), [1, 4], outputs=2), (draw(1, 4),))
    assert len(alone) <= 2 * 5 + 1, "turns of the outer loop, and one that makes the inner plan"


def test_threads_have_memory_of_their_own() -> None:
    compiled = compile_model(halving(1.0))
    wrong: list[int] = []

    def work(number: int) -> None:
        for power in range(30):
            _, every = compiled(np.full((1, 4), 2.0 ** (power + number), np.float32))
            if every.shape != (power + number + 2, 4) or every[0, 0] != 2.0 ** (power + number - 1):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_are_the_callers_own() -> None:
    """Nothing that a caller does with results is seen by the next call."""
    compiled = compile_model(halving(1.0))
    given = np.full((1, 4), 64, np.float32)
    expected = [r.copy() for r in compiled(given)]
    for result in (*compiled(given), *compiled(given)):
        result[...] = np.nan
    for result, wanted in zip(compiled(given), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_memory_is_given_back() -> None:
    inner = uncork.Builder("body")
    x = inner.parameter("x", "f32", [None, 4])
    inner.result(
        add(
            inner,
            "SoftMax",
            add(inner, "MatMul", x, inner.constant(np.eye(4, dtype=np.float32))),
            opset=8,
            axis=0,
        ),
        "y",
    )
    maps = {"inputs": (BodyInput(2, 0),), "outputs": (BodyOutput(0, 0),), "back_edges": ((0, 0),)}
    compiled = compile_model(loop(inner, maps, np.int64(4), [None, 4]))
    x = np.ones((100_000, 4), np.float32)
    compiled(x), compiled(x)
    assert compiled.plan.working_bytes >= x.nbytes
    compiled.release_memory()
    assert compiled.plan.working_bytes < x.nbytes
    np.testing.assert_allclose(compiled(x)[0].sum(0), 1, rtol=1e-3)


class Random:
    """A random loop: values of [n, 3] and [m, n] that are carried, sliced, combined and put
    together.
    """

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.body = uncork.Builder("body")
        self.values: list[Source] = []

    def chance(self, probability: float) -> bool:
        return bool(self.generator.random() < probability)

    def one_of(self, sources: list[Source]) -> Source:
        return sources[int(self.generator.integers(len(sources)))]

    def step(self) -> Source:
        """A value more, of the same shape as the others."""
        b, kind = (
            self.body,
            str(
                self.generator.choice(
                    ["Add", "Maximum", "Tanh", "MatMul", "MVN", "turned", "rolled"]
                )
            ),
        )
        x, y = self.one_of(self.values), self.one_of(self.values)
        if kind in ("Add", "Maximum"):
            return add(b, "Multiply", add(b, kind, x, y), b.constant(np.float32(0.7)))
        if kind == "MatMul":
            return add(
                b, "MatMul", x, b.constant(np.float32([[0.5, 0, 0.2], [0, -0.5, 0], [0.1, 0, 0.3]]))
            )
        if kind == "MVN":
            centered = add(b, "ReduceMean", x, b.constant(np.array([1])), keep_dims=True)
            return add(b, "Subtract", x, centered)
        if kind == "turned":
            turned = add(b, "Transpose", x, b.constant(np.array([1, 0])))
            return add(b, "Transpose", add(b, "Sigmoid", turned), b.constant(np.array([1, 0])))
        if kind == "rolled":
            first, rest = (
                add(
                    b,
                    "Slice",
                    x,
                    *(b.constant(np.array([v])) for v in (start, stop, 1, 0)),
                    opset=8,
                )
                for start, stop in ((0, 1), (1, 2**31))
            )
            return add(b, "Concat", rest, first, axis=0)
        return add(b, "Tanh", x)

    def model(self) -> uncork.Model:
        b = self.body
        sliced = [
            b.parameter(f"part{i}", "f32", [None, 3])
            for i in range(int(self.generator.integers(0, 3)))
        ]
        carried = [
            b.parameter(f"carried{i}", "f32", [None, 3])
            for i in range(int(self.generator.integers(1, 4)))
        ]
        counter = b.parameter("i", "i64", []) if self.chance(0.5) else None
        self.values = [*carried]
        for part in sliced:
            self.values.append(add(b, "Add", part, self.one_of(carried)))
        if counter is not None:
            number = add(b, "Convert", counter, destination_type="f32")
            self.values.append(add(b, "Add", self.one_of(carried), number))
        for _ in range(int(self.generator.integers(2, 7))):
            self.values.append(self.step())
        results = [self.one_of(self.values) for _ in carried]
        for number, result in enumerate(results):
            b.result(result, f"r{number}")
        outputs = [BodyOutput(i, i) for i in range(len(results))]
        for number in range(int(self.generator.integers(1, 4))):
            axis, stride = int(self.generator.integers(3)), int(self.generator.choice([1, -1]))
            piece = add(b, "Unsqueeze", self.one_of(self.values), b.constant(np.array([axis])))
            b.result(piece, f"piece{number}")
            joined = Slicing(axis) if stride > 0 else Slicing(axis, -1, 0, -1)
            outputs.append(JoinedOutput(len(outputs), len(outputs), joined))
        total = add(b, "ReduceSum", self.one_of(self.values), b.constant(np.array([0, 1])))
        b.result(add(b, "Less", total, b.constant(np.float32(4))), "go on")
        outer = uncork.Builder("loop")
        trips, go_on = outer.parameter("trips", "i64", []), outer.parameter("go on", "boolean", [])
        data = [outer.parameter(f"data{i}", "f32", [None, None, 3]) for i in range(len(sliced))]
        squeezed = [
            outer.add("Reshape", 1, d, outer.constant(np.array([-1, 3])), special_zero=False)[0]
            for d in data
        ]
        starts = [outer.parameter(f"start{i}", "f32", [None, 3]) for i in range(len(carried))]
        inputs = [SlicedInput(2 + i, i, Slicing(0)) for i in range(len(sliced))]
        inputs += [BodyInput(2 + len(sliced) + i, len(sliced) + i) for i in range(len(carried))]
        if counter is not None:
            inputs.append(TurnNumber(len(sliced) + len(carried)))
        if self.chance(0.6):
            outputs.append(InnerResult(len(outputs), purpose="execution_condition"))
        edges = tuple((i, len(sliced) + i) for i in range(len(carried)))
        maps = BodyMap(GraphBody(b.model()), tuple(inputs), tuple(outputs), edges)
        for n, y in enumerate(
            outer.add_with_bodies(
                "Loop", 5, trips, go_on, *squeezed, *starts, bodies={"body": maps}
            )
        ):
            outer.result(y, f"y{n}")
        self.sliced, self.carried = len(sliced), len(carried)
        return outer.model()

    def call(self, rows: int, trips: int, go_on: bool) -> list[np.ndarray]:
        draw = self.generator.standard_normal
        data = [draw((max(trips, 1), 1, 3)).astype(np.float32) for _ in range(self.sliced)]
        starts = [draw((rows, 3)).astype(np.float32) for _ in range(self.carried)]
        return [np.array(trips), np.array(go_on), *data, *starts]


@pytest.mark.parametrize("seed", range(16))
def test_random_loops(seed: int) -> None:
    """Sizes and numbers of turns change from call to call."""
    made = Random(seed)
    fast, slow = compile_model(model := made.model()), compile_model(model, backend="reference")
    for rows, trips, go_on in (
        (3, 5, True),
        (1, 3, True),
        (4, 9, True),
        (3, 0, True),
        (3, 4, False),
        (2, 100, True),
        (4, 9, True),
    ):
        arrays = made.call(rows, trips, go_on)
        for ours, theirs in zip(fast(*arrays), slow(*arrays), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


# ---- branches


def branch(factor: float, weights: np.ndarray | None = None) -> GraphBody:
    b = uncork.Builder("branch")
    x = b.parameter("x", "f32", [None, 4])
    y = add(b, "Tanh", add(b, "Multiply", x, b.constant(np.float32(factor))), name="squashed")
    b.result(
        y
        if weights is None
        else add(b, "MatMul", add(b, "SoftMax", y, opset=8, axis=1), b.constant(weights)),
        "y",
    )
    return GraphBody(b.model())


def either(b: uncork.Builder, x: Source, then: GraphBody, other: GraphBody) -> Source:
    """One branch where the sum of x is above 0, else the other."""
    positive = add(
        b,
        "Greater",
        add(b, "ReduceSum", x, b.constant(np.array([0, 1]))),
        b.constant(np.float32(0)),
    )
    maps = {
        name: BodyMap(body, (BodyInput(1, 0),), (BodyOutput(0, 0),))
        for name, body in (("then_body", then), ("else_body", other))
    }
    return b.add_with_bodies("If", 8, positive, x, bodies=maps)[0]


def test_a_branch_is_a_step(alone: list[int]) -> None:
    """Between kernels, in one native call, for every size and either way; large ones need more
    memory than small ones.
    """
    b = uncork.Builder("if")
    x = add(b, "Add", b.parameter("x", "f32", [None, 4]), b.constant(np.float32(0.25)))
    y = either(b, x, branch(0.5, np.eye(4, dtype=np.float32) * 3), branch(-2.0))
    b.result(add(b, "Exp", y), "y")
    compiled = agree(
        b.model(),
        *((draw(n, 4) + sign,) for n in (2, 3, 50_000, 1, 7) for sign in (2, -2)),
        (draw(0, 4),),
    )
    assert not alone, "no branch is run by Python"
    plans = compiled.executor.plans
    assert plans is not None
    assert [plan.is_native for _, plan in plans.plans] == [True, True], "one is of no rows"
    x = np.ones((3, 4), np.float32)
    np.testing.assert_allclose(compiled(x)[0], np.exp(np.full((3, 4), 0.75)), rtol=1e-6)
    np.testing.assert_allclose(compiled(-x)[0], np.exp(np.tanh(np.full((3, 4), 1.5))), rtol=1e-6)


def test_a_branch_in_a_loop_in_a_branch(alone: list[int]) -> None:
    inner = uncork.Builder("body")
    x = inner.parameter("x", "f32", [None, 4])
    nested = uncork.Builder("nested")
    z = nested.parameter("z", "f32", [None, 4])
    nested.result(either(nested, z, branch(0.9), branch(-1.5, np.eye(4, dtype=np.float32))), "y")
    inner.result(
        add(
            inner,
            "Subtract",
            either(inner, x, GraphBody(nested.model()), branch(-2.0)),
            inner.constant(np.float32(0.3)),
        ),
        "y",
    )
    maps = {
        "inputs": (BodyInput(2, 0),),
        "outputs": (BodyOutput(0, 0), JoinedOutput(1, 0, Slicing(0))),
        "back_edges": ((0, 0),),
    }
    model = loop(inner, maps, np.int64(40), [1, 4], outputs=2)
    agree(model, (draw(1, 4),), (-draw(1, 4),))
    assert len(alone) <= 1


def test_an_error_in_a_branch_names_the_layer() -> None:
    """The branch that is not taken says nothing."""
    looks = uncork.Builder("looks up")
    ids = looks.parameter("ids", "i64", [None])
    table = looks.constant(np.arange(6, dtype=np.float32).reshape(3, 2))
    row = add(
        looks,
        "EmbeddingBagOffsetsSum",
        table,
        ids,
        looks.constant(np.array([0])),
        opset=3,
        name="bag",
    )
    looks.result(row, "row")
    zeros = uncork.Builder("zeros")
    ids = zeros.parameter("ids", "i64", [None])
    total = add(
        zeros,
        "ReduceSum",
        add(zeros, "Convert", ids, destination_type="f32"),
        zeros.constant(np.array([0])),
        keep_dims=True,
    )
    zeros.result(
        add(
            zeros,
            "Multiply",
            add(zeros, "Unsqueeze", total, zeros.constant(np.array([0]))),
            zeros.constant(np.zeros((1, 2), np.float32)),
        ),
        "row",
    )
    b = uncork.Builder("outer")
    go, ids = b.parameter("go", "boolean", []), b.parameter("ids", "i64", [None])
    maps = {
        n: BodyMap(GraphBody(m.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))
        for n, m in (("then_body", looks), ("else_body", zeros))
    }
    b.result(b.add_with_bodies("If", 8, go, ids, bodies=maps)[0], "row")
    compiled = compile_model(b.model())
    for _ in range(2):
        assert compiled(np.array(True), np.array([0, 2]))[0].tolist() == [[4, 6]]
        assert compiled(np.array(False), np.array([0, 7]))[0].tolist() == [[0, 0]]
        with pytest.raises(InputError, match=r"layer 'bag' .*indices\[1\] is 7"):
            compiled(np.array(True), np.array([0, 7]))


def test_threads_take_branches_of_their_own() -> None:
    b = uncork.Builder("if")
    b.result(
        either(
            b,
            b.parameter("x", "f32", [None, 4]),
            branch(0.5),
            branch(-2.0, np.eye(4, dtype=np.float32)),
        ),
        "y",
    )
    compiled, slow = compile_model(b.model()), compile_model(b.model(), backend="reference")
    calls = [draw(n, 4) * sign for n in (2, 700, 30) for sign in (1, -1)]
    expected = [slow(x)[0] for x in calls]
    wrong: list[int] = []

    def work(number: int) -> None:
        for i in range(60):
            place = (i + number) % len(calls)
            if not np.allclose(compiled(calls[place])[0], expected[place], rtol=1e-5, atol=1e-6):
                wrong.append(place)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_bound_call_of_a_branch() -> None:
    b = uncork.Builder("if")
    b.result(either(b, b.parameter("x", "f32", [None, 4]), branch(0.5), branch(-2.0)), "y")
    compiled = compile_model(b.model())
    x = np.ones((5, 4), np.float32)
    bound = compiled.bind(x)
    for sign in (1, -1, 1):
        x[...] = sign
        np.testing.assert_allclose(bound()[0], np.tanh(x * (0.5 if sign > 0 else -2)), rtol=1e-6)
