"""What the front end keeps of an ONNX model, and what it says of one that it cannot read."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.cli import main
from uncork.compiler.execute import kernels_available
from uncork.files import SMALL
from uncork.ir.constants import mapped_files, stored_arrays

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tests.onnx._models import bodies, linear  # noqa: E402
from tests.onnx._run import model_of, run  # noqa: E402


def refusal(model: Any, kind: type[uncork.UncorkError] = uncork.UncorkError) -> str:
    with pytest.raises(kind) as caught:
        uncork.read_model(model if isinstance(model, bytes) else model.SerializeToString())
    return str(caught.value)


# ---- what is kept


def test_names() -> None:
    model = uncork.read_model(linear().SerializeToString())
    assert [p.names[0] for p in model.inputs] == ["x"]
    assert [p.names[0] for p in model.outputs] == ["scores"]
    assert str(model.inputs[0].shape) == "[?,3]"
    assert {"layer/act", "w", "b"} <= {node.name for node in model.nodes}
    (gemm,) = [n for n in model.nodes if n.outputs and "h" in n.outputs[0].names]
    assert gemm.name == "layer/dense"


def test_an_input_that_is_an_output_has_both_names() -> None:
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], {"x": [2]}, ["y", "x"])
    compiled = uncork.load(model.SerializeToString())
    result = compiled(x=np.array([1, 2], np.float32))
    assert result["y"].tolist() == [1, 2]
    assert [p.names[0] for p in compiled.outputs] == ["y", "x"]


def test_nodes_of_one_name_are_told_apart() -> None:
    nodes = [helper.make_node("Abs", [a], [b], name="n") for a, b in ("xy", "yz")]
    model = uncork.read_model(model_of(nodes, {"x": [2]}, ["z"]).SerializeToString())
    names = [n.name for n in model.nodes]
    assert len(set(names)) == len(names)
    assert {"n", "n_1"} <= set(names)


def test_metadata_is_runtime_information() -> None:
    proto = linear(producer_name="pytorch")
    helper.set_model_props(proto, {"author": "Ada", "a/b": "c"})
    (info,) = uncork.read_model(proto.SerializeToString()).extras
    groups = {child.tag: child.children for child in info.children}
    assert [(e.tag, dict(e.attributes)["value"]) for e in groups["model_info"]] == [
        ("author", "Ada"),
        ("a_b", "c"),
    ]
    assert [(e.tag, dict(e.attributes)["value"]) for e in groups["onnx"]] == [
        ("producer_name", "pytorch")
    ]


def test_nodes_that_nothing_needs_are_left_out() -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["y"]),
        helper.make_node("NoSuchThing", ["x"], ["z"]),
    ]
    assert run(model_of(nodes, {"x": [1]}, ["y"]), np.float32([-1]))[0].tolist() == [1]


def test_layers_that_only_a_lowering_needs_are_left_out() -> None:
    """Resize divides sizes by those that there are, which by its mode nobody reads."""
    node = helper.make_node(
        "Resize",
        ["x", "roi", "", "sizes"],
        ["y"],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
    )
    proto = model_of(
        [node],
        {"x": [1, 1, 4, 4], "roi": [8], "sizes": [4]},
        ["y"],
        types={"sizes": TensorProto.INT64},
    )
    model = uncork.read_model(proto.SerializeToString())
    read = {source.node for node in model.nodes for source in node.inputs}
    unread = [n.name for n in model.nodes if n.id not in read and n.type_name != "Result"]
    assert unread == []


@pytest.mark.parametrize(
    ("name", "wanted"),
    [  # log 15 = 2.71, log 10 = 2.30; of exps: 9.003 and 20.0; roots of 95 and 474
        ("ReduceLogSum", [2, 2]),
        ("ReduceLogSumExp", [9, 20]),
        ("ReduceL2", [9, 21]),
    ],
)
def test_logarithms_and_roots_of_whole_numbers_are_cut(name: str, wanted: list[int]) -> None:
    node = helper.make_node(name, ["x"], ["y"], axes=[1], keepdims=0)
    proto = model_of(
        [node], {"x": [2, 4]}, ["y"], opset=13, types=dict.fromkeys("xy", TensorProto.INT32)
    )
    data = np.array([[1, 2, 3, 9], [-3, -8, 20, 1]], np.int32)
    assert run(proto, data)[0].tolist() == wanted


def test_fewer_indices_than_data_along_other_axes() -> None:
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    sizes = {"x": [3, 2, 2], "i": [2, 3, 1]}
    proto = model_of([node], sizes, ["y"], types={"i": TensorProto.INT64})
    data = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    indices = np.array([[[0], [1], [-1]], [[1], [0], [0]]])
    # data[b, i, 0] = 4 b + 2 i
    wanted = [[[0], [2], [2]], [[6], [4], [4]]]
    assert run(proto, data, indices)[0].tolist() == wanted
    assert uncork.load(proto.SerializeToString())(data, indices)[0].tolist() == wanted


def test_a_slope_for_a_scalar() -> None:
    nodes = [
        helper.make_node("LeakyRelu", ["x"], ["a"], alpha=0.5),
        helper.make_node("PRelu", ["a", "s"], ["y"]),
    ]
    proto = model_of(nodes, {"x": [], "s": []}, ["y"])
    assert run(proto, np.array(-4, np.float32), np.array(3, np.float32))[0].tolist() == -6


def test_functions_of_the_model_are_inlined() -> None:
    """Also those that call others, with attributes that are the caller's."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    inner = helper.make_function("mine", "Inner", ["a"], ["b"], [leaky], opsets, ["slope"])
    call = helper.make_node("Inner", ["p"], ["q"], domain="mine", slope=0.5)
    outer = helper.make_function("mine", "Outer", ["p"], ["q"], [call], opsets)
    proto = model_of(
        [helper.make_node("Outer", ["x"], ["y"], domain="mine", name="twice")],
        {"x": [2]},
        ["y"],
        functions=[outer, inner],
    )
    assert run(proto, np.float32([-2, 2]))[0].tolist() == [-1, 2]


