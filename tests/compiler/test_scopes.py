"""For which calls plans are made: every size, or where a kernel needs numbers, inner sizes or
all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler import execute, plan_set, policy, scoped_plans
from uncork.errors import InputError
from uncork.ir.model import Source


def agree(compiled: uncork.CompiledModel, *inputs: np.ndarray) -> None:
    """The same as the references, twice, which have no plans."""
    expected = uncork.compile_model(compiled.model, backend="reference")(*inputs)
    for _ in range(2):
        for got, wanted in zip(compiled(*inputs), expected, strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def kernels(plan: object) -> list[str]:
    return [step.kernel for step in plan.steps]  # type: ignore[attr-defined]


def bags() -> uncork.CompiledModel:
    """Rows of an input: kernels of bags are made for their length."""
    b = uncork.Builder("bags")
    table, ids, offsets = (
        b.parameter("table", "f32", [None, None]),
        b.parameter("ids", "i64", [None]),
        b.parameter("offsets", "i64", [None]),
    )
    (sums,) = b.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets)
    b.result(b.add("ReLU", 1, sums)[0], "y")
    return uncork.compile_model(b.model(), threads=1)


def test_inner_sizes_are_numbers_where_kernels_need_them() -> None:
    compiled = bags()
    for columns in (24, 7, 24):
        for rows, count in ((10, 6), (33, 41), (5, 2)):
            agree(
                compiled, numbers(rows, columns), np.arange(count) % rows, np.array([0, count // 2])
            )
            plan = compiled.plan
            assert "planned for the sizes of last axes" in plan.remarks
            assert "reference" not in kernels(plan)
    assert compiled.plan.made == 3, "one for every size, and one for each number of columns"


def test_inner_sizes_that_no_kernel_needs_are_open() -> None:
    """Rows of a table are numbers, how many of them a bag has is none."""
    b = uncork.Builder("bags")
    table = b.parameter("table", "f32", [None, None])
    ids, weights = b.parameter("ids", "i64", [None, None]), b.parameter("w", "f32", [None, None])
    b.result(b.add("EmbeddingBagPackedSum", 3, table, ids, weights)[0], "y")
    compiled = uncork.compile_model(b.model(), threads=1)
    for rows, bags, count in ((10, 3, 4), (7, 2, 9), (7, 5, 1), (4, 1, 30)):
        ids = np.arange(bags * count).reshape(bags, count) % rows
        agree(compiled, numbers(rows, 6), ids, numbers(bags, count))
        assert "reference" not in kernels(compiled.plan)
    assert compiled.plan.made == 2, "one for every size, and one for rows of six"


def test_empty_calls_say_nothing_of_what_kernels_need() -> None:
    compiled = bags()
    empty = np.zeros(0, np.int64)
    agree(compiled, numbers(10, 24), empty, np.array([0, 0]))
    agree(compiled, numbers(10, 24), np.arange(6), np.array([0, 3]))
    assert "reference" not in kernels(compiled.plan)
    agree(compiled, numbers(10, 24), empty, np.array([0, 0]))


def test_plans_for_certain_sizes_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were used longest ago go for sizes that come again; what comes once runs by the
    plan for every size.
    """
    monkeypatch.setattr(plan_set, "MOST_SCOPES", 3)
    compiled = bags()

    def call(columns: int) -> str:
        compiled(numbers(9, columns), np.arange(5), np.array([0, 2]))
        return kernels(compiled.plan)[0]

    assert all(call(columns) != "reference" for columns in (1, 2, 3, 1))
    assert compiled.plan.made == 4
    assert call(4) == "reference" and "planned for every size" in compiled.plan.remarks
    assert call(5) == "reference"
    assert call(4) != "reference", "it has come again, in the place of two columns"
    assert compiled.plan.made == 4
    assert call(1) != "reference" and call(3) != "reference"
    assert call(2) == "reference", "it went"
    for columns in (1, 2, 3, 4, 5):
        agree(compiled, numbers(9, columns), np.arange(5), np.array([0, 2]))
    compiled.release_memory()
    agree(compiled, numbers(9, 99), np.arange(5), np.array([0, 2]))
    assert compiled.plan.made == 2
    assert "reference" not in kernels(compiled.plan)


