"""Whole models with sizes as symbols: every size of every layer is told, and is right, whatever the
sizes of a call.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.symbolic._runs import Plans
from uncork.errors import UncorkError, ValidationError
from uncork.ir.bodies import GraphBody
from uncork.ir.interpret import State
from uncork.ir.model import Model, Source
from uncork.ir.symbols import infer_symbolic
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    InnerResult,
    JoinedOutput,
    SlicedInput,
    Slicing,
)
from uncork.symbolic import Facts, Origin
from uncork.types import PartialShape, TensorSpec

EXAMPLES = Path(__file__).parents[2] / "examples"
F32 = np.float32


def results(model: Model) -> list[TensorSpec]:
    return [model.spec(model.by_id[r].inputs[0]) for r in model.results]


def shapes(model: Model) -> list[str]:
    return [str(spec.shape) for spec in results(model)]


def told(facts: Facts) -> tuple[list[str], list[str]]:
    return [str(g) for g in facts.guards], [str(c) for c in facts.checks]


def random_inputs(
    model: Model, sizes: dict[str, int], generator: np.random.Generator
) -> list[np.ndarray]:
    """Inputs whose open dimensions have these sizes, by symbol; integers are 0 and 1 in rising
    order.
    """
    symbolic, _ = infer_symbolic(model)
    arrays = []
    for parameter in model.parameters:
        spec = model.by_id[parameter].outputs[0].spec
        named = symbolic.by_id[parameter].outputs[0].spec.shape
        shape = [
            int(d) if d.is_static else sizes[str(n)] for d, n in zip(spec.shape, named, strict=True)
        ]
        if spec.element_type.is_float:
            arrays.append(generator.standard_normal(shape).astype(spec.element_type.dtype))
        else:
            arrays.append(
                np.sort(generator.integers(0, 2, shape), 0).astype(spec.element_type.dtype)
            )
    return arrays


@pytest.mark.parametrize("name", ["word_language", "session_recommender"])
def test_examples(name: str) -> None:
    model = uncork.read_model(EXAMPLES / name / "model.xml")
    symbolic, facts = infer_symbolic(model)
    assert facts.guards == []
    assert all(
        symbol.kind == "input"
        for node in symbolic.nodes
        for p in node.outputs
        for d in p.spec.shape
        for symbol in d.as_size().symbols
    )
    plans, generator = Plans(model, []), np.random.default_rng(0)
    replaced = {str(symbol): size for symbol, size in facts.equal.items()}
    right = 0
    for batch in (1, 2, 5, 13):
        for other in (1, 3, 8):
            free = {str(s): (batch if s.origin.position == 0 else other) for s in facts.symbols}
            sizes = {
                s: (
                    free[str(size)]
                    if (size := replaced.get(s)) is not None and str(size) in free
                    else n
                )
                for s, n in free.items()
            }
            try:
                plans.check(random_inputs(model, sizes, generator), {})
            except UncorkError:
                continue
            right += 1
    assert right >= 4
    assert len(plans.made) == 1


def test_shape_arithmetic_gives_expressions() -> None:
    """x [batch, steps, 8] in heads of 4, and back; the batch by a number, the steps by -1."""
    builder = uncork.Builder("heads")
    x = builder.parameter("x", "f32", [None, None, 8])
    (shape,) = builder.add("ShapeOf", 3, x)
    (batch,) = builder.add(
        "Gather", 8, shape, builder.constant(np.array([0])), builder.constant(np.array(0))
    )
    (target,) = builder.add("Concat", 1, batch, builder.constant(np.array([-1, 2, 4])), axis=0)
    (heads,) = builder.add("Reshape", 1, x, target, special_zero=False)
    (turned,) = builder.add("Transpose", 1, heads, builder.constant(np.array([0, 2, 1, 3])))
    (flat,) = builder.add(
        "Reshape", 1, turned, builder.constant(np.array([-1, 4])), special_zero=False
    )
    (pooled,) = builder.add(
        "MaxPool",
        1,
        turned,
        strides=(2, 1),
        kernel=(3, 1),
        rounding_type="ceil",
        auto_pad="explicit",
    )
    builder.result(turned, "turned")
    builder.result(flat, "flat")
    builder.result(pooled, "pooled")
    model = builder.model()
    symbolic, facts = infer_symbolic(model)
    assert shapes(symbolic) == ["[x_0,2,x_1,4]", "[2*x_0*x_1,4]", "[x_0,2,floor(x_1 / 2),4]"]
    assert told(facts) == ([], ["x_1 >= 3"])
    plans = Plans(model, [])
    for batch_size, steps in ((1, 3), (2, 4), (5, 9)):
        plans.check([np.zeros((batch_size, steps, 8), F32)], {})
    assert len(plans.made) == 1


def cache() -> Model:
    """Keys that a variable collects, its first value of no length; a score of the new token against
    all.
    """
    builder = uncork.Builder("cache")
    new, beams = (
        builder.parameter("new", "f32", [None, None, 4]),
        builder.parameter("beams", "i32", [None]),
    )
    (shape,) = builder.add("ShapeOf", 3, new)
    (batch,) = builder.add(
        "Gather", 8, shape, builder.constant(np.array([0])), builder.constant(np.array(0))
    )
    (empty,) = builder.add("Concat", 1, batch, builder.constant(np.array([0, 4])), axis=0)
    (start,) = builder.add("Broadcast", 3, builder.constant(F32(0)), empty, mode="numpy")
    (old,) = builder.add(
        "ReadValue",
        6,
        start,
        variable_id="keys",
        variable_type="f32",
        variable_shape=PartialShape([None, None, 4]),
    )
    (picked,) = builder.add("Gather", 8, old, beams, builder.constant(np.array(0)))
    (keys,) = builder.add("Concat", 1, picked, new, axis=1)
    builder.add("Assign", 6, keys, variable_id="keys")
    (scores,) = builder.add("MatMul", 1, new, keys, transpose_b=True)
    (length,) = builder.add(
        "Gather",
        8,
        builder.add("ShapeOf", 3, keys)[0],
        builder.constant(np.array(1)),
        builder.constant(np.array(0)),
    )
    (places,) = builder.add(
        "Range",
        4,
        builder.constant(np.array(0)),
        length,
        builder.constant(np.array(1)),
        output_type="i64",
    )
    builder.result(scores, "scores")
    builder.result(places, "places")
    return builder.model()


def test_a_state_has_symbols_of_its_own() -> None:
    model = cache()
    symbolic, facts = infer_symbolic(model)
    assert shapes(symbolic) == ["[new_0,new_1,new_1 + keys_1]", "[new_1 + keys_1]"]
    assert told(facts) == ([], ["beams_0 == new_0"])
    assert {str(s): s.kind for s in facts.symbols}["keys_1"] == "state"
    plans, state = Plans(model, []), State()
    for length in (5, 1, 1, 3):
        plans.check([np.ones((2, length, 4), F32), np.array([1, 0], np.int32)], state)
    assert state["keys"].shape == (2, 10, 4)
    assert len(plans.made) == 1


def test_a_size_that_a_layer_finds_has_a_symbol() -> None:
    """The rows with a score, the best 5 of them at most, and whether there is any."""
    builder = uncork.Builder("found")
    x = builder.parameter("x", "f32", [None])
    (places,) = builder.add("NonZero", 3, x)
    (flat,) = builder.add(
        "Reshape", 1, places, builder.constant(np.array([-1])), special_zero=False
    )
    (kept,) = builder.add("Gather", 8, x, flat, builder.constant(np.array(0)))
    (count,) = builder.add(
        "Squeeze", 1, builder.add("ShapeOf", 3, flat)[0], builder.constant(np.array([0]))
    )
    (most,) = builder.add("Minimum", 1, count, builder.constant(np.array(5)))
    values, order = builder.add("TopK", 11, kept, most, axis=0, mode="max", sort="value")
    builder.result(values, "values")
    builder.result(order, "order")
    model = builder.model()
    symbolic, facts = infer_symbolic(model)
    (found,) = (s for s in facts.symbols if s.kind == "found")
    assert shapes(symbolic) == [f"[min(5, {found})]"] * 2
    assert told(facts) == ([], [])
    assert symbolic.by_id[found.origin.node].type_name == "NonZero"
    plans = Plans(model, [])
    for row in ([1, 0, 2], [0, 0], [3] * 9):
        plans.check([np.array(row, F32)], {})
    assert len(plans.made) == 1


def test_numbers_of_a_small_input_are_sizes() -> None:
    builder = uncork.Builder("numbers")
    x, shape = builder.parameter("x", "f32", [None]), builder.parameter("shape", "i64", [2])
    (y,) = builder.add("Reshape", 1, x, shape, special_zero=False)
    builder.result(y, "y")
    model = builder.model()
    symbolic, facts = infer_symbolic(model)
    assert shapes(symbolic) == ["[shape[0],shape[1]]"]
    assert told(facts) == (["shape[0] >= 0", "shape[1] >= 0"], ["x_0 == shape[0]*shape[1]"])
    plans = Plans(model, [])
    for target in ((3, 4), (2, 6), (-1, 4), (-1, 2), (12, 1)):
        plans.check([np.zeros(12, F32), np.array(target)], {})
    assert len(plans.made) == 2, "one more for -1"
    with_minus = plans.made[1][0]
    assert shapes(with_minus) == ["[floor(x_0 / shape[1]),shape[1]]"]


def test_stretching_is_a_guard() -> None:
    builder = uncork.Builder("stretch")
    a, b = builder.parameter("a", "f32", [None, 3]), builder.parameter("b", "f32", [None, 3])
    builder.result(builder.add("Add", 1, a, b)[0], "y")
    model = builder.model()
    symbolic, facts = infer_symbolic(model)
    assert shapes(symbolic) == ["[a_0,3]"]
    assert told(facts) == (["a_0 == b_0"], [])
    plans = Plans(model, [])
    for rows, others in ((4, 4), (1, 1), (4, 1), (7, 1), (1, 5), (3, 3)):
        plans.check([np.zeros((rows, 3), F32), np.zeros((others, 3), F32)], {})
    assert [told(facts) for _, facts in plans.made] == [
        (["a_0 == b_0"], []),
        (["a_0 != b_0", "a_0 != 1"], ["b_0 == 1"]),
        (["a_0 != b_0", "a_0 == 1"], []),
    ]


@pytest.mark.parametrize("onto", [False, True])
def test_a_first_row_stretches_to_any_size(onto: bool) -> None:
    """As `index_add` is converted: of as many rows as a number of the call says, the first."""
    builder = uncork.Builder("row")
    a, count = builder.parameter("a", "f32", [None, 3]), builder.parameter("count", "i64", [1])
    zero, one, three = (builder.constant(np.array([n])) for n in (0, 1, 3))
    (sizes,) = builder.add("Concat", 1, count, three, axis=0)
    (rows,) = builder.add("Broadcast", 3, builder.constant(F32(1)), sizes)
    (row,) = builder.add("Slice", 8, rows, zero, one, one, zero)
    if onto:
        builder.result(builder.add("Broadcast", 3, row, builder.add("ShapeOf", 3, a)[0])[0], "y")
    else:
        builder.result(builder.add("Add", 1, a, row)[0], "y")
    model = builder.model()
    symbolic, facts = infer_symbolic(model)
    assert shapes(symbolic) == ["[a_0,3]"]
    (guard,) = told(facts)[0]
    assert guard.endswith("== 1")
    plans = Plans(model, [])
    for many, others in ((4, 4), (4, 1), (1, 5), (7, 2)):
        plans.check([np.zeros((many, 3), F32), np.array([others])], {})
    assert len(plans.made) == 1


def add_one(shape: list[int | None]) -> GraphBody:
    builder = uncork.Builder("body")
    x = builder.parameter("x", "f32", shape)
    builder.result(builder.add("Add", 1, x, builder.constant(F32(1)))[0], "y")
    return GraphBody(builder.model())


def test_an_iterator_over_an_open_axis() -> None:
    builder = uncork.Builder("iterator")
    x = builder.parameter("x", "f32", [None, None, 2])
    bodies = {
        "body": BodyMap(
            add_one([None, 1, 2]),
            (SlicedInput(0, 0, Slicing(1)),),
            (JoinedOutput(0, 0, Slicing(1)), BodyOutput(1, 0)),
        )
    }
    every, last = builder.add_with_bodies("TensorIterator", 1, x, bodies=bodies)
    builder.result(every, "every")
    builder.result(last, "last")
    model = builder.model()
    assert shapes(infer_symbolic(model)[0]) == ["[x_0,x_1,2]", "[x_0,1,2]"]
    plans = Plans(model, [])
    for steps in (1, 4, 9):
        plans.check([np.zeros((3, steps, 2), F32)], {})
    assert len(plans.made) == 1


def test_what_a_loop_carries_has_its_shape_after_the_first_iteration() -> None:
    """A list of one blank element that the body fills with rows of the batch."""
    builder = uncork.Builder("body")
    rows, carried = (
        builder.parameter("rows", "f32", [None, 2]),
        builder.parameter("carried", "f32", [None, None]),
    )
    del carried
    builder.result(builder.add("Add", 1, rows, builder.constant(F32(1)))[0], "new")
    builder.result(builder.constant(np.array(True)), "go on")
    body = GraphBody(builder.model())
    builder = uncork.Builder("loop")
    x = builder.parameter("x", "f32", [None, 2])
    (steps,) = builder.add(
        "Gather",
        8,
        builder.add("ShapeOf", 3, x)[0],
        builder.constant(np.array(0)),
        builder.constant(np.array(0)),
    )
    bodies = {
        "body": BodyMap(
            body,
            (BodyInput(2, 0), BodyInput(3, 1)),
            (BodyOutput(0, 0), InnerResult(1, purpose="execution_condition")),
            ((0, 1),),
        )
    }
    (y,) = builder.add_with_bodies(
        "Loop",
        5,
        steps,
        builder.constant(np.array(True)),
        x,
        builder.constant(np.zeros((1, 1), F32)),
        bodies=bodies,
    )
    builder.result(y, "y")
    model = builder.model()
    assert shapes(infer_symbolic(model)[0]) == ["[x_0,2]"]
    Plans(model, []).check([np.zeros((3, 2), F32)], {})


def test_a_branch_demands_nothing_of_a_call_that_does_not_take_it() -> None:
    builder = uncork.Builder("body")
    a, b = builder.parameter("a", "f32", [None, 2]), builder.parameter("b", "f32", [None, 2])
    builder.result(builder.add("Concat", 1, a, b, axis=1)[0], "y")
    joined = GraphBody(builder.model())
    builder = uncork.Builder("if")
    c, x, y = (
        builder.parameter("c", "boolean", []),
        builder.parameter("x", "f32", [None, 2]),
        builder.parameter("y", "f32", [None, 2]),
    )
    bodies = {
        "then_body": BodyMap(joined, (BodyInput(1, 0), BodyInput(2, 1)), (BodyOutput(0, 0),)),
        "else_body": BodyMap(add_one([None, 2]), (BodyInput(1, 0),), (BodyOutput(0, 0),)),
    }
    builder.result(builder.add_with_bodies("If", 8, c, x, y, bodies=bodies)[0], "z")
    model = builder.model()
    _, facts = infer_symbolic(model)
    assert told(facts) == ([], [])
    plans = Plans(model, [])
    plans.check([np.array(False), np.zeros((3, 2), F32), np.zeros((4, 2), F32)], {})
    plans.check([np.array(True), np.zeros((3, 2), F32), np.zeros((3, 2), F32)], {})


def test_scales_are_the_fractions_that_they_stand_for() -> None:
    """21 * f32(57 / 21) is 57 cells, and so for every size up to the guard's."""
    builder = uncork.Builder("resize")
    x = builder.parameter("x", "f32", [1, 1, None, None])
    scales = builder.constant(np.array([57 / 21, 0.5], F32))
    mode = {"mode": "nearest", "shape_calculation_mode": "scales"}
    (y,) = builder.add("Interpolate", 11, x, scales, builder.constant(np.array([2, 3])), **mode)
    builder.result(y, "y")
    model = builder.model()
    symbolic, facts = infer_symbolic(model)
    assert shapes(symbolic) == ["[1,1,3*x_2 - floor((2*x_2 + 6) / 7),floor(x_3 / 2)]"]
    assert told(facts) == (["16384 >= x_2", "16384 >= x_3"], [])
    plans = Plans(model, [])
    for height in (*range(1, 60), 210, 1001):
        plans.check([np.zeros((1, 1, height, 2 * height % 97 + 2), F32)], {})
    assert len(plans.made) == 1


