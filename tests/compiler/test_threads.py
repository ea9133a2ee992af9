"""Large steps shared by threads: the same results, the same refusals, and nothing left behind in a
child process.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import uncork

pytest.importorskip("llvmlite")

F32 = np.float32


def some(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(F32)


def model(add: Callable[[uncork.Builder], Any]) -> uncork.Model:
    builder = uncork.Builder("large")
    for output in add(builder):
        builder.result(output)
    return builder.model()


def bags(b: uncork.Builder) -> Any:
    ids, offsets = b.parameter("ids", "i64", [None]), b.parameter("offsets", "i64", [None])
    return b.add("EmbeddingBagOffsetsSum", 3, b.constant(some(1000, 64)), ids, offsets)


def segments(b: uncork.Builder) -> Any:
    ids, owners = b.parameter("ids", "i64", [None]), b.parameter("owners", "i64", [None])
    return b.add(
        "EmbeddingSegmentsSum",
        3,
        b.constant(some(1000, 64)),
        ids,
        owners,
        b.constant(np.int64(5000)),
    )


def compressed(b: uncork.Builder) -> Any:
    codes = b.constant(np.random.default_rng(3).integers(0, 256, (1000, 64)).astype(np.uint8))
    return b.add(
        "Multiply",
        1,
        b.add("Convert", 1, codes, destination_type="f32")[0],
        b.constant(some(1000, 1)),
    )[0]


def compressed_bags(b: uncork.Builder) -> Any:
    ids, offsets = b.parameter("ids", "i64", [None]), b.parameter("offsets", "i64", [None])
    return b.add("EmbeddingBagOffsetsSum", 3, compressed(b), ids, offsets)


def compressed_segments(b: uncork.Builder) -> Any:
    ids, owners = b.parameter("ids", "i64", [None]), b.parameter("owners", "i64", [None])
    return b.add(
        "EmbeddingSegmentsSum", 3, compressed(b), ids, owners, b.constant(np.int64(20_000))
    )


def rows(b: uncork.Builder) -> Any:
    return b.add(
        "Gather",
        8,
        b.constant(some(1000, 64)),
        b.parameter("ids", "i64", [None]),
        b.constant(np.int64(0)),
    )


def slabs(b: uncork.Builder) -> Any:
    return b.add(
        "Gather",
        8,
        b.constant(some(9, 700, 32)),
        b.parameter("ids", "i64", [None]),
        b.constant(np.int64(1)),
    )


def by_batch(b: uncork.Builder) -> Any:
    ids = b.parameter("ids", "i64", [5, None])
    return b.add(
        "Gather", 8, b.constant(some(5, 700, 32)), ids, b.constant(np.int64(1)), batch_dims=1
    )


def product(b: uncork.Builder) -> Any:
    return b.add("MatMul", 1, b.parameter("x", "f32", [None, 256]), b.constant(some(256, 300)))


def sequence(b: uncork.Builder, direction: str = "forward") -> Any:
    d = 2 if direction == "bidirectional" else 1
    sources = [
        b.parameter("x", "f32", [33, 40, 64]),
        b.parameter("h", "f32", [33, d, 128]),
        b.parameter("n", "i64", [33]),
    ]
    weights = [
        b.constant(some(d, 384, 64) / F32(8)),
        b.constant(some(d, 384, 128) / F32(12)),
        b.constant(some(d, 384)),
    ]
    return b.add("GRUSequence", 5, *sources, *weights, hidden_size=128, direction=direction)


def ids(count: int) -> Any:
    return np.random.default_rng(count).integers(0, 1000, count)


LENGTHS = np.arange(33) % 41
CASES: dict[str, tuple[Callable[[uncork.Builder], Any], list[Any]]] = {
    "bags": (bags, [ids(100_000), np.arange(0, 100_000, 20)]),
    "segments": (segments, [ids(100_000), np.sort(np.arange(100_000) % 4999)]),
    "compressed bags": (compressed_bags, [ids(400_000), np.arange(0, 400_000, 20)]),
    "compressed segments": (
        compressed_segments,
        [ids(400_000), np.sort(np.arange(400_000) % 19_999)],
    ),
    "rows": (rows, [ids(100_001) - 300]),
    "slabs": (slabs, [ids(30_000) % 700]),
    "batches": (by_batch, [ids(200_000).reshape(5, 40_000) % 700]),
    "product": (product, [some(901, 256)]),
    "sequence": (sequence, [some(33, 40, 64), some(33, 1, 128), LENGTHS]),
    "both directions": (
        lambda b: sequence(b, "bidirectional"),
        [some(33, 40, 64), some(33, 2, 128), LENGTHS],
    ),
}


def kernels(compiled: uncork.CompiledModel) -> str:
    """The kernels that the last call ran."""
    return "\n".join(step.kernel for step in compiled.plan.steps)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threads", [2, 3])
def test_the_same_results(name: str, threads: int) -> None:
    made, inputs = CASES[name]
    one, many = (uncork.compile_model(model(made), threads=n) for n in (1, threads))
    expected = one(*inputs)
    for _ in range(3):
        got = many(*inputs)
        for a, b in zip(expected, got, strict=True):
            if (
                "sequence" in name or "directions" in name
            ):  # rows are taken together by their lengths, and sums grouped accordingly
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(a, b)
    assert f" {threads} threads" in kernels(many) or name == "both directions"
    assert "threads" not in kernels(one)


def layer(
    type_name: str,
    batch: int,
    steps: int,
    inputs: int,
    hidden: int,
    direction: str,
    **attributes: Any,
) -> tuple[Any, list[Any]]:
    """A recurrent layer with weights, and arrays to call it with."""
    gates = {"GRUSequence": 3, "LSTMSequence": 4, "RNNSequence": 1}[type_name]
    d = 2 if direction == "bidirectional" else 1
    biases = gates + bool(attributes.get("linear_before_reset"))
    states = 2 if type_name == "LSTMSequence" else 1

    def add(b: uncork.Builder) -> Any:
        sources = [b.parameter("x", "f32", [batch, steps, inputs])]
        sources += [b.parameter(f"state{n}", "f32", [batch, d, hidden]) for n in range(states)]
        weights = [
            some(d, gates * hidden, inputs) / F32(8),
            some(d, gates * hidden, hidden) / F32(hidden**0.5),
            some(d, biases * hidden),
        ]
        constants = [b.constant(array) for array in weights]
        return b.add(
            type_name,
            5,
            *sources,
            b.parameter("n", "i64", [batch]),
            *constants,
            hidden_size=hidden,
            direction=direction,
            **attributes,
        )

    lengths = (np.arange(batch) * 7 + 3) % (steps + 1)
    lengths[0] = steps
    return add, [some(batch, steps, inputs), *[some(batch, d, hidden)] * states, lengths]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("type_name", "attributes"),
    [
        ("GRUSequence", {"linear_before_reset": True}),
        ("GRUSequence", {}),
        ("LSTMSequence", {}),
        ("RNNSequence", {}),
    ],
)
def test_units_of_a_sequence_are_shared(
    type_name: str, attributes: dict[str, Any], direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the others are at, to the last bit: also with more members than parts, and with more
    threads than processors.
    """
    monkeypatch.setattr("uncork.compiler.shared_work.SPLIT_COST", 0)
    monkeypatch.setattr("uncork.kernels.recurrent.sequence_calls._suits_team", lambda *_: True)
    for batch, steps, inputs, hidden in [(1, 30, 5, 17), (9, 12, 33, 70), (2, 1, 3, 100)]:
        add, inputs_of_call = layer(
            type_name, batch, steps, inputs, hidden, direction, **attributes
        )
        expected = uncork.compile_model(model(add), threads=1)(*inputs_of_call)
        for members in (2, 3, 6):
            threads = members * (2 if direction == "bidirectional" else 1)
            shared = uncork.compile_model(model(add), threads=threads)
            for _ in range(10):
                for a, b in zip(expected, shared(*inputs_of_call), strict=True):
                    np.testing.assert_array_equal(a, b)


