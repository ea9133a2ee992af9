"""Whole models in ONNX: names, order, open sizes, constants, states, sub-graphs, and what is
refused.
"""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.errors import InputError, UncorkError, UnsupportedError
from uncork.export.onnx.registry import lowerings
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Model
from uncork.ops._body import BodyInput, BodyMap, BodyOutput, JoinedOutput, SlicedInput, Slicing

onnx = pytest.importorskip("onnx")


def two_inputs() -> Model:
    """Rows picked from a table, and a sum of them and another input."""
    builder = uncork.Builder("picks")
    table = builder.constant(np.arange(12, dtype=np.float32).reshape(4, 3), name="table")
    more, ids = builder.parameter("more", "f32", [None, 3]), builder.parameter("ids", "i64", [None])
    axis = builder.constant(np.int64(0))
    (rows,) = builder.add("Gather", 8, table, ids, axis, name="pick")
    (total,) = builder.add("Add", 1, rows, more, name="total")
    builder.result(rows, "rows")
    builder.result(total, "sums")
    return builder.model()


def counter(initial: bool) -> Model:
    """A variable to which the input is added; it begins at 0, or at the first input times 10."""
    builder = uncork.Builder("counter")
    x = builder.parameter("x", "f32", [2])
    ten = builder.constant(np.full(2, 10, np.float32))
    start = builder.add("Multiply", 1, x, ten, name="start") if initial else ()
    (before,) = builder.add(
        "ReadValue",
        6,
        *start,
        name="before",
        variable_id="sum",
        variable_type=uncork.ElementType.f32,
        variable_shape=uncork.PartialShape([2]),
    )
    (after,) = builder.add("Add", 1, before, x, name="after")
    builder.add("Assign", 6, after, variable_id="sum")
    builder.result(after, "y")
    return builder.model()


def running_sum() -> Model:
    """A loop over the rows of x that gives every sum of the rows so far, and the last."""
    inner = uncork.Builder("step")
    row, total = inner.parameter("row", "f32", [1, 2]), inner.parameter("total", "f32", [1, 2])
    (added,) = inner.add("Add", 1, row, total, name="added")
    inner.result(added)
    inner.result(added)
    slicing = Slicing(axis=0)
    body = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(0, 0, slicing), BodyInput(1, 1)),
        (JoinedOutput(0, 0, slicing), BodyOutput(1, 1)),
        ((1, 1),),
    )
    outer = uncork.Builder("sums")
    x, zero = outer.parameter("x", "f32", [None, 2]), outer.constant(np.zeros((1, 2), np.float32))
    every, last = outer.add_with_bodies(
        "TensorIterator", 1, x, zero, bodies={"body": body}, name="walk"
    )
    outer.result(every, "every")
    outer.result(last, "last")
    return outer.model()


def checked(model: Model, **options: Any) -> Any:
    proto = uncork.to_onnx(model, **options)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def shapes(ports: Any) -> list[list[Any]]:
    return [
        [
            d.dim_value if d.HasField("dim_value") else d.dim_param
            for d in p.type.tensor_type.shape.dim
        ]
        for p in ports
    ]


def test_names_order_and_open_sizes() -> None:
    graph = checked(two_inputs()).graph
    assert [p.name for p in graph.input] == ["more", "ids"]
    assert [p.name for p in graph.output] == ["rows", "sums"]
    assert shapes(graph.input) == [["more_0", 3], ["ids_0"]]
    assert {"pick", "total"} <= {node.name for node in graph.node}
    assert [t.name for t in graph.initializer if list(t.dims) == [4, 3]] == ["table"]
    assert graph.name == "picks"


def test_opset() -> None:
    assert [(o.domain, o.version) for o in checked(two_inputs()).opset_import] == [("", 21)]
    assert checked(two_inputs(), opset=22).opset_import[0].version == 22
    with pytest.raises(
        InputError, match=r"opset: expected 21 to \d+, the newest that onnx .* has, got 13"
    ):
        uncork.to_onnx(two_inputs(), opset=13)


def test_path_and_model_give_the_same(tmp_path: Path) -> None:
    uncork.write_model(two_inputs(), tmp_path / "picks.xml")
    assert (
        uncork.to_onnx(tmp_path / "picks.xml").graph.node
        == uncork.to_onnx(uncork.read_model(tmp_path / "picks.xml")).graph.node
    )


def test_every_missing_lowering_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Gather", "Add"):
        monkeypatch.delitem(lowerings(), name)
    with pytest.raises(
        UnsupportedError,
        match=r"picks: no export to ONNX for: Add-1 \(1 layer\), Gather-8 \(1 layer\)$",
    ):
        uncork.to_onnx(two_inputs())