def test_a_function_that_calls_itself_is_refused() -> None:
    opsets = [helper.make_opsetid("mine", 1)]
    call = helper.make_node("F", ["a"], ["b"], domain="mine")
    function = helper.make_function("mine", "F", ["a"], ["b"], [call], opsets)
    proto = model_of(
        [helper.make_node("F", ["x"], ["y"], domain="mine")],
        {"x": [2]},
        ["y"],
        functions=[function],
    )
    assert "functions call functions more than 48 deep" in refusal(proto)


# ---- values in files beside the model


def _external(folder: Path, count: int) -> Path:
    values = np.arange(count, dtype=np.float32)
    proto = model_of(
        [helper.make_node("Gather", ["table", "i"], ["y"])],
        {"i": [None]},
        ["y"],
        {"table": values},
        types={"i": TensorProto.INT64},
    )
    path = folder / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="model.data", size_threshold=0)
    return path


def test_large_values_are_mapped(tmp_path: Path) -> None:
    count = SMALL // 4 + 1024
    path = _external(tmp_path, count)
    model = uncork.read_model(path)
    assert [file.path.name for file in mapped_files(model)] == ["model.data"]
    assert uncork.load(path)(np.array([0, count - 1]))[0].tolist() == [0, count - 1]
    assert not mapped_files(uncork.read_model(path, mmap=False))
    assert any(array.size == count for array in stored_arrays(model))


def test_a_file_of_values_that_is_short_or_missing(tmp_path: Path) -> None:
    path = _external(tmp_path, 100)
    data = tmp_path / "model.data"
    data.write_bytes(data.read_bytes()[:-4])
    with pytest.raises(
        uncork.ValidationError, match=r"400 in 'model\.data', which has 396: the file"
    ):
        uncork.read_model(path)
    data.unlink()
    with pytest.raises(uncork.ValidationError, match=r"initializer 'table'|cannot be read"):
        uncork.read_model(path)
    with pytest.raises(uncork.UncorkError, match="give the model by its path, not by its bytes"):
        uncork.read_model(path.read_bytes())


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../b", ""])
def test_no_file_outside_of_the_folder_is_read(tmp_path: Path, location: str) -> None:
    path = _external(tmp_path, 100)
    proto = onnx.load(path, load_external_data=False)
    (tensor,) = proto.graph.initializer
    tensor.external_data[0].value = location
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(uncork.UncorkError, match="expected a file in the model's folder"):
        uncork.read_model(path)