def test_a_float_in_between_is_exact_or_unknown() -> None:
    """floor(n * 0.5) is told; n * 0.7 in f32 may be rounded across a whole number, and is found by
    the layer.
    """
    for factor, kinds in ((0.5, {"input"}), (0.7, {"found", "number"})):
        builder = uncork.Builder("float")
        x = builder.parameter("x", "f32", [None])
        (count,) = builder.add(
            "Gather",
            8,
            builder.add("ShapeOf", 3, x)[0],
            builder.constant(np.array(0)),
            builder.constant(np.array(0)),
        )
        (real,) = builder.add("Convert", 1, count, destination_type="f32")
        (product,) = builder.add("Multiply", 1, real, builder.constant(F32(factor)))
        (whole,) = builder.add(
            "Convert", 1, builder.add("Floor", 1, product)[0], destination_type="i64"
        )
        (y,) = builder.add(
            "Range",
            4,
            builder.constant(np.array(0)),
            whole,
            builder.constant(np.array(1)),
            output_type="i64",
        )
        builder.result(y, "y")
        model = builder.model()
        symbolic, _ = infer_symbolic(model)
        (dim,) = results(symbolic)[0].shape
        assert {s.kind for s in dim.as_size().symbols} <= kinds
        plans = Plans(model, [])
        for size in (1, 2, 9, 10, 20):
            plans.check([np.zeros(size, F32)], {})