def test_bound_calls_have_the_plans_of_their_sizes() -> None:
    compiled = bags()
    table, ids, offsets = numbers(9, 5), np.arange(5), np.array([0, 2])
    call = compiled.bind(table, ids, offsets)
    np.testing.assert_allclose(call()[0], compiled(table, ids, offsets)[0])
    ids[:] = 3
    np.testing.assert_allclose(call()[0], np.maximum(table[3] * np.array([[2], [3]]), 0), rtol=1e-6)


@pytest.mark.parametrize("shape", [None, [None, None]])
def test_open_ranks_have_plans_by_rank(shape: list[None] | None) -> None:
    b = uncork.Builder("ranks")
    x, y = b.parameter("x", "f32", None), b.parameter("y", "f32", shape)
    b.result(b.add("ReLU", 1, b.add("Add", 1, x, y)[0])[0], "y")
    compiled = uncork.compile_model(b.model(), threads=1)
    assert kernels(compiled.plan) == ["any", "any"] or "reference" not in kernels(compiled.plan)
    assert {step.reason for step in compiled.plan.steps} == {
        "the rank of an input is known at the call only"
    }
    for sizes in ((3, 4), (1, 5), (2, 3, 4), (6, 3, 4), (7, 7)):
        agree(compiled, numbers(*sizes), numbers(*sizes[-2:]))
        assert "reference" not in kernels(compiled.plan)
    assert compiled.plan.made == 2
    assert "reference" not in kernels(compiled.plan_for([9, 2, 2], [2, 2]))


def test_a_rank_that_only_a_call_knows_leaves_the_other_layers_their_kernels() -> None:
    b = uncork.Builder("inner")
    x, axes = b.parameter("x", "f32", [1, 3, 1]), b.parameter("axes", "i64", [2])
    (squeezed,) = b.add("Squeeze", 1, x, axes, name="squeezed")
    b.result(b.add("ReLU", 1, squeezed, name="after")[0], "y")
    b.result(b.add("MatMul", 1, x, x, transpose_b=True, name="product")[0], "z")
    compiled = uncork.compile_model(b.model(), threads=1)
    for given in ([0, 2], [0, 0], [2, 2]):
        agree(compiled, numbers(1, 3, 1), np.array(given))
    found = {step.layer: step.kernel for step in compiled.plan.steps}
    assert found["squeezed"] == found["after"] == "reference"
    assert found["product"] != "reference"


def test_a_wrong_first_call_says_nothing_of_what_kernels_need() -> None:
    """Its sizes do not go together: which kernels need sizes is found out by a later one."""
    b = uncork.Builder("wrong")
    table, ids = b.parameter("table", "f32", [None, None]), b.parameter("ids", "i64", [None])
    (sums,) = b.add("EmbeddingBagOffsetsSum", 3, table, ids, b.parameter("offsets", "i64", [None]))
    b.result(b.add("Concat", 1, sums, b.parameter("more", "f32", [None, 1]), axis=1)[0], "y")
    compiled = uncork.compile_model(b.model(), threads=1)
    with pytest.raises(InputError, match="Concat"):
        compiled(numbers(9, 5), np.arange(5), np.array([0, 2]), numbers(3, 1))
    agree(compiled, numbers(9, 5), np.arange(5), np.array([0, 2]), numbers(2, 1))
    assert "reference" not in kernels(compiled.plan)