def test_a_link_that_leads_outside_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = _external(folder, 100)
    (folder / "model.data").rename(tmp_path / "elsewhere")
    (folder / "model.data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(uncork.UncorkError, match="a link that leads out of the model's folder"):
        uncork.read_model(path)


# ---- refusals


def test_every_operator_that_is_missing_is_named_at_once() -> None:
    nodes = [
        helper.make_node("StringNormalizer", ["x"], ["a"], name="first"),
        helper.make_node("Special", ["x"], ["b"], name="second", domain="my.company"),
        helper.make_node("Rellu", ["x"], ["c"], name="third"),
        helper.make_node("Add", ["a", "b"], ["d"]),
        helper.make_node("Add", ["d", "c"], ["e"]),
    ]
    message = refusal(model_of(nodes, {"x": [1]}, ["e"]), uncork.UnsupportedError)
    assert "3 problems" in message
    assert (
        "node 'first' (StringNormalizer of ai.onnx, opset 17): is not supported: export the model "
        "without it, or run this part with onnxruntime"
    ) in message
    assert (
        "node 'second' (Special of my.company, opset 1): is a custom operator that is not supported"
    ) in message
    assert "node 'third' (Rellu of ai.onnx, opset 17): is no operator of opset 17" in message


def test_a_node_that_cannot_be_is_named() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    proto = model_of(nodes, {"x": [2, 3]}, ["y"], {"w": np.ones((4, 5), np.float32)})
    message = refusal(proto, uncork.ValidationError)
    assert "node 'product' (MatMul of ai.onnx, opset 17): " in message


def test_names_that_nothing_gives() -> None:
    nodes = [helper.make_node("Add", ["x", "z"], ["y"], name="sum")]
    assert "reads 'z', which no input, initializer or node before it gives" in refusal(
        model_of(nodes, {"x": [1]}, ["y"])
    )
    assert "reads 'y', which no input" in refusal(model_of([], {"x": [1]}, ["y"]))


def test_wrong_numbers_of_inputs_and_attributes() -> None:
    nodes = [helper.make_node("Add", ["x"], ["y"])]
    assert "has 1 inputs, Add-14 takes 2 to 2" in refusal(model_of(nodes, {"x": [1]}, ["y"]))
    nodes = [helper.make_node("Cast", ["x"], ["y"])]
    assert "attribute 'to' is missing" in refusal(model_of(nodes, {"x": [1]}, ["y"]))
    nodes = [helper.make_node("Elu", ["x"], ["y"], alpha="many")]
    assert "attribute 'alpha': expected a number, got 'many'" in refusal(
        model_of(nodes, {"x": [1]}, ["y"])
    )


def test_an_old_opset() -> None:
    nodes = [helper.make_node("Abs", ["x"], ["y"])]
    assert "is written in opset 5, supported are 6 and newer" in refusal(
        model_of(nodes, {"x": [1]}, ["y"], opset=5)
    )


def test_types_that_the_ir_lacks() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    proto = model_of(nodes, {"x": [1]}, ["y"], types={"x": TensorProto.COMPLEX64, "y": 14})
    assert "input 'x': tensors of complex64 are not supported" in refusal(proto)


def test_weights_are_no_option_of_an_onnx_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(linear().SerializeToString())
    with pytest.raises(uncork.ReadError, match="leave the option for weights out"):
        uncork.read_model(path, "model.bin")


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(linear().SerializeToString())
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(uncork.ReadError, match=r"not installed: pip install 'uncork\[onnx\]'"):
        uncork.read_model(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"nothing of that kind")
    with pytest.raises(uncork.ReadError, match="is no ONNX model, or damaged"):
        uncork.read_model(path)
    path.write_bytes(b"")
    with pytest.raises(uncork.ReadError, match="is no ONNX model, or damaged"):
        uncork.read_model(path)


# ---- commands


def test_convert_writes_what_openvino_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "model.onnx", tmp_path / "model.xml"
    source.write_bytes(linear().SerializeToString())
    assert main(["convert", str(source), "-o", str(target)]) == 0
    assert "saved" in capsys.readouterr().out
    x = np.float32([[1, -1, 2], [0, 1, 0]])
    expected = np.maximum(x @ np.arange(6, dtype=np.float32).reshape(2, 3).T + 1, 0)
    for path in (source, target):
        compiled = uncork.load(path)
        np.testing.assert_allclose(compiled(x=x)["scores"], expected, rtol=1e-6)
    assert main(["convert", str(source), "-o", str(target), "--json", "--overwrite"]) == 0
    assert '"schema": "uncork-convert-1"' in capsys.readouterr().out
    assert main(["convert", str(source), "-o", str(tmp_path / "model.bin")]) == 1
    assert "expected a name that ends in .xml" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["show"], ["check"], ["run", "--random", "--shape", "x=2,3"]])