def test_every_layer_that_cannot_be_is_named_at_once() -> None:
    builder = uncork.Builder("orders")
    x, order = builder.parameter("x", "f32", [2, 3]), builder.parameter("order", "i64", [2])
    words = builder.parameter("words", "string", [2])
    builder.result(builder.add("Transpose", 1, x, order, name="turn")[0], "turned")
    builder.result(builder.add("Less", 1, words, words, name="compare")[0], "less")
    with pytest.raises(UnsupportedError) as caught:
        uncork.to_onnx(builder.model())
    messages = [str(p) for p in caught.value.problems]
    assert len(messages) == 2
    assert (
        "layer 'turn' (Transpose-1, id 3): input 'input_order' is computed as the model runs"
        in messages[0]
    )
    assert messages[1].endswith("ONNX does not order strings")


def test_an_unknown_rank_is_refused() -> None:
    builder = uncork.Builder("any")
    builder.result(
        builder.add("Abs", 1, builder.parameter("x", "f32", uncork.PartialShape()))[0], "y"
    )
    with pytest.raises(
        UnsupportedError,
        match=r"layer 'x' .*: the rank is not known, and an input of an ONNX model needs one",
    ):
        uncork.to_onnx(builder.model())


def test_an_output_of_unknown_rank_is_refused() -> None:
    builder = uncork.Builder("tuples")
    data, places = (
        builder.parameter("data", "f32", [2, 3]),
        builder.parameter("at", "i64", [None, None]),
    )
    builder.result(builder.add("GatherND", 8, data, places, name="pick")[0], "y")
    message = "layer 'pick' .*: the rank of its output is not known, and an output of an ONNX"
    with pytest.raises(UnsupportedError, match=message):
        uncork.to_onnx(builder.model())


def branches() -> Model:
    """x twice, or all its elements as a vector: what a condition asks for."""
    bodies = {}
    for name in ("then_body", "else_body"):
        inner = uncork.Builder(name)
        x = inner.parameter("x", "f32", [2, 3])
        if name == "then_body":
            (y,) = inner.add("Add", 1, x, x, name="twice")
        else:
            shape = inner.constant(np.array([-1]))
            (y,) = inner.add("Reshape", 1, x, shape, name="flat", special_zero=False)
        inner.result(y)
        bodies[name] = BodyMap(GraphBody(inner.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))
    outer = uncork.Builder("either")
    condition, x = outer.parameter("condition", "boolean", []), outer.parameter("x", "f32", [2, 3])
    (either,) = outer.add_with_bodies("If", 8, condition, x, bodies=bodies, name="choose")
    (shape,) = outer.add("ShapeOf", 3, either)
    outer.result(shape, "shape")
    return outer.model()


def test_branches_of_different_ranks() -> None:
    assert "If" in {node.op_type for node in checked(branches()).graph.node}


def seeded() -> Model:
    builder = uncork.Builder("noise")
    low, high = builder.constant(np.float32(2)), builder.constant(np.float32(3))
    shape = builder.parameter("shape", "i64", [1])
    attributes = {"output_type": uncork.ElementType.f32, "global_seed": 1}
    builder.result(
        builder.add("RandomUniform", 8, shape, low, high, name="noise", **attributes)[0], "y"
    )
    return builder.model()


def test_approximations_are_refused_or_listed() -> None:
    reason = "RandomUniform with seeds draws other numbers of the same distribution"
    with pytest.raises(
        UnsupportedError, match=f"{reason}; approximate=True \\(--approximate\\) exports it so"
    ):
        uncork.to_onnx(seeded())
    metadata = {p.key: p.value for p in checked(seeded(), approximate=True).metadata_props}
    assert json.loads(metadata["uncork.approximations"]) == [
        {"layer": "layer 'noise' (RandomUniform-8, id 3)", "what": reason}
    ]


def test_four_bit_constants_stay_four_bits() -> None:
    builder = uncork.Builder("packed")
    codes = builder.constant(
        (np.arange(8192) % 16).astype(np.uint8).reshape(64, 128), "u4", name="codes"
    )
    (wide,) = builder.add("Convert", 1, codes, destination_type=uncork.ElementType.f32)
    builder.result(
        builder.add("Multiply", 1, wide, builder.parameter("x", "f32", [64, 128]))[0], "y"
    )
    (tensor,) = [t for t in checked(builder.model()).graph.initializer if t.name == "codes"]
    assert (tensor.data_type, len(tensor.raw_data)) == (onnx.TensorProto.UINT4, 4096)


def test_states_are_inputs_and_outputs() -> None:
    proto = checked(counter(initial=False))
    assert [p.name for p in proto.graph.input] == ["x", "sum"]
    assert [p.name for p in proto.graph.output] == ["y", "sum.new"]
    metadata = {p.key: p.value for p in proto.metadata_props}
    assert json.loads(metadata["uncork.states"]) == [
        {"variable": "sum", "input": "sum", "output": "sum.new"}
    ]