@pytest.mark.parametrize(("type_name", "attributes"), [("Concat", {"axis": 1}), ("Add", {})])
def test_wrong_calls_cost_no_plan(type_name: str, attributes: dict[str, int]) -> None:
    """However often somebody gives sizes that do not go together, the next good call is planned."""
    b = uncork.Builder("rows")
    x, y = b.parameter("x", "f32", [None, 4]), b.parameter("y", "f32", [None, 4])
    b.result(b.add("ReLU", 1, b.add(type_name, 1, x, y, **attributes)[0])[0], "y")
    compiled = uncork.compile_model(b.model(), threads=1)
    for _ in range(policy.MOST_FAILURES + 2):
        with pytest.raises(InputError, match=type_name):
            compiled(numbers(2, 4), numbers(3, 4))
    agree(compiled, numbers(3, 4), numbers(3, 4))
    assert "reference" not in [step.kernel for step in compiled.plan.steps]
    # Sizes that differ may be ones of which the second is 1: those calls have a plan of their own.
    assert compiled.plan.made == (2 if type_name == "Add" else 1)
    assert "reference" not in kernels(compiled.plan)


def test_plan_for_takes_shapes_like_a_call_its_inputs() -> None:
    compiled = bags()
    shapes = [[10, 24], [6], [2]]
    plan = compiled.plan_for(*shapes)
    assert kernels(plan)[0].startswith("bag_offsets_f32x24_i64")
    assert plan.steps[-1].outputs == "f32[2,24]"
    names = dict(zip(("table", "ids", "offsets"), shapes, strict=True))
    for other in (
        compiled.plan_for(shapes),
        compiled.plan_for(**names),
        compiled.plan_for(names),
        compiled.plan_for({0: shapes[0], "ids": [6], compiled.inputs[2]: (np.int64(2),)}),
    ):
        assert str(other) == str(plan)
    assert plan.made == compiled.plan.made == 0, "nothing is kept"
    part = compiled.plan_for(ids=[6], offsets=[2])
    assert part.steps[-1].outputs == "f32[2,table_1]"
    assert kernels(part)[0] == "reference"
    assert str(compiled.plan_for(offsets=[None])) == str(compiled.plan)


def test_plan_for_gives_numbers_for_sizes_and_places() -> None:
    b = uncork.Builder("numbers")
    x = b.parameter("x", "f32", [None, 40])
    (product,) = b.add("MatMul", 1, x, b.constant(numbers(40, 30)))
    (total,) = b.add("SoftMax", 8, product, axis=-1)
    b.result(b.add("MatMul", 1, total, b.constant(numbers(30, 20)))[0], "y")
    compiled = uncork.compile_model(b.model(), threads=1)
    before = compiled.plan
    assert [step.outputs for step in before.steps] == ["f32[x_0,30]", "f32[x_0,30]", "f32[x_0,20]"]
    assert before.working_bytes is None
    plan = compiled.plan_for(x=[8, 40])
    assert [step.outputs for step in plan.steps] == ["f32[8,30]", "f32[8,30]", "f32[8,20]"]
    assert [step.place for step in plan.steps] == ["at 0", "at 960", "output 0"]
    assert plan.working_bytes == 2 * 960
    assert kernels(plan) == kernels(before)
    compiled(numbers(8, 40))
    assert kernels(compiled.plan) == kernels(before)
    assert compiled.plan.working_bytes >= 2 * 960


def test_refusals_of_plan_for() -> None:
    compiled = bags()
    for given, named, message in (
        (
            (),
            {"tabel": [1, 2]},
            r"no input is called 'tabel'; did you mean 'table'\?; inputs: table f32\[\?,\?\]",
        ),
        (([1, 2], [3], [4], [5]), {}, r"expected the shapes of 3 inputs \(table f32.*\), got 4"),
        (([1, 2],), {"table": [1, 2]}, "the shape of input 'table' is given twice"),
        (([1, 2, 3],), {}, r"input 'table': expected shape \[\?,\?\], got \[1, 2, 3\]"),
        ((), {"ids": [-1]}, r"input 'ids': expected a shape, a list of sizes and None, got \[-1\]"),
        ((), {"ids": 3}, r"input 'ids': expected a shape, a list of sizes and None, got 3"),
        ((), {"ids": ["a"]}, r"input 'ids': expected a shape"),
    ):
        with pytest.raises(InputError, match=message):
            compiled.plan_for(*given, **named)