def test_commands_take_onnx_models(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "model.onnx"
    source.write_bytes(linear().SerializeToString())
    assert main([words[0], str(source), *words[1:]]) == 0, capsys.readouterr().err
    if words == ["show"]:
        size = source.stat().st_size
        assert f"weights  {source}, {size:,} bytes" in capsys.readouterr().out


# ---- damaged files


def test_loops() -> None:
    x = np.ones((1, 2, 5), np.float32)
    last, every = run(bodies(), x)
    assert last.tolist() == [48]
    assert every.tolist() == [[12], [24], [48]]


def test_damaged_files_are_refused_in_words() -> None:
    """A byte here and there is another one: an UncorkError, or a model, and nothing else."""
    generator = np.random.default_rng(28)
    models = [linear().SerializeToString(), bodies().SerializeToString()]
    refused = 0
    for round_ in range(600):
        data = bytearray(models[round_ % 2])
        for place in generator.integers(0, len(data), 1 + round_ % 3):
            data[place] = generator.integers(0, 256)
        if round_ % 7 == 0:
            del data[int(generator.integers(0, len(data))) :]
        with contextlib.suppress(uncork.UncorkError):
            uncork.read_model(bytes(data))
            continue
        refused += 1
    assert refused > 200


def test_what_a_loop_carries_may_change_its_rank(tmp_path: Path) -> None:
    """In the IR, too, where a port without dimensions may be of any rank."""
    proto = bodies()
    (two,) = [n for n in proto.graph.node if n.output[0] == "two"]
    two.attribute[0].t.CopyFrom(numpy_helper.from_array(np.float32([[2]])))
    for port in (*proto.graph.node[-1].attribute[0].g.input, *proto.graph.output):
        if port.name == "v":
            port.type.tensor_type.ClearField("shape")
    model = uncork.read_model(proto.SerializeToString())
    uncork.write_model(model, tmp_path / "model.xml")
    x = np.ones((1, 2, 5), np.float32)
    for opened in (model, uncork.read_model(tmp_path / "model.xml")):
        assert uncork.compile_model(opened)(x)[0].tolist() == [[48]]


def test_attributes_that_do_not_fit() -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=b"\xff\xfe")
    message = refusal(model_of([node], {"x": [1, 1, 2]}, ["y"], {"s": np.ones(3, np.float32)}))
    assert "attribute 'mode': expected text in UTF-8, got b'" in message
    labels = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_int64s=[1, 2],
        values_strings=["a", "b"],
        default_tensor=numpy_helper.from_array(np.int16([7])),
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    message = refusal(
        model_of([labels], {"x": [2]}, ["y"], types={"x": 7, "y": 8}, opset_imports=opsets)
    )
    assert "attribute 'default_tensor': expected one element of string, got 1 of i16" in message


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_weights_in_blocks_are_multiplied_as_they_are_stored(axis: int, points: bool) -> None:
    """Along the rows, as onnxruntime's tools write them, where groups follow each other; along the
    columns each number of a row has a scale of another column, and only the answer counts.
    """
    rng = np.random.default_rng(5)
    rows, columns, block = 256, 128, 32
    codes = rng.integers(0, 16, (rows, columns))
    few = [rows, columns]
    few[axis] //= block
    scales = rng.uniform(0.01, 0.1, few).astype(np.float32)
    zeros = rng.integers(0, 16, few) if points else np.zeros(few, np.int64)
    kind = TensorProto.UINT4
    tensors = [
        helper.make_tensor("codes", kind, codes.shape, codes.reshape(-1).tolist()),
        numpy_helper.from_array(scales, "scales"),
        helper.make_tensor("zeros", kind, few, zeros.reshape(-1).tolist()),
    ]
    inputs = ["codes", "scales", "zeros"][: 3 if points else 2]
    nodes = [
        helper.make_node("DequantizeLinear", inputs, ["w"], axis=axis, block_size=block),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    proto = model_of(nodes, {"x": [None, rows]}, ["y"])
    proto.graph.initializer.extend(tensors[: len(inputs)])
    compiled = uncork.load(proto.SerializeToString())
    x = rng.standard_normal((3, rows)).astype(np.float32)
    spread = [np.repeat(array, block, axis) for array in (zeros, scales)]
    expected = x @ ((codes - spread[0]) * spread[1])
    np.testing.assert_allclose(compiled(x)[0], expected, rtol=1e-4, atol=1e-4)
    if axis == 0 and kernels_available():
        assert "weights in u4" in str(compiled.plan)


@pytest.mark.parametrize(
    ("mode", "how", "expected"),
    [
        ("nearest", "asymmetric", [0, 0, 1]),  # floor(x / 1.3)
        ("linear", "half_pixel", [0, 17 / 26, 37 / 26]),
    ],
)
def test_an_axis_that_keeps_its_size_is_resized_by_its_scale(
    mode: str, how: str, expected: list[float]
) -> None:
    """Places are (x + 0.5) / 1.3 - 0.5: -3/26, 17/26 and 37/26."""
    node = helper.make_node(
        "Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=how,
        nearest_mode="floor",
    )  # fmt: skip
    scales = {"s": np.array([1, 1, 1.3], np.float32)}
    model = model_of([node], {"x": [1, 1, 3]}, ["y"], constants=scales)
    found = uncork.load(model.SerializeToString())(np.arange(3, dtype=np.float32)[None, None])[0]
    np.testing.assert_allclose(found[0, 0], expected, atol=1e-6)


@pytest.mark.parametrize("size", [5, "n"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("axes", [True, False])
@pytest.mark.parametrize(
    ("start", "stop", "step", "expected"),
    [  # by the text of Slice: backwards a start is clamped to [0, n - 1], forwards to [0, n]
        (-10, -20, -1, [0]),
        (-6, -(2**62), -2, [0]),
        (-6, 3, -1, []),
        (-5, -20, -1, [0]),
        (-1, -20, -2, [4, 2, 0]),
        (10, -20, -1, [4, 3, 2, 1, 0]),
        (-10, 2, 1, [0, 1]),
    ],
)
def test_slices_backwards_from_before_the_first_element(
    size: int | str, known: bool, axes: bool, start: int, stop: int, step: int, expected: list[int]
) -> None:
    """Along the second axis; the first one is sliced forwards."""
    numbers = {"s": [0, start], "e": [9, stop], "a": [-2, 1], "t": [1, step]}
    if not axes:
        numbers["a"] = [0, 1]
    arrays = {name: np.array(value, np.int64) for name, value in numbers.items()}
    node = helper.make_node("Slice", ["x", "s", "e", "a" if axes else "", "t"], ["y"])
    shapes: dict[str, list[int | str | None]] = {"x": [1, size]}
    given = {name: arrays[name] for name in ("s", "t")}
    if not known:
        shapes |= {name: [2] for name in given}
        arrays = {name: value for name, value in arrays.items() if name not in given}
    model = model_of([node], shapes, ["y"], arrays, types=dict.fromkeys(given, TensorProto.INT64))
    data = np.arange(5, dtype=np.float32)[None]
    for backend in ("reference", "cpu"):
        compiled = uncork.load(model.SerializeToString(), backend=backend)
        assert compiled(data, *(() if known else given.values()))[0].tolist() == [expected]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("pads", "wanted"),
    [
        ((2, 1), [3, 4, 0, 1, 2, 3, 4, 0]),
        ((7, 0), [3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4]),
        ((-3, 4), [3, 4, 3, 4, 3, 4]),
        ((3, -2), [0, 1, 2, 0, 1, 2]),
        ((-2, -1), [2, 3]),
    ],
)
def test_what_is_removed_is_not_wrapped(
    pads: tuple[int, int], wanted: list[int], known: bool
) -> None:
    """As onnxruntime has it; by hand."""
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode="wrap")
    array = np.array(pads, np.int64)
    data = np.arange(5, dtype=np.float32)
    if known:
        model = model_of([node], {"x": [None]}, ["y"], {"pads": array}, opset=19)
        (result,) = run(model, data)
    else:
        inputs = {"x": [5], "pads": [2]}
        model = model_of([node], inputs, ["y"], opset=19, types={"pads": TensorProto.INT64})
        (result,) = run(model, data, array)
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_all_frequencies_of_frames(length: int) -> None:
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"], onesided=0)
    window = np.linspace(1, 2, length, dtype=np.float32)
    constants = {"step": np.array(3), "window": window}
    model = model_of([node], {"x": [None, None, 1]}, ["y"], constants)
    signal = np.random.default_rng(0).standard_normal((2, 23, 1)).astype(np.float32)
    (result,) = run(model, signal)
    frames = np.lib.stride_tricks.sliding_window_view(signal[..., 0], length, 1)[:, ::3]
    expected = np.fft.fft(frames * window)
    np.testing.assert_allclose(result[..., 0], expected.real, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result[..., 1], expected.imag, rtol=1e-5, atol=1e-5)
