"""Changes to models: constants, sizes, names and parts, in Python and on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork import surgery
from uncork.errors import InputError, ReadError, ValidationError
from uncork.export.safetensors import read_tensors, write_tensors
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Model
from uncork.ops._body import BodyInput, BodyMap, BodyOutput
from uncork.types import ElementType

TABLE = np.arange(8, dtype="f4").reshape(4, 2)


def lookup() -> Model:
    """Rows of a table, doubled, and summed."""
    builder = uncork.Builder("lookup")
    ids = builder.parameter("ids", "i64", [None])
    table = builder.constant(TABLE, name="table")
    zero = builder.constant(np.int64(0), name="axis")
    (rows,) = builder.add("Gather", 8, table, ids, zero, name="rows")
    (doubled,) = builder.add("Add", 1, rows, rows, name="doubled")
    axes = builder.constant(np.array([1]), name="axes")
    (total,) = builder.add("ReduceSum", 1, doubled, axes, name="total")
    builder.result(total, "sums")
    return builder.model()


def answer(model: Model, *inputs: np.ndarray) -> np.ndarray:
    return np.asarray(uncork.compile_model(model)(*inputs)[0])


IDS = np.array([1, 3])


def test_constants_are_replaced_by_layer_names() -> None:
    model = lookup()
    new = uncork.with_constants(model, {"table": -TABLE.astype("f8")})
    np.testing.assert_array_equal(answer(new, IDS), [-10, -26])
    np.testing.assert_array_equal(answer(model, IDS), [10, 26])
    assert surgery.changes(model, new) == ["constant table f32[4,2]: has other values"]


def test_keys_of_the_torch_module_are_names_too() -> None:
    builder = uncork.Builder("scaled")
    x = builder.parameter("x", "f32", [2])
    scale = builder.constant(np.array([1, 2], "f4"), name="block/scale")
    builder.result(builder.add("Multiply", 1, x, scale)[0], "y")
    new = uncork.with_constants(builder.model(), {"block_scale": np.array([3, 4], "f4")})
    np.testing.assert_array_equal(answer(new, np.ones(2, "f4")), [3, 4])


def test_constants_of_bodies_are_replaced(tmp_path: Path) -> None:
    inner = uncork.Builder("inner")
    x = inner.parameter("x", "f32", [2])
    weight = inner.constant(np.array([1, 2], "f4"), name="weight")
    inner.result(inner.add("Multiply", 1, x, weight)[0], "y")
    body = BodyMap(GraphBody(inner.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))
    builder = uncork.Builder("branches")
    condition = builder.parameter("condition", "boolean", [])
    outer = builder.parameter("outer", "f32", [2])
    bodies = {"then_body": body, "else_body": _negated()}
    builder.result(builder.add_with_bodies("If", 8, condition, outer, bodies=bodies)[0], "y")
    model = builder.model()
    new = uncork.with_constants(model, {"weight": np.array([5, 7], "f4")})
    assert surgery.changes(model, new) == ["constant weight f32[2]: has other values"]
    uncork.write_model(new, tmp_path / "new.xml")
    one = np.ones(2, "f4")
    again = uncork.read_model(tmp_path / "new.xml")
    np.testing.assert_array_equal(answer(again, np.array(True), one), [5, 7])
    np.testing.assert_array_equal(answer(again, np.array(False), one), [-1, -1])
    np.testing.assert_array_equal(answer(model, np.array(True), one), [1, 2])


def _negated() -> BodyMap:
    builder = uncork.Builder("other")
    x = builder.parameter("x", "f32", [2])
    builder.result(builder.add("Negative", 1, x)[0], "y")
    return BodyMap(GraphBody(builder.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tabel": TABLE}, "'tabel': the model has no such constant; did you mean 'table'"),
        ({"table": TABLE[:3]}, r"'table': expected shape \[4, 2\], got \[3, 2\]"),
        ({"table": TABLE.astype("i8")}, "'table': expected floats for f32, got int64"),
        ({"axes": np.array([0.5])}, "'axes': expected numbers of i64, got float64"),
    ],
)
def test_wrong_constants_are_refused(values: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        uncork.with_constants(lookup(), values)


def test_everything_wrong_is_in_one_error() -> None:
    with pytest.raises(InputError) as caught:
        uncork.with_constants(lookup(), {"a": TABLE, "b": TABLE})
    assert "'a'" in str(caught.value)
    assert "'b'" in str(caught.value)


def test_an_end_becomes_an_output() -> None:
    model = lookup()
    part = surgery.cut(model, end=["rows"])
    np.testing.assert_array_equal(answer(part, IDS), TABLE[IDS])
    assert "output sums f32[?]: is gone" in surgery.changes(model, part)


def test_what_goes_into_a_start_becomes_an_input(tmp_path: Path) -> None:
    model = lookup()
    part = surgery.cut(model, start=["doubled"])
    rows = np.array([[1, 2], [5, 7]], "f4")
    np.testing.assert_array_equal(answer(part, rows), [6, 24])
    assert [n.name for n in part.nodes if n.type_name == "Parameter"] == ["rows/input"]
    uncork.write_model(part, tmp_path / "part.xml")
    np.testing.assert_array_equal(uncork.load(tmp_path / "part.xml")(rows)["sums"], [6, 24])


def test_tensors_are_extracted() -> None:
    part = surgery.extract(lookup(), inputs=["rows"], outputs=["doubled"])
    rows = np.ones((3, 2), "f4")
    np.testing.assert_array_equal(answer(part, rows), 2 * rows)


def test_variables_stay_with_what_reads_them() -> None:
    builder = uncork.Builder("sum")
    x = builder.parameter("x", "f32", [2])
    start = builder.constant(np.zeros(2, "f4"))
    options = {"variable_type": "f32", "variable_shape": uncork.PartialShape([2])}
    (before,) = builder.add("ReadValue", 6, start, variable_id="total", **options)
    (total,) = builder.add("Add", 1, before, x, name="total")
    builder.add("Assign", 6, total, variable_id="total")
    builder.result(builder.add("Exp", 1, total, name="power")[0], "y")
    part = uncork.compile_model(surgery.cut(builder.model(), end=["total"]))
    one = np.ones(2, "f4")
    assert [np.asarray(part(one)[0]).tolist() for _ in range(2)] == [[1, 1], [2, 2]]


def test_unknown_layers_and_useless_cuts_are_refused() -> None:
    with pytest.raises(InputError, match="no layer 'row'; did you mean 'rows'"):
        surgery.cut(lookup(), end=["row"])
    with pytest.raises(InputError, match="no tensor 'sum'; did you mean 'sums'"):
        surgery.extract(lookup(), outputs=["sum"])
    with pytest.raises(InputError, match="do not depend on the layers that the part begins with"):
        surgery.cut(lookup(), start=["total"], end=["rows"])
    with pytest.raises(InputError, match="axis: nothing but constants goes in there"):
        surgery.cut(lookup(), start=["axis"])


def test_sizes_become_fixed_and_open() -> None:
    model = lookup()
    fixed = surgery.reshape(model, {"ids": [2]})
    assert fixed.spec(fixed.by_id[fixed.results[0]].inputs[0]).shape.static == (2,)
    assert surgery.changes(model, fixed) == [
        "input ids: i64[?] -> i64[2]",
        "output sums: f32[?] -> f32[2]",
    ]
    opened = surgery.reshape(fixed, {"0": [None]})
    np.testing.assert_array_equal(answer(opened, np.array([0, 1, 2])), [2, 10, 18])


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"input 'ids': expected 1 sizes as in \[\?\], got \[2,2\]"
    ):
        surgery.reshape(lookup(), {"ids": [2, 2]})
    builder = uncork.Builder("product")
    x = builder.parameter("x", "f32", [2, 3])
    weight = builder.constant(np.ones((3, 2), "f4"))
    builder.result(builder.add("MatMul", 1, x, weight, name="product")[0], "y")
    with pytest.raises(ValidationError, match=r"layer 'product'.*the inner dimensions differ"):
        surgery.reshape(builder.model(), {"x": [2, 4]})


def test_inputs_and_outputs_are_renamed(tmp_path: Path) -> None:
    named = surgery.rename(lookup(), {"ids": "items"}, {"0": "scores"})
    assert named.names_of_input(0)[0] == "items"
    uncork.write_model(named, tmp_path / "named.xml")
    compiled = uncork.load(tmp_path / "named.xml")
    np.testing.assert_array_equal(compiled({"items": IDS})["scores"], [10, 26])
    with pytest.raises(InputError, match="'sums' is the name of another tensor already"):
        surgery.rename(lookup(), {"ids": "sums"})
    with pytest.raises(InputError, match=r"no input 'id'; did you mean 'ids'.; it has ids"):
        surgery.rename(lookup(), {"id": "items"})


@pytest.mark.parametrize(("old", "names"), [("user", ("who",)), ("0", ("who", "user"))])
def test_an_output_that_openvino_has_named_is_renamed(
    old: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    """OpenVINO writes the name to the Result, too, as `output_names`: that one counts."""
    path = tmp_path / "model.xml"
    uncork.write_model(surgery.rename(lookup(), outputs={"0": "user"}), path)
    text = path.read_text("utf-8")
    marked = text.replace('type="Result"', 'type="Result" output_names="user"')
    assert marked != text
    path.write_text(marked, "utf-8")
    named = surgery.rename(uncork.read_model(path), outputs={old: "who"})
    assert named.outputs[0].name == "who"
    uncork.write_model(named, tmp_path / "named.xml")
    compiled = uncork.load(tmp_path / "named.xml")
    assert compiled.outputs[0].names[: len(names)] == names
    assert ("user" in compiled.outputs[0].names) == ("user" in names)
    np.testing.assert_array_equal(compiled(IDS)["who"], [10, 26])


def test_safetensors_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    half = np.array([1.5, -2], "f2")
    with open(path, "wb") as file:
        entries = {
            "a": (ElementType.f32, (4, 2), lambda: TABLE),
            "b": (ElementType.f16, (2,), lambda: half),
            "none": (ElementType.i64, (0,), lambda: np.zeros(0, "i8")),
        }
        write_tensors(file, entries, {"made": "here"})
    tensors, metadata = read_tensors(path)
    np.testing.assert_array_equal(tensors["a"], TABLE)
    np.testing.assert_array_equal(tensors["b"], half)
    assert tensors["none"].shape == (0,)
    assert metadata == {"made": "here"}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}}', "expected 16 bytes inside"),
        (b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', "expected 8 bytes inside"),
        (b'{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}', "shape or a place that is no"),
        (b'{"a":{"dtype":"Q9","shape":[1],"data_offsets":[0,1]}}', "has dtype 'Q9'"),
        (b"[1]", "its header cannot be read"),
        (b"{", "its header cannot be read"),
    ],
)
def test_damaged_safetensors_are_refused(tmp_path: Path, header: bytes, message: str) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ReadError, match=message):
        read_tensors(path)


def test_a_header_longer_than_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes((2**60).to_bytes(8, "little") + b"{}")
    with pytest.raises(ReadError, match="its header is longer than the file"):
        read_tensors(path)


def test_what_did_not_change_is_not_told() -> None:
    model = lookup()
    assert surgery.changes(model, uncork.with_constants(model, {"table": TABLE})) == []
    table = TABLE.copy()
    table[1, 1] = np.nan
    odd = uncork.with_constants(model, {"table": table})
    assert surgery.changes(odd, uncork.with_constants(odd, {"table": table})) == []


def test_other_names_are_told_as_such() -> None:
    model = lookup()
    renamed = surgery.rename(model, inputs={"ids": "items"}, outputs={"sums": "totals"})
    assert surgery.changes(model, renamed) == [
        "input ids i64[?]: is called items",
        "output sums f32[?]: is called totals",
    ]


def two_outputs() -> Model:
    """A split of a row of four into halves."""
    builder = uncork.Builder("halves")
    x = builder.parameter("x", "f32", [1, 4])
    axis = builder.constant(np.int64(1))
    left, right = builder.add("Split", 1, x, axis, name="split", num_splits=2)
    builder.result(builder.add("Add", 1, left, right, name="sum")[0], "y")
    return builder.model()


def test_one_output_of_a_layer() -> None:
    """As comparisons write it."""
    part = surgery.extract(two_outputs(), outputs=["split:1"])
    np.testing.assert_array_equal(answer(part, np.array([[1, 2, 3, 4]], "f4")), [[3, 4]])
    for name, message in (
        ("split", r"'split' is the name of 2 tensors: 'split:0', 'split:1'"),
        ("split:2", "the model has no tensor 'split:2'"),
        ("splitt", "the model has no tensor 'splitt'; did you mean 'split'"),
    ):
        with pytest.raises(InputError, match=message):
            surgery.extract(two_outputs(), outputs=[name])