def test_sizes_given_by_hand_and_wrong_models() -> None:
    model = cache()
    new = model.parameters[0]
    given = TensorSpec(model.by_id[new].outputs[0].spec.element_type, PartialShape([2, None, 4]))
    assert shapes(infer_symbolic(model, {new: given})[0])[0] == "[2,new_1,new_1 + keys_1]"
    wrong = TensorSpec(given.element_type, PartialShape([2, None, 5]))
    with pytest.raises(
        ValidationError,
        match=r"expected dimensions \[beams_0,keys_1,4\] but for axis 1, got \[2,new_1,5\]",
    ):
        infer_symbolic(model, {new: wrong})


def test_hints_choose_the_plan() -> None:
    builder = uncork.Builder("stretch")
    a, b = builder.parameter("a", "f32", [None]), builder.parameter("b", "f32", [None])
    builder.result(builder.add("Add", 1, a, b)[0], "y")
    model = builder.model()
    first, second = (Origin(p, 0, 0) for p in model.parameters)
    _, facts = infer_symbolic(model, hints={first: 1, second: 6})
    assert told(facts) == (["a_0 != b_0", "a_0 == 1"], [])


def test_a_squeeze_without_axes_asks_which_dimensions_are_1() -> None:
    builder = uncork.Builder("squeeze")
    x = builder.parameter("x", "f32", [None, 1, None])
    builder.result(builder.add("Squeeze", 1, x)[0], "y")
    model = builder.model()
    symbolic, facts = infer_symbolic(model)
    assert shapes(symbolic) == ["[x_0,x_2]"]
    assert told(facts) == (["x_0 != 1", "x_2 != 1"], [])
    plans = Plans(model, [])
    for first, last in ((3, 4), (1, 4), (5, 2), (1, 7), (1, 1)):
        plans.check([np.zeros((first, 1, last), F32)], {})
    assert [shapes(plan) for plan, _ in plans.made] == [["[x_0,x_2]"], ["[x_2]"], ["[]"]]