def test_plan_for_refuses_shapes_that_do_not_go_together() -> None:
    b = uncork.Builder("rows")
    x, y = b.parameter("x", "f32", [None, 4]), b.parameter("y", "f32", [None, 4])
    joined = b.add("Concat", 1, x, y, axis=1, name="joined")
    compiled = uncork.compile_model(_with(b, joined[0]))
    with pytest.raises(InputError, match=r"layer 'joined' .*: expected x_0 == y_0, got 2 and 3"):
        compiled.plan_for([2, 4], [3, 4])
    b = uncork.Builder("sum")
    x, y = b.parameter("x", "f32", [None, 4]), b.parameter("y", "f32", [None, 4])
    compiled = uncork.compile_model(_with(b, b.add("Add", 1, x, y, name="added")[0]))
    with pytest.raises(uncork.UncorkError, match="added"):
        compiled.plan_for([2, 4], [3, 4])
    with pytest.raises(InputError, match=r"layer 'added' .*: expected y_0 == 1, got 3 and 1"):
        compiled.prepare({"x": [2, 4], "y": [3, 4]})
    compiled.prepare({"x": [3, 4], "y": [3, 4]})


def _with(b: uncork.Builder, result: Source) -> uncork.Model:
    b.result(result, "y")
    return b.model()


def test_the_plan_says_why_and_what_a_pass_did() -> None:
    """Two columns: why no kernel runs a step, and what a pass says of it."""
    b = uncork.Builder("columns")
    x = b.parameter("x", "f32", [None, 40])
    (ended,) = b.add("ReLU", 1, b.add("MatMul", 1, x, b.constant(numbers(40, 30)))[0])
    (normal,) = b.add(
        "MVN",
        6,
        ended,
        b.constant(np.array([1])),
        normalize_variance=True,
        eps=1e-6,
        eps_mode="inside_sqrt",
    )
    b.result(normal, "y")
    b.result(
        b.add(
            "RandomUniform",
            8,
            b.constant(np.array([2])),
            b.constant(np.float32(0)),
            b.constant(np.float32(1)),
            output_type="f32",
        )[0],
        "z",
    )
    plan = uncork.compile_model(b.model()).plan
    heading = str(plan).splitlines()[0].split()
    assert heading[-2:] == ["reason", "note"]
    assert [bool(step.reason) for step in plan.steps if step.kernel == "reference"] == [True]
    assert not any(step.reason for step in plan.steps if step.kernel != "reference")
    plans, precision, costs = plan.remarks[1:]
    assert (plans, costs) == policy.described()
    assert precision.startswith("precision: f32")


def test_policy_constants_are_printed() -> None:
    text = "\n".join(policy.described())
    for number in (policy.MOST_PLANS, policy.MOST_SCOPES, policy.MOST_TRIES, policy.MOST_FAILURES):
        assert f" {number} " in text
    assert f" {policy.SPLIT_COST / 1e6:g} ms " in text
    assert f" {policy.RELEASE_COST / 1e3:g} us " in text
    assert f" {policy.LOOK_COST / 1e3:g} us " in text


def test_the_plan_that_was_not_used_for_longest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that come again keep theirs, whatever comes between them."""
    monkeypatch.setattr(scoped_plans, "MOST_PLANS", 2)
    planned: list[bool] = []
    plan = plan_set.planned

    def counted(*arguments: Any) -> Any:
        planned.append(True)
        return plan(*arguments)

    monkeypatch.setattr(plan_set, "planned", counted)
    b = uncork.Builder("sum")
    x, y = b.parameter("x", "f32", [None, 4]), b.parameter("y", "f32", [None, 4])
    b.result(b.add("Add", 1, x, y)[0], "sum")
    compiled = uncork.compile_model(b.model())
    alike, one, other = (3, 3), (1, 3), (3, 1)
    for rows, expected in (
        (alike, 1), (one, 2), (alike, 2), (other, 3), (alike, 3), (one, 4), (alike, 4),
    ):  # fmt: skip
        agree(compiled, *(numbers(n, 4) for n in rows))
        assert len(planned) == expected, rows


def windows() -> uncork.CompiledModel:
    """Filters of the call: kernels of convolutions are made for both their sizes."""
    b = uncork.Builder("windows")
    x, filters = (
        b.parameter("x", "f32", [1, 3, None, None]),
        b.parameter("filters", "f32", [4, 3, None, None]),
    )
    spatial = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    b.result(b.add("Convolution", 1, x, filters, auto_pad="explicit", **spatial)[0], "y")
    return uncork.compile_model(b.model(), threads=1)


@pytest.mark.parametrize(
    ("made", "inputs"),
    [
        (bags, [numbers(10, 24), np.arange(6), np.array([0, 3])]),
        (windows, [numbers(1, 3, 9, 8), numbers(4, 3, 3, 2)]),
    ],
)
def test_a_first_call_is_planned_once_for_each_scope(
    made: Callable[[], uncork.CompiledModel],
    inputs: list[np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For every size, for inner sizes to look at, and for those that it is made with."""
    plan = plan_set.planned
    planned: list[bool] = []

    def counted(*arguments: Any) -> Any:
        planned.append(arguments[-1])
        return plan(*arguments)

    monkeypatch.setattr(plan_set, "planned", counted)
    compiled = made()
    agree(compiled, *inputs)
    assert "reference" not in kernels(compiled.plan)
    assert planned == [True, False, True], "whether kernels are made"