def test_a_computed_first_value_has_a_second_input() -> None:
    proto = checked(counter(initial=True))
    assert [p.name for p in proto.graph.input] == ["x", "sum", "sum.is_set"]
    metadata = {p.key: p.value for p in proto.metadata_props}
    assert json.loads(metadata["uncork.states"]) == [
        {"variable": "sum", "input": "sum", "output": "sum.new", "is_set": "sum.is_set"}
    ]


def test_loops_are_loops() -> None:
    assert "Loop" in {node.op_type for node in checked(running_sum()).graph.node}


def test_constants_in_a_file_of_their_own(tmp_path: Path) -> None:
    builder = uncork.Builder("large")
    table = builder.constant(np.arange(4096, dtype=np.float32).reshape(64, 64), name="table")
    builder.result(builder.add("MatMul", 1, builder.parameter("x", "f32", [1, 64]), table)[0], "y")
    done: list[tuple[int, int]] = []
    uncork.write_onnx(
        builder.model(),
        tmp_path / "m.onnx",
        external_data=True,
        progress=lambda a, b: done.append((a, b)),
    )
    assert done[-1] == (4096 * 4, 4096 * 4)
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    (tensor,) = [t for t in onnx.load(tmp_path / "m.onnx").graph.initializer if t.name == "table"]
    np.testing.assert_array_equal(
        onnx.numpy_helper.to_array(tensor), np.arange(4096).reshape(64, 64)
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]


def test_a_file_with_its_constants_is_the_message(tmp_path: Path) -> None:
    """Lengths of one to four bytes, strings, and constants of four bits."""
    builder = uncork.Builder("constants")
    sizes = (3, 50, 5000, 600_000)
    for size in sizes:
        zeros = builder.constant(np.arange(size, dtype=np.float32), name=f"of {size}")
        x = builder.parameter(f"x{size}", "f32", [size])
        builder.result(builder.add("Add", 1, zeros, x)[0], f"y{size}")
    builder.result(builder.constant(np.array(["a", "much longer"], object)), "words")
    small = builder.constant(np.arange(5000).astype(np.uint8) % 16, "u4", name="small")
    builder.result(builder.add("Convert", 1, small, destination_type="f32")[0], "wide")
    model, done = builder.model(), list[tuple[int, int]]()
    uncork.write_onnx(model, tmp_path / "m.onnx", progress=lambda a, b: done.append((a, b)))
    written = onnx.load_from_string((tmp_path / "m.onnx").read_bytes())
    assert written == uncork.to_onnx(model)
    onnx.checker.check_model(written, full_check=True)
    assert done[-1][0] == done[-1][1] == 4 * sum(sizes) + 2500


def test_an_interrupted_export_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"before")
    builder = uncork.Builder("large")
    table = builder.constant(np.zeros((64, 64), np.float32))
    builder.result(builder.add("MatMul", 1, builder.parameter("x", "f32", [1, 64]), table)[0], "y")

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        uncork.write_onnx(builder.model(), tmp_path / "m.onnx", external_data=True, progress=stop)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"m.onnx": b"before"}


def test_too_much_for_one_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("uncork.export.onnx.files.INLINE_LIMIT", 10)
    with pytest.raises(
        UnsupportedError,
        match=r"take 48 bytes, more than the 2 GB .*: write files with uncork.write_onnx",
    ):
        uncork.to_onnx(two_inputs())
    with pytest.raises(
        UncorkError, match="more than one file can hold: external_data must not be False"
    ):
        uncork.write_onnx(two_inputs(), tmp_path / "m.onnx", external_data=False)
    uncork.write_onnx(two_inputs(), tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").exists()


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "onnx":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        UncorkError, match=r"export to ONNX needs the package onnx: pip install 'uncork\[onnx\]'"
    ):
        uncork.to_onnx(two_inputs())


def test_pads_of_convolutions_by_steps_of_1_are_known_for_open_sizes() -> None:
    """Onnxruntime has no automatic pads of dilated filters."""
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, 2, None, None])
    filters = builder.constant(np.ones((3, 2, 3, 4), np.float32))
    (made,) = builder.add(
        "Convolution",
        1,
        data,
        filters,
        strides=[1, 1],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        dilations=[2, 1],
        auto_pad="same_upper",
    )
    builder.result(made)
    (node,) = [n for n in uncork.to_onnx(builder.model()).graph.node if n.op_type == "Conv"]
    found = {a.name: list(a.ints) for a in node.attribute}
    assert found["pads"] == [2, 1, 2, 2]
    assert "auto_pad" not in found
