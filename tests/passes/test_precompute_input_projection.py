"""Sequences whose X is looked up in a constant table: the same results as the two layers, whatever
the ids are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork

pytest.importorskip("llvmlite")

F32 = np.float32
ROWS, COLUMNS, BATCH, STEPS = 23, 9, 6, 7


def model(
    type_name: str, direction: str, hidden: int, gather: int, ids: str, **attributes: Any
) -> uncork.Model:
    generator = np.random.default_rng(hidden)

    def some(*shape: int) -> Any:
        return generator.standard_normal(shape).astype(F32) / F32(np.sqrt(shape[-1]))

    gates = {"GRUSequence": 3, "LSTMSequence": 4, "RNNSequence": 1}[type_name]
    d = 2 if direction == "bidirectional" else 1
    builder = uncork.Builder("looked up")
    items = builder.parameter("items", ids, [None, STEPS])
    lengths = builder.parameter("lengths", "i64", [None])
    states = [
        builder.parameter(f"s{n}", "f32", [None, d, hidden])
        for n in range(2 if type_name == "LSTMSequence" else 1)
    ]
    x = builder.add(
        "Gather",
        gather,
        builder.constant(some(ROWS, COLUMNS)),
        items,
        builder.constant(np.int64(0)),
    )[0]
    biases = gates + bool(attributes.get("linear_before_reset"))
    weights = [
        builder.constant(some(d, n, k))
        for n, k in ((gates * hidden, COLUMNS), (gates * hidden, hidden))
    ]
    weights.append(builder.constant(some(d, biases * hidden)))
    for number, output in enumerate(
        builder.add(
            type_name,
            5,
            x,
            *states,
            lengths,
            *weights,
            hidden_size=hidden,
            direction=direction,
            **attributes,
        )
    ):
        builder.result(output, f"out{number}")
    return builder.model()


CELLS = [
    ("GRUSequence", {"linear_before_reset": True}),
    ("GRUSequence", {}),
    ("LSTMSequence", {}),
    ("RNNSequence", {}),
]


def check(
    made: uncork.Model,
    items: Any,
    d: int,
    hidden: int,
    states: int,
    threads: int = 1,
    **options: Any,
) -> str:
    """A call by kernels against the references; the plan."""
    state = np.random.default_rng(5).standard_normal((BATCH, d, hidden)).astype(F32)
    given = [items, np.array([7, 0, 3, 7, 1, 5]), *[state] * states]
    fast = uncork.compile_model(made, threads=threads, **options)
    expected = uncork.compile_model(made, backend="reference", **options)(*given)
    for _ in range(2):
        for got, wanted in zip(fast(*given), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-5)
    return "\n".join(step.operation for step in fast.plan.steps)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("type_name", "attributes"), CELLS)
def test_the_same_as_two_layers(
    type_name: str, attributes: dict[str, Any], direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, d = 2 if type_name == "LSTMSequence" else 1, 2 if direction == "bidirectional" else 1
    for hidden, ids in ((5, "i64"), (33, "i32"), (16, "u8")):
        items = (
            np.random.default_rng(1)
            .integers(0, ROWS, (BATCH, STEPS))
            .astype({"i64": np.int64, "i32": np.int32, "u8": np.uint8}[ids])
        )
        made = model(type_name, direction, hidden, 8, ids, **attributes)
        plan = check(made, items, d, hidden, states)
        assert "LookedUp" in plan and "Gather" not in plan
        monkeypatch.setattr("uncork.compiler.shared_work.SPLIT_COST", 0)
        for team in (False, True):
            monkeypatch.setattr(
                "uncork.kernels.recurrent.sequence_calls._suits_team", lambda *_, team=team: team
            )
            check(made, items, d, hidden, states, threads=4)


@pytest.mark.parametrize("gather", [7, 8])
def test_ids_outside_and_negative_ones(gather: int) -> None:
    """Zeros for rows that are not there; from Gather-8 on negative ids count from the end. Steps
    that do not run have ids, too.
    """
    made = model("GRUSequence", "forward", 20, gather, "i64")
    items = np.random.default_rng(2).integers(-ROWS - 3, ROWS + 3, (BATCH, STEPS))
    items[0, :4] = [2**40, -(2**40), 2**63 - 1, -(2**63)]
    assert "LookedUp" in check(made, items, 1, 20, 1)


def test_strict_calls_look_at_every_id() -> None:
    made = model("GRUSequence", "forward", 20, 8, "i64")
    items = np.ones((BATCH, STEPS), np.int64)
    assert "LookedUp" in check(made, items, 1, 20, 1, strict=True)
    items[2, 6] = ROWS  # behind the end of its row
    strict = uncork.compile_model(made, strict=True)
    for _ in range(2):
        with pytest.raises(uncork.InputError, match=rf"Gather.*{ROWS}"):
            strict(items, np.array([7, 0, 3, 7, 1, 5]), np.zeros((BATCH, 1, 20), F32))


def test_large_tables_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uncork.passes.precompute_input_projection._MOST_BYTES", 1000)
    items = np.ones((BATCH, STEPS), np.int64)
    assert "LookedUp" not in check(model("GRUSequence", "forward", 20, 8, "i64"), items, 1, 20, 1)


def test_a_table_that_others_read_is_looked_up_for_them() -> None:
    builder = uncork.Builder("two readers")
    table = np.arange(ROWS * COLUMNS, dtype=F32).reshape(ROWS, COLUMNS) / 100
    items, lengths = builder.parameter("items", "i64", [2, 3]), builder.constant(np.array([3, 2]))
    x = builder.add("Gather", 8, builder.constant(table), items, builder.constant(np.int64(0)))[0]
    state = builder.constant(np.zeros((2, 1, 4), F32))
    weights = [
        builder.constant(np.full(shape, 0.1, F32)) for shape in ((1, 4, COLUMNS), (1, 4, 4), (1, 4))
    ]
    y = builder.add(
        "RNNSequence", 5, x, state, lengths, *weights, hidden_size=4, direction="forward"
    )[0]
    builder.result(x, "rows")
    builder.result(y, "states")
    made = builder.model()
    ids = np.array([[1, 5, 22], [0, 3, 2]])
    rows, states = uncork.compile_model(made)(ids)
    np.testing.assert_array_equal(rows, table[ids])
    h = np.zeros(4)
    for t in range(3):
        h = np.tanh(0.1 * table[ids[0, t]].sum() + 0.1 * h.sum() + 0.1) * np.ones(4)
        np.testing.assert_allclose(states[0, 0, t], h, rtol=1e-5)
