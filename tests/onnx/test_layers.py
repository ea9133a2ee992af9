"""Layers that ONNX files tell of: read back as they were, and by their nodes where those have
changed.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Model
from uncork.ops._body import BodyInput, BodyMap, BodyOutput
from uncork.types import ElementType as T
from uncork.types import PartialShape

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from uncork.onnx.layers import KEY  # noqa: E402

TABLE = np.arange(8, dtype=np.float32).reshape(4, 2)
#: Rows 1 and 3, no row, row 0 for bags that begin at 0, 2 and 2.
CALL = {"ids": np.array([1, 3, 0]), "starts": np.array([0, 2, 2])}
SUMS = [[8.0, 10.0], [0.0, 0.0], [0.0, 1.0]]


def bags() -> Model:
    b = uncork.Builder("bags")
    table = b.constant(TABLE, name="table")
    ids, starts = b.parameter("ids", "i64", [None]), b.parameter("starts", "i64", [None])
    b.result(b.add("EmbeddingBagOffsetsSum", 3, table, ids, starts, name="bag")[0], "sums")
    return b.model()


def types_of(proto: Any) -> Counter[str]:
    model = uncork.read_model(proto.SerializeToString())
    return Counter(n.type_name for n in model.nodes if n.operation is not None)


def answer(proto: Any) -> Any:
    return uncork.load(proto.SerializeToString())(CALL)[0]


def theirs(proto: Any) -> Any:
    return runtime.InferenceSession(proto.SerializeToString()).run(None, CALL)[0]


def told(proto: Any) -> Any:
    """The metadata of the one layer that is told."""
    (entry,) = [e for n in proto.graph.node for e in n.metadata_props if e.key == KEY]
    return entry


def test_several_nodes_are_the_layer_that_they_were() -> None:
    proto = uncork.to_onnx(bags())
    onnx.checker.check_model(proto, full_check=True)
    assert len(proto.graph.node) > 5
    assert types_of(proto) == {"Const": 1, "Parameter": 2, "EmbeddingBagOffsetsSum": 1, "Result": 1}
    (layer,) = [n for n in uncork.read_model(proto.SerializeToString()).nodes if n.name == "bag"]
    assert (layer.type_name, layer.opset) == ("EmbeddingBagOffsetsSum", "opset3")
    assert answer(proto).tolist() == theirs(proto).tolist() == SUMS


def test_without_what_is_told_the_nodes_mean_the_same() -> None:
    proto = uncork.to_onnx(bags())
    for node in proto.graph.node:
        node.ClearField("metadata_props")
    assert "EmbeddingBagOffsetsSum" not in types_of(proto)
    assert answer(proto).tolist() == SUMS


def test_other_names_do_not_matter() -> None:
    proto = uncork.to_onnx(bags())
    inner = {name for n in proto.graph.node for name in n.output} - {"sums"}
    for node in proto.graph.node:
        node.name = f"part of {node.name}"
        for names in (node.input, node.output):
            names[:] = [f"{name}'" if name in inner else name for name in names]
    assert types_of(proto)["EmbeddingBagOffsetsSum"] == 1
    assert answer(proto).tolist() == SUMS


def test_a_node_that_was_changed_counts() -> None:
    proto = uncork.to_onnx(bags())
    scatter = [n for n in proto.graph.node if n.op_type == "ScatterElements"][-1]
    (reduction,) = [a for a in scatter.attribute if a.name == "reduction"]
    reduction.s = b"max"
    assert "EmbeddingBagOffsetsSum" not in types_of(proto)
    assert answer(proto).tolist() == theirs(proto).tolist() == [[6.0, 7.0], [0.0, 0.0], [0.0, 1.0]]


def test_a_constant_that_was_changed_counts() -> None:
    proto = uncork.to_onnx(bags())
    (room,) = [t for t in proto.graph.initializer if t.data_type == 1 and t.name != "table"]
    room.CopyFrom(onnx.numpy_helper.from_array(np.float32(5), room.name))
    assert "EmbeddingBagOffsetsSum" not in types_of(proto)
    assert answer(proto).tolist() == theirs(proto).tolist() == (np.array(SUMS) + 5).tolist()


def test_a_table_that_was_changed_is_the_layers() -> None:
    proto = uncork.to_onnx(bags())
    (table,) = [t for t in proto.graph.initializer if t.name == "table"]
    table.CopyFrom(onnx.numpy_helper.from_array(TABLE * 2, "table"))
    assert types_of(proto)["EmbeddingBagOffsetsSum"] == 1
    assert answer(proto).tolist() == theirs(proto).tolist() == (np.array(SUMS) * 2).tolist()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", "EmbeddingBagOffsets"),
        ("type", "None"),
        ("opset", 15),
        ("opset", -1),
        ("attributes", {"reduction": "mean"}),
        ("nodes", 0),
        ("nodes", 1),
        ("nodes", 10**9),
        ("inputs", [[0, 0], [0, 0], [0, 0]]),
        ("inputs", [[99, 0], [0, 99], [-1, -1]]),
        ("inputs", [None, None, None]),
        ("outputs", [None]),
        ("outputs", [[0, 5]]),
        ("constants", [["i64", [3], [1]], ["f99", [-1], []]]),
        ("digest", ""),
        ("digest", 7),
    ],
)
def test_what_is_told_wrong_is_not_believed(field: str, value: object) -> None:
    proto = uncork.to_onnx(bags())
    entry = told(proto)
    entry.value = json.dumps({**json.loads(entry.value), field: value})
    assert "EmbeddingBagOffsetsSum" not in types_of(proto)
    assert answer(proto).tolist() == SUMS


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "7", "[" * 100_000, "\0", '{"type": "Abs"}', "1e999"],
)
def test_what_is_no_layer_is_not_read(text: str) -> None:
    proto = uncork.to_onnx(bags())
    told(proto).value = text
    assert answer(proto).tolist() == SUMS


def test_constants_that_no_node_reads_come_back() -> None:
    """The order of a Transpose is an attribute of ONNX's node."""
    b = uncork.Builder("turned")
    x = b.parameter("x", "f32", [2, 3])
    b.result(b.add("Transpose", 1, x, b.constant(np.array([1, 0])))[0], "y")
    proto = uncork.to_onnx(b.model())
    assert json.loads(told(proto).value)["constants"] == [["i64", [2], [1, 0]]]
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert uncork.load(proto.SerializeToString())(value)[0].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_layers_of_bodies_come_back() -> None:
    def body(type_name: str) -> BodyMap:
        b = uncork.Builder(type_name)
        x = b.parameter("x", "f32", [None])
        b.result(b.add(type_name, 9 if type_name == "SoftSign" else 5, x)[0], "y")
        return BodyMap(GraphBody(b.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))

    b = uncork.Builder("branches")
    condition, x = b.parameter("condition", "boolean", []), b.parameter("x", "f32", [None])
    bodies = {"then_body": body("HSigmoid"), "else_body": body("SoftSign")}
    b.result(b.add_with_bodies("If", 8, condition, x, bodies=bodies)[0], "y")
    proto = uncork.to_onnx(b.model())
    model = uncork.read_model(proto.SerializeToString())
    (branch,) = [n for n in model.nodes if n.type_name == "If"]
    inner = {n.type_name for _, each in branch.bodies for n in each.nodes}
    assert {"HSigmoid", "SoftSign"} <= inner
    found = uncork.load(proto.SerializeToString())(np.array(True), np.array([0, 9], np.float32))
    np.testing.assert_allclose(found[0], [0.5, 1.0])


def test_variables_stay_inputs_and_outputs() -> None:
    b = uncork.Builder("sum")
    x = b.parameter("x", "f32", [2])
    kept: dict[str, Any] = {
        "variable_id": "v",
        "variable_shape": PartialShape([2]),
        "variable_type": T.f32,
    }
    (old,) = b.add("ReadValue", 6, x, **kept)
    new = b.add("Add", 1, old, x)[0]
    b.add("Assign", 6, new, variable_id="v")
    b.result(new, "y")
    model = uncork.read_model(uncork.to_onnx(b.model()).SerializeToString())
    assert not {"ReadValue", "Assign"} & {n.type_name for n in model.nodes}
    assert len(model.inputs) == 1
    assert len(model.outputs) == 2