def open_sequence(b: uncork.Builder, type_name: str = "GRUSequence", hidden: int = 32) -> Any:
    gates = {"GRUSequence": 3, "LSTMSequence": 4}[type_name]
    sources = [
        b.parameter("x", "f32", [None, None, 24]),
        b.parameter("h", "f32", [None, 1, hidden]),
    ]
    sources += [b.parameter("c", "f32", [None, 1, hidden])] if type_name == "LSTMSequence" else []
    weights = [
        some(1, gates * hidden, 24) / F32(8),
        some(1, gates * hidden, hidden) / F32(hidden**0.5),
        some(1, gates * hidden),
    ]
    return b.add(
        type_name,
        5,
        *sources,
        b.parameter("n", "i64", [None]),
        *map(b.constant, weights),
        hidden_size=hidden,
        direction="forward",
    )


def of_sequence(hidden: int, states: int) -> Callable[[int], list[Any]]:
    def made(size: int) -> list[Any]:
        batch, steps = max(1, size // 7), 1 + size % 7
        return [some(batch, steps, 24), *[some(batch, 1, hidden)] * states, np.full(batch, steps)]

    return made


def move(b: uncork.Builder) -> Any:
    return b.add(
        "Transpose", 1, b.parameter("x", "f32", [None, None, 33]), b.constant(np.array([0, 2, 1]))
    )


OPEN: dict[str, tuple[Callable[[uncork.Builder], Any], Callable[[int], list[Any]]]] = {
    "bags": (bags, lambda n: [ids(n), np.arange(0, n, 5)]),
    "compressed segments": (
        compressed_segments,
        lambda n: [ids(n), np.sort(np.arange(n) % 20_000)],
    ),
    "rows": (rows, lambda n: [ids(n) - 300]),
    "slabs": (slabs, lambda n: [ids(n) % 700]),
    "batches": (by_batch, lambda n: [ids(5 * n).reshape(5, n) % 700]),
    "product": (product, lambda n: [some(n, 256)]),
    "transpose": (move, lambda n: [some(1 + n // 11, 1 + n % 11, 33)]),
    "GRU": (open_sequence, of_sequence(32, 1)),
    "LSTM": (lambda b: open_sequence(b, "LSTMSequence"), of_sequence(32, 2)),
    "GRU of few rows, which a team shares": (
        lambda b: open_sequence(b, hidden=448),
        lambda n: of_sequence(448, 1)(n % 50),
    ),
}
SIZES = [1, 2, 40, 3, 301, 7, 64, 1000, 5, 40]


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("split_cost", [1, 20_000, None])
def test_open_sizes_in_turn(
    name: str, split_cost: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One plan for all sizes: it is shared from a cost on, and gives what one thread gives."""
    if split_cost is not None:
        monkeypatch.setattr("uncork.compiler.shared_work.SPLIT_COST", split_cost)
    build, inputs_of = OPEN[name]
    alone = uncork.compile_model(model(build), threads=1)
    expected = [alone(*inputs_of(size)) for size in SIZES]
    for threads in (2, 3, 8):
        shared = uncork.compile_model(model(build), threads=threads)
        for size, wanted in zip(SIZES, expected, strict=True):
            for a, b in zip(wanted, shared(*inputs_of(size)), strict=True):
                if name in ("GRU", "LSTM"):  # see above
                    np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)
                else:
                    np.testing.assert_array_equal(a, b, err_msg=f"size {size} in {threads} threads")
        assert shared.plan.made == 1
        assert f"in up to {min(threads, 5) if name == 'batches' else threads} threads" in kernels(
            shared
        )


def test_a_plan_names_no_more_threads_than_a_call_has() -> None:
    """Three copies are cut in two each, which makes six pieces of work for two threads."""
    compiled = uncork.compile_model(model(three_joined), threads=2)
    inputs = [some(300, width) for width in (16, 40, 64)]
    np.testing.assert_array_equal(compiled(*inputs)[0], np.concatenate(inputs, axis=1))
    assert "in up to 2 threads" in kernels(compiled)


def three_joined(b: uncork.Builder) -> Any:
    parts = [b.parameter(f"x{width}", "f32", [None, width]) for width in (16, 40, 64)]
    return b.add("Concat", 1, *parts, axis=1)


def test_one_long_row_is_shared() -> None:
    add, arrays = layer("GRUSequence", 1, 200, 256, 256, "forward")
    shared = uncork.compile_model(model(add), threads=2)
    got = shared(*arrays)
    assert "in 2 threads" in kernels(shared)
    for a, b in zip(uncork.compile_model(model(add), threads=1)(*arrays), got, strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(uncork.InputError, match="201"):
        shared(*arrays[:-1], np.array([201]))


def test_a_value_that_one_part_refuses_is_named() -> None:
    compiled = uncork.compile_model(model(bags), threads=2)
    wrong = ids(100_000)
    wrong[70_001] = 1000
    for _ in range(2):
        with pytest.raises(uncork.InputError, match=r"70001.*1000"):
            compiled(wrong, np.arange(0, 100_000, 20))


def test_small_calls_have_no_threads() -> None:
    compiled = uncork.compile_model(model(bags), threads=2)
    before = threading.active_count()
    compiled(ids(100), np.arange(0, 100, 20))
    assert threading.active_count() == before
    assert compiled.plan.made


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_process_makes_threads_of_its_own() -> None:
    made, inputs = CASES["bags"]
    compiled = uncork.compile_model(model(made), threads=2)
    expected = compiled(*inputs)[0]
    context = multiprocessing.get_context("fork")
    results = context.Queue()

    def child() -> None:
        results.put(bool(np.array_equal(compiled(*inputs)[0], expected)))

    process = context.Process(target=child)
    process.start()
    assert results.get(timeout=60)
    process.join(60)
    assert process.exitcode == 0


def test_callers_may_be_threads_themselves() -> None:
    made, inputs = CASES["bags"]
    compiled = uncork.compile_model(model(made), threads=2)
    expected = compiled(*inputs)[0]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            if not np.array_equal(compiled(*inputs)[0], expected):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