def blocks_of_pixels(builder: uncork.Builder, x: Source) -> Source:
    """A picture [n, 8, h, w] in blocks of 4 by 4 pixels, whose number is a -1, and a picture again:
    as halo attention does it, whose quotients nobody can know to be exact.
    """

    def number(*values: int) -> Source:
        return builder.constant(np.array(values, np.int64))

    (shape,) = builder.add("ShapeOf", 3, x, output_type="i64")
    n, h, w = (builder.add("Gather", 8, shape, number(axis), number(0))[0] for axis in (0, 2, 3))
    rows, columns = (builder.add("Divide", 1, size, number(4))[0] for size in (h, w))
    (blocks,) = builder.add("Multiply", 1, rows, columns)

    def reshaped(data: Source, *sizes: Source) -> Source:
        (target,) = builder.add("Concat", 1, *sizes, axis=0)
        return builder.add("Reshape", 1, data, target, special_zero=False)[0]

    def turned(data: Source, *order: int) -> Source:
        return builder.add("Transpose", 1, data, number(*order))[0]

    parts = reshaped(x, number(-1, 8), rows, number(4), columns, number(4))
    heads = reshaped(turned(parts, 0, 1, 3, 5, 2, 4), n, number(8, -1), blocks)
    by_pixel = turned(heads, 0, 3, 2, 1)
    back = reshaped(turned(by_pixel, 0, 3, 2, 1), number(-1, 8, 4, 4), rows, columns)
    return reshaped(turned(back, 0, 1, 4, 2, 5, 3), n, number(8), h, w)


