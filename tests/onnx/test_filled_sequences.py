"""Sequences that loops of ONNX files fill, turn by turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

X = np.random.default_rng(5).standard_normal((4, 2, 3)).astype(np.float32)


def file(
    behind: list[Any], *, before: bool = False, twice: bool = False, at: bool = False
) -> bytes:
    """`for turn in range(4): parts.append(x[turn])`, of which the nodes `behind` make `y`."""
    row = helper.make_node("Gather", ["x", "turn"], ["row"], axis=0)
    half = helper.make_node("Neg", ["row"], ["half"])
    places = ["zero"] if at else []
    insert = helper.make_node("SequenceInsert", ["parts", "row", *places], ["once"])
    again = helper.make_node("SequenceInsert", ["once", "half"], ["more"])
    go_on = helper.make_node("Identity", ["condition"], ["goes_on"])
    kind = helper.make_tensor_sequence_value_info
    given = [
        helper.make_tensor_value_info("turn", TensorProto.INT64, []),
        helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
        kind("parts", TensorProto.FLOAT, None),
    ]
    made = [
        helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
        kind("more" if twice else "once", TensorProto.FLOAT, None),
    ]
    body = helper.make_graph([row, half, insert, again, go_on], "body", given, made)
    start = ["SequenceConstruct", ["first"]] if before else ["SequenceEmpty", []]
    nodes = [
        helper.make_node("Gather", ["x", "zero"], ["first"], axis=0),
        helper.make_node(*start, ["empty"]),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "zero"], ["trips"], axis=0),
        helper.make_node("Loop", ["trips", "", "empty"], ["parts_out"], body=body),
        *behind,
    ]
    numbers = {"zero": 0, "last": -1}
    graph = helper.make_graph(
        nodes,
        "filled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["t", "n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [helper.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in numbers.items()],
    )
    graph.output[0].ClearField("type")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(model.SerializeToString())


def joined(axis: int, new_axis: int = 0) -> list[Any]:
    return [
        helper.make_node("ConcatFromSequence", ["parts_out"], ["y"], axis=axis, new_axis=new_axis)
    ]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize(("axis", "new"), [(0, 1), (1, 1), (-1, 1), (0, 0), (1, 0), (-1, 0)])
def test_the_tensors_of_all_turns_are_joined(
    axis: int, new: int, twice: bool, before: bool
) -> None:
    compiled = uncork.compile_model(
        uncork.read_model(file(joined(axis, new), before=before, twice=twice))
    )
    for x in (X, X[:2, :1], X[:1]):
        parts = [x[0]] if before else []
        for row in x:
            parts += [row, -row] if twice else [row]
        wanted = np.stack(parts, axis) if new else np.concatenate(parts, axis)
        (found,) = compiled(x).values()
        np.testing.assert_array_equal(found, wanted)


def test_one_of_them_and_their_number() -> None:
    one = [helper.make_node("SequenceAt", ["parts_out", "last"], ["y"])]
    (found,) = uncork.compile_model(uncork.read_model(file(one)))(X).values()
    np.testing.assert_array_equal(found, X[3])
    length = [helper.make_node("SequenceLength", ["parts_out"], ["y"])]
    (found,) = uncork.compile_model(uncork.read_model(file(length, before=True)))(X).values()
    assert np.asarray(found).tolist() == 5


def test_other_uses_are_refused() -> None:
    erased = [
        helper.make_node("SequenceErase", ["parts_out"], ["less"]),
        helper.make_node("SequenceLength", ["less"], ["y"]),
    ]
    for data in (file(erased), file(joined(0), at=True)):
        with pytest.raises(uncork.UncorkError, match="a sequence that a loop fills"):
            uncork.read_model(data)
    with pytest.raises(uncork.UncorkError, match="expected a tensor, got a sequence"):
        uncork.read_model(file([helper.make_node("Neg", ["parts_out"], ["y"])]))