def decoder() -> uncork.CompiledModel:
    """A step of a decoder that is given what the steps before it computed, and gives it on."""
    b = uncork.Builder("decoder")
    x, past = b.parameter("x", "f32", [None, None, 4]), b.parameter("past", "f32", [None, None, 4])
    (rows,) = b.add("Concat", 1, past, x, axis=1)
    (scores,) = b.add("MatMul", 1, x, rows, transpose_b=True)
    (seen,) = b.add("MatMul", 1, b.add("SoftMax", 8, scores, axis=-1)[0], rows)
    b.result(seen, "y")
    b.result(rows, "rows")
    return uncork.compile_model(b.model())


def test_calls_with_an_empty_input_have_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step has no rows before it: its plan serves the steps behind it, too."""
    compiled = decoder()
    for steps in (5, 3):
        past = np.zeros((2, 0, 4), np.float32)
        for count in (steps, 1, 1):
            x = numbers(2, count, 4)
            with monkeypatch.context() as without_references:
                without_references.delattr(execute, "interpret")
                results = compiled(x, past)
            agree(compiled, x, past)
            past = results["rows"]
    assert compiled.plan.made == 1
    agree(compiled, numbers(0, 3, 4), numbers(0, 2, 4))
    assert compiled.plan.made == 2, "another input is empty"
    agree(compiled, numbers(2, 0, 4), numbers(2, 2, 4))
    agree(compiled, numbers(2, 3, 4), numbers(2, 2, 4))


def test_plans_of_empty_inputs_are_prepared_and_printed() -> None:
    compiled = decoder()
    compiled.prepare({"past": [None, 0, None]})
    assert compiled.plan.made == 1
    planned = compiled.plan_for(past=[2, 0, 4], x=[2, 3, 4])
    assert "reference" not in kernels(planned)
    assert planned.steps[-1].outputs == "f32[2,3,4]"
    compiled(numbers(2, 3, 4), numbers(2, 0, 4))
    assert compiled.plan.made == 1
    compiled.release_memory()
    agree(compiled, numbers(2, 3, 4), numbers(2, 0, 4))


def test_empty_inputs_that_cannot_be() -> None:
    """The words are those of the references; other calls go on."""
    b = uncork.Builder("pooled")
    x = b.parameter("x", "f32", [None, 3, None, None])
    window = {"strides": [1, 1], "kernel": [3, 3], "pads_begin": [0, 0], "pads_end": [0, 0]}
    b.result(b.add("MaxPool", 1, x, **window)[0], "y")
    pooled = uncork.compile_model(b.model())
    for _ in range(3):
        with pytest.raises(
            InputError, match=r"'MaxPool_1' .* spans 3 cells along spatial axis 0, "
        ):
            pooled(np.zeros((1, 3, 0, 9), np.float32))
        agree(pooled, numbers(2, 3, 5, 4))
        agree(pooled, np.zeros((0, 3, 5, 4), np.float32))
