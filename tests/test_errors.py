"""Errors carry data: the layer, the input, the position, the value and its limits are fields that
no program has to read out of a message.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.ir._files import Net, edge, layer, parameter, port, result
from uncork import functional
from uncork.errors import InputError, Label, Problem, ValidationError


def bag(rows: int = 3) -> uncork.Builder:
    """A layer called 'bag' that looks up rows of a table."""
    builder = uncork.Builder("model")
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    table = builder.constant(np.ones((rows, 2), np.float32))
    builder.result(builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets, name="bag")[0])
    return builder


def refused(call: object, *arguments: object, **options: object) -> Problem:
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)  # type: ignore[operator]
    (problem,) = caught.value.problems
    again = pickle.loads(pickle.dumps(caught.value))  # as worker processes send it
    assert again.problems == caught.value.problems
    return problem


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_value_that_is_refused(backend: str) -> None:
    compiled = uncork.compile_model(bag().model(), backend=backend)
    for _ in range(3):
        problem = refused(compiled, [0, 7, 1], [0])
        assert problem.layer == "bag"
        assert (problem.input, problem.position, problem.value) == ("indices", (1,), 7)
        assert (problem.low, problem.high) == (0, 2)


def test_in_a_sub_graph_the_layer_is_the_inner_one() -> None:
    from uncork.ir.bodies import GraphBody
    from uncork.ops._body import BodyInput, BodyMap, BodyOutput

    inner = BodyMap(
        GraphBody(bag().model()), (BodyInput(1, 0), BodyInput(2, 1)), (BodyOutput(0, 0),)
    )
    builder = uncork.Builder("model")
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    flag = builder.parameter("flag", "boolean", [])
    bodies = {"then_body": inner, "else_body": inner}
    builder.result(builder.add_with_bodies("If", 8, flag, ids, offsets, bodies=bodies)[0])
    problem = refused(uncork.compile_model(builder.model()), ids=[5], offsets=[0], flag=True)
    assert (problem.layer, problem.value) == ("bag", 5)


def test_an_input_of_the_model_that_does_not_fit() -> None:
    compiled = uncork.compile_model(bag().model())
    problem = refused(compiled, [[0]], [0])
    assert (problem.layer, problem.input) == ("", "ids")
    problem = refused(compiled, np.array([1.5]), [0])
    assert problem.input == "ids"
    builder = uncork.Builder("narrow")
    builder.result(builder.parameter("x", "i8", [2]))
    problem = refused(uncork.compile_model(builder.model()), np.array([1, 300]))
    assert (problem.input, problem.position, problem.value) == ("x", (1,), 300)


def test_strict_conversions_have_the_limits_of_the_type() -> None:
    builder = uncork.Builder("model")
    x = builder.parameter("x", "i64", [2])
    builder.result(builder.add("Convert", 1, x, name="cut", destination_type="i32")[0])
    problem = refused(uncork.compile_model(builder.model(), strict=True), [1, 10**12])
    assert (problem.layer, problem.position, problem.value) == ("cut", (1,), 10**12)
    assert (problem.low, problem.high) == (-(2**31), 2**31 - 1)


def test_functions_name_their_own_inputs() -> None:
    problem = refused(
        functional.embedding_bag_offsets_sum, np.ones((3, 2), np.float32), [0, 9], [0]
    )
    assert (problem.position, problem.value, problem.low, problem.high) == ((1,), 9, 0, 2)
    names = functional.embedding_bag_offsets_sum.__signature__.parameters  # type: ignore[attr-defined]
    assert problem.input in names
    assert problem.input in problem.message
    problem = refused(functional.gather, np.ones(3), np.array([0.5]), 0)
    assert problem.input in functional.gather.__signature__.parameters  # type: ignore[attr-defined]


def test_values_are_those_of_python() -> None:
    builder = uncork.Builder("model")
    x = builder.parameter("x", "f32", [2])
    builder.result(
        builder.add(
            "ReverseSequence",
            1,
            builder.constant(np.ones((2, 2), np.float32)),
            x,
            batch_axis=0,
            seq_axis=1,
        )[0]
    )
    problem = refused(uncork.compile_model(builder.model()), [1.0, 0.1])
    assert type(problem.value) is float
    assert problem.value == 0.1, "the shortest number that f32 rounds to it"


def test_problems_of_a_file_name_their_layers(tmp_path: Path) -> None:
    net = Net(
        [parameter(0), layer(1, "ReLU", [port(0, [2])], [port(1, [3])], name="wrong"), result(2)],
        [edge("0:0", "1:0"), edge("1:1", "2:0")],
    )
    with pytest.raises(ValidationError) as caught:
        uncork.load(net.save(tmp_path, b""))
    assert "wrong" in {problem.layer for problem in caught.value.problems}


def test_labels_know_names() -> None:
    label = Label("layer 'a' (ReLU-1, id 3)", "a")
    inside = "layer 'loop' <body>: " + label
    assert isinstance(inside, Label)
    assert (inside, inside.layer) == ("layer 'loop' <body>: layer 'a' (ReLU-1, id 3)", "a")
    assert Problem(inside, "text").known() == {"layer": "a"}
    assert pickle.loads(pickle.dumps(label)).layer == "a"


def test_the_first_place_stays() -> None:
    error = InputError("text", value=3, position=())
    assert error.at(Label("layer 'a'", "a")).at(Label("layer 'b'", "b")).problems == (
        Problem("layer 'a'", "text", layer="a", value=3, position=()),
    )


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_model_that_was_exported_for_one_size_says_so(backend: str) -> None:
    """Its input is open, but a layer meets three numbers that are always there."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None, None])
    three = builder.constant(np.arange(3, dtype=np.float32))
    builder.result(builder.add("Add", 1, x, three, name="total")[0], "y")
    compiled = uncork.compile_model(builder.model(), backend=backend)
    assert compiled(np.zeros((1, 3), np.float32))[0].tolist() == [[0, 1, 2]]
    with pytest.raises(InputError) as caught:
        compiled(np.zeros((1, 5), np.float32))
    text = str(caught.value)
    assert "got 'a' [1,5], 'b' [3]" in text
    assert "in the model they are [?,?], [3]: sizes that are numbers were fixed by" in text


def test_values_that_are_refused_have_no_word_about_sizes() -> None:
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None, None])
    lengths = builder.parameter("n", "i64", [2])
    builder.result(builder.add("Broadcast", 3, x, lengths, mode="numpy")[0], "y")
    compiled = uncork.compile_model(builder.model(), backend="reference")
    with pytest.raises(InputError) as caught:
        compiled(np.zeros((1, 3), np.float32), np.array([4, -1]))
    assert "export" not in str(caught.value)