def test_quotients_that_are_exact_do_not_nest() -> None:
    """Each of a hundred such layers has sizes as short as those of the first."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None, 8, None, None])
    for _ in range(100):
        x = blocks_of_pixels(builder, x)
    builder.result(x)
    model, facts = infer_symbolic(builder.model())
    assert shapes(model) == ["[x_0,8,x_2,x_3]"]
    whole = [str(node.outputs[0].spec.shape) for node in model.nodes if node.type_name == "Reshape"]
    assert whole[-4:] == whole[:4]
    n, h, w, rows, columns = "x_0", "x_2", "x_3", "floor(x_2 / 4)", "floor(x_3 / 4)"
    # Blocks are counted by 16 pixels; how many pixels a block has, by the blocks.
    batches = f"floor({n}*{h}*{w} / 16*{rows}*{columns})"
    assert whole[0] == f"[{batches},8,{rows},4,{columns},4]"
    assert whole[1] == f"[{n},8,floor({h}*{w} / {rows}*{columns}),{rows}*{columns}]"
    # 2 pictures of 8 by 12 pixels: 2 batches, 16 pixels in each of 2 * 3 blocks.
    values = dict(zip(facts.symbols, (2, 8, 12), strict=True))
    reshapes = [node.outputs[0].spec.shape for node in model.nodes if node.type_name == "Reshape"]
    assert [d.as_size().evaluate(values) for d in reshapes[0]] == [2, 8, 2, 4, 3, 4]
    assert [d.as_size().evaluate(values) for d in reshapes[1]] == [2, 8, 16, 6]
    assert all(check.holds(values) for check in facts.checks)
    # Of 9 by 12 pixels a row of blocks leaves a rest.
    rest = dict(zip(facts.symbols, (2, 9, 12), strict=True))
    assert not all(check.holds(rest) for check in facts.checks)
