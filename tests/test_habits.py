"""What people of OpenVINO and PyTorch type first works here, or the message has what to type
instead.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.ir import elsewhere
from uncork.ir.ports import best_name

A = np.array([[1, 2], [3, 4]], np.float32)
B = np.array([[10, 20], [30, 40]], np.float32)


def sums() -> uncork.Model:
    """`sum` and `product` of `a` and `b`, f32[?,2]."""
    builder = uncork.Builder("sums")
    a, b = (builder.parameter(name, "f32", [None, 2]) for name in ("a", "b"))
    builder.result(builder.add("Add", 1, a, b)[0], "sum")
    builder.result(builder.add("Multiply", 1, a, b)[0], "product")
    return builder.model()


def doubled(shape: Any = (None, 2)) -> uncork.Model:
    """`y` is twice `x`."""
    builder = uncork.Builder("doubled")
    x = builder.parameter("x", "f32", shape)
    builder.result(builder.add("Add", 1, x, x)[0], "y")
    return builder.model()


COMPILED = uncork.compile_model(sums())


@pytest.mark.parametrize(
    "inputs",
    [
        [A, B],
        (A, B),
        {"a": A, "b": B},
        {0: A, 1: B},
        {np.int64(1): B, np.int64(0): A},
        {COMPILED.inputs[0]: A, COMPILED.inputs[1]: B},
        {COMPILED.input("b"): B, COMPILED.input(0): A},
        {COMPILED.model.inputs[0]: A, "b": B},
        {0: A, "b": B},
        [A.tolist(), B.tolist()],
    ],
    ids=lambda inputs: type(inputs).__name__ + "-" + "-".join(type(key).__name__ for key in inputs),
)
def test_inputs_by_list_and_key(inputs: Any) -> None:
    for _ in range(3):  # the later calls go by what the first found
        result = COMPILED(inputs)
        np.testing.assert_array_equal(result["sum"], [[11, 22], [33, 44]])
        np.testing.assert_array_equal(result["product"], [[10, 40], [90, 160]])
    bound = (
        COMPILED.bind(inputs)
        if not isinstance(inputs, list) or isinstance(inputs[0], np.ndarray)
        else None
    )
    if bound is not None:
        np.testing.assert_array_equal(bound()["sum"], [[11, 22], [33, 44]])


def test_a_list_to_a_model_of_one_input() -> None:
    one = uncork.compile_model(doubled())
    for given in ([A], (A,), A, A.tolist(), {0: A}, {one.inputs[0]: A}):
        np.testing.assert_array_equal(one(given)[0], 2 * A)
    # Rows are a value as ever, and so is a single row that is no input by itself.
    np.testing.assert_array_equal(one([A[0], A[1]])[0], 2 * A)
    np.testing.assert_array_equal(one([A[0]])[0], 2 * A[:1])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([A], r"^1 of 2 inputs missing: b f32\[\?,2\]"),
        ([A, B, A], r"expected 2 inputs \(a f32\[\?,2\], b f32\[\?,2\]\), got 3"),
        ({0: A, 2: B}, r"there is no input 2; inputs: a f32\[\?,2\], b f32\[\?,2\]"),
        ({0: A, -1: B}, "there is no input -1"),
        ({0: A, True: B}, "there is no input 1;|there is no input True"),
        ({0: A, 1.5: B}, "expected a name, a position or a port, got float"),
        ({0: A, "a": A, 1: B}, "input 'a' is given twice"),
        ({"a": A, "bb": B}, "no input is called 'bb'"),
        ({COMPILED.outputs[0]: A, 1: B}, r"'sum f32\[\?,2\]' is no input of this model"),
        (
            [A, B.astype(np.float64) / 3],
            r"input 'b': .*convert the array yourself if the loss is meant, by "
            r"\.astype\(np\.float32\)",
        ),
    ],
)
def test_keys_that_find_nothing(inputs: Any, message: str) -> None:
    with pytest.raises(uncork.InputError, match=message):
        COMPILED(inputs)


def test_results_are_a_mapping_too() -> None:
    results = COMPILED(A, B)
    assert isinstance(results, Mapping)
    np.testing.assert_array_equal(results[COMPILED.outputs[0]], A + B)
    np.testing.assert_array_equal(results[COMPILED.output("product")], A * B)
    np.testing.assert_array_equal(results[np.int64(1)], A * B)
    assert [name for name, _ in results.items()] == results.keys() == ["sum", "product"]
    assert results.values()[0] is results["sum"] is results.get("sum") is results.to_tuple()[0]
    assert results.get("total") is None
    assert results.get("total", 5) == 5
    assert (
        "sum" in results
        and 1 in results
        and COMPILED.outputs[1] in results
        and results[0] in results
    )
    assert (
        "total" not in results
        and 2 not in results
        and A not in results
        and COMPILED.inputs[0] not in results
    )
    assert dict(results).keys() == {"sum", "product"}
    assert {**results}["sum"] is results[0]
    total, product = results
    assert total is results[0] and product is results[-1]
    with pytest.raises(
        IndexError, match=r"there is no output 2; outputs: sum f32\[\?,2\], product"
    ):
        results[2]
    with pytest.raises(KeyError, match=r"'a f32\[\?,2\]' is no output of this model; outputs: sum"):
        results[COMPILED.inputs[0]]


def test_results_of_one_model_are_inputs_of_another() -> None:
    builder = uncork.Builder("next")
    total, product = (builder.parameter(name, "f32", [None, 2]) for name in ("sum", "product"))
    builder.result(builder.add("Subtract", 1, total, product)[0], "rest")
    following = uncork.compile_model(builder.model())
    np.testing.assert_array_equal(following(COMPILED(A, B))[0], A + B - A * B)
    bound = COMPILED.bind(A, B, outputs=COMPILED(A, B))
    np.testing.assert_array_equal(bound()[0], A + B)


def test_ports_have_openvinos_names() -> None:
    model = sums()
    for holder in (model, COMPILED):
        port = holder.input(0)
        assert port is holder.inputs[0]
        assert holder.input("b").any_name == holder.inputs[1].name == "b"
        assert holder.output("product").position == 1
        assert port.partial_shape == [None, 2]
        assert port.element_type == "f32"
        assert port.rank == 2
        with pytest.raises(
            uncork.InputError,
            match=r"the model has 2 inputs, so say which: a f32\[\?,2\], b f32\[\?,2\]",
        ):
            holder.input()
        with pytest.raises(
            uncork.InputError, match="no output is called 'sun'; did you mean 'sum'"
        ):
            holder.output("sun")
    assert uncork.compile_model(doubled()).output().name == doubled().input().name.replace("x", "y")


@pytest.mark.parametrize(
    ("element_type", "expected"),
    [("f32", "f4"), ("i64", "i8"), ("bf16", "f4"), ("i4", "i1"), ("string", str), ("boolean", "?")],
)
def test_dtype_is_that_of_the_results(element_type: str, expected: Any) -> None:
    builder = uncork.Builder("same")
    builder.result(builder.parameter("x", element_type, [1]), "y")
    compiled = uncork.compile_model(builder.model())
    value = (
        np.array(["a"])
        if element_type == "string"
        else np.ones(1, bool if element_type == "boolean" else np.int8)
    )
    assert compiled.output(0).dtype == np.dtype(expected)
    assert compiled(value)[0].dtype.kind == compiled.output(0).dtype.kind


def test_the_best_name() -> None:
    assert best_name(("464", "464/sink_port_0", "/fc/Gemm")) == "/fc/Gemm"
    assert best_name(("Result_12", "logits")) == "logits"
    assert best_name(("464",)) == "464"
    assert best_name(()) == ""
    builder = uncork.Builder("numbers")
    x = builder.parameter("x", "f32", [2])
    builder.result(builder.add("ReLU", 1, x, name="/fc/Relu", tensor_names=["464"])[0], "")
    compiled = uncork.compile_model(builder.model())
    assert compiled.output().name == "/fc/Relu"
    results = compiled(np.float32([-1, 1]))
    assert results.keys() == ["/fc/Relu"]
    assert results["464"] is results["/fc/Relu"]
    assert "/fc/Relu f32[2]" in repr(compiled.model)


def test_shapes_as_people_write_them() -> None:
    shape = uncork.PartialShape([1, None, (2, 8), -1])
    assert str(shape) == "[1,?,2..8,?]"
    assert shape == [1, -1, (2, 8), None]


@pytest.mark.parametrize("key", ["x", 0, None, "port"])
@pytest.mark.parametrize("shape", [[3, 2], "3,2", "[3,2]", uncork.PartialShape([3, 2]), (3, 2)])
def test_reshape(key: Any, shape: Any) -> None:
    model = doubled()
    wanted = shape if key is None else {model.inputs[0] if key == "port" else key: shape}
    reshaped = model.reshape(wanted)
    assert str(reshaped.input()) == "x f32[3,2]"
    assert str(reshaped.output()) == "y f32[3,2]"
    assert str(model.input()) == "x f32[?,2]", "the model stays as it is"
    compiled = uncork.compile_model(reshaped)
    np.testing.assert_array_equal(compiled(np.ones((3, 2), np.float32))[0], np.full((3, 2), 2))
    with pytest.raises(uncork.InputError, match=r"expected shape \[3,2\], got \[2, 2\]"):
        compiled(A)


DROPPED = (
    r"has the shapes that it had: reshape\(\) gives a new model, and that was dropped; "
    r"write model = model\.reshape\(\.\.\.\)$"
)


def test_reshape_in_place_as_in_openvino_warns(tmp_path: Path) -> None:
    model = doubled()
    model.reshape({"x": [3, 2]})
    with pytest.warns(uncork.UncorkWarning, match=DROPPED) as caught:
        uncork.compile_model(model)
    assert caught[0].filename == __file__
    uncork.compile_model(model)  # said once
    model.reshape({"x": [4, 2]})
    with pytest.warns(uncork.UncorkWarning, match=DROPPED):
        uncork.write_model(model, tmp_path / "model.xml")


def test_a_reshaped_model_that_was_used_is_not_dropped(tmp_path: Path) -> None:
    """Warnings are errors here."""
    model = doubled()
    uncork.compile_model(model.reshape({"x": [3, 2]}))
    uncork.compile_model(model)
    uncork.write_model(model.reshape({"x": [3, 2]}), tmp_path / "model.xml")
    uncork.compile_model(model)
    print(model.reshape({"x": [3, 2]}))
    uncork.compile_model(model)
    kept = model.reshape({"x": [3, 2]})
    uncork.compile_model(model)
    del kept
    uncork.compile_model(model)


def test_reshape_of_some_inputs_reaches_the_file(tmp_path: Path) -> None:
    reshaped = sums().reshape({"a": [(2, 8), 2]})
    assert str(reshaped.inputs[1]) == "b f32[?,2]"
    uncork.write_model(reshaped, tmp_path / "new.xml")
    assert [str(port) for port in uncork.read_model(tmp_path / "new.xml").inputs] == [
        "a f32[2..8,2]",
        "b f32[?,2]",
    ]


@pytest.mark.parametrize(
    ("shapes", "kind", "message"),
    [
        (
            [1, 2],
            uncork.InputError,
            r"reshape: the model has 2 inputs: give a mapping such as \{'a': \[1, 8\]\}",
        ),
        ({"c": [1, 2]}, uncork.InputError, "no input is called 'c'"),
        (
            {"a": "1,x"},
            uncork.InputError,
            "reshape, input 'a': expected dimensions such as '1,\\?,2' or '1..8', got '1,x'",
        ),
        ({"a": 5}, uncork.InputError, r"expected a shape such as \[1, None, \(2, 8\)\], got 5"),
        (
            {"a": [1, 3]},
            uncork.ValidationError,
            r"^sums, reshaped to a \[1,3\]: 2 problems:\n  1. layer 'Add_2'",
        ),
    ],
)
def test_reshapes_that_do_not_fit(
    shapes: Any, kind: type[uncork.UncorkError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        sums().reshape(shapes)


def test_a_model_without_inputs_has_no_shapes_to_give() -> None:
    b = uncork.Builder("constant")
    b.result(b.constant(np.ones(2, np.float32)), "y")
    with pytest.raises(uncork.InputError, match="the model has no inputs"):
        b.model().reshape([1, 2])


def test_devices_and_properties() -> None:
    for name in ("CPU", "AUTO", "cpu"):
        np.testing.assert_array_equal(uncork.compile_model(doubled(), name)(A)[0], 2 * A)
    with pytest.raises(
        uncork.UnsupportedError, match="there is no device 'GPU': uncork runs models on the CPU"
    ):
        uncork.compile_model(doubled(), "GPU")
    with pytest.raises(
        uncork.ValidationError,
        match="device_name: expected 'CPU', got 2; options are given by name, as in threads=2",
    ):
        uncork.compile_model(doubled(), 2)  # type: ignore[arg-type]
    with pytest.raises(
        uncork.ValidationError,
        match=r"2 problems:\n  1. config, INFERENCE_NUM_THREADS: give threads=N\n  2. config, X: "
        r"there is",
    ):
        uncork.compile_model(doubled(), "CPU", {"INFERENCE_NUM_THREADS": 1, "X": 2})


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("Core", r"uncork\.read_model\(path\), uncork\.compile_model\(model\)"),
        ("InferenceSession", r"uncork\.load\('model\.onnx'\)"),
        ("Type", r"uncork\.ElementType"),
        ("convert_model", r"uncork\.from_torch\(module, example\)"),
        ("save_model", r"uncork\.write_model"),
        ("opset13", r"uncork\.Builder builds models"),
        ("tensor", "NumPy arrays are given"),
        ("compil_model", "did you mean 'compile_model'"),
    ],
)
def test_what_there_is_not(name: str, way: str) -> None:
    with pytest.raises(
        AttributeError, match=rf"module 'uncork' has no attribute '{name}'.*{way}"
    ) as caught:
        getattr(uncork, name)
    assert "Did you mean" not in "".join(
        traceback.format_exception_only(caught.value)
    )  # Python's own, beside ours
    assert not hasattr(uncork, "__path_of_nothing__")


@pytest.mark.parametrize(
    ("thing", "name", "message"),
    [
        (COMPILED.inputs[0], "get_any_name", "a port has no 'get_any_name': port.name"),
        (COMPILED.inputs[0], "get_element_type", "port.element_type"),
        (COMPILED.inputs[0], "nmae", "^a port has no 'nmae'$"),
        (COMPILED.model, "get_parameters", "a model has no 'get_parameters': model.inputs"),
        (COMPILED.model, "get_ops", r"model\.nodes"),
        (COMPILED, "infer", r"a compiled model has no 'infer': call it: compiled\(inputs\)"),
        (COMPILED, "get_property", r"options are arguments of uncork\.load, as in threads=2"),
        (COMPILED, "predict", "call it"),
        (
            COMPILED.create_infer_request(),
            "get_output_tensor",
            r"a request has no 'get_output_tensor': request\.results\[0\] is the array",
        ),
    ],
)
def test_attributes_that_there_are_not(thing: Any, name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message) as caught:
        getattr(thing, name)
    assert "Did you mean" not in "".join(traceback.format_exception_only(caught.value))


@pytest.mark.parametrize("table", [elsewhere.PORT, elsewhere.MODEL, elsewhere.COMPILED])
def test_the_way_to_go_is_there(table: dict[str, str]) -> None:
    """No name of a table is one that is there, and what a way begins with is."""
    things = {
        "port": COMPILED.inputs[0],
        "model": COMPILED.model,
        "compiled": COMPILED,
        "uncork": uncork,
    }
    own = things[
        {id(elsewhere.PORT): "port", id(elsewhere.MODEL): "model"}.get(id(table), "compiled")
    ]
    for name, way in table.items():
        assert not hasattr(own, name), name
        for kind, attribute in re.findall(r"\b(port|model|compiled|uncork)\.(\w+)", way):
            if (kind, attribute) != ("model", "xml"):
                assert hasattr(things[kind], attribute), way


def test_what_an_attribute_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not hidden behind a message that there is no such attribute."""

    def broken(port: Any) -> None:
        raise AttributeError("of another kind")

    monkeypatch.setattr(uncork.ModelPort, "rank", property(broken))
    with pytest.raises(AttributeError, match="of another kind"):
        _ = COMPILED.inputs[0].rank


def test_requests_say_what_they_do() -> None:
    request = COMPILED.create_infer_request()
    assert repr(request) == "<InferRequest of 'sums': idle>"
    request.infer([A, B])
    assert repr(request).startswith("<InferRequest of 'sums': Results(sum: f32[2,2]")


def test_the_namespace_is_what_is_public() -> None:
    assert dir(uncork) == sorted(uncork.__all__)
    assert set(uncork.__all__) >= {"load", "score", "AsyncInferQueue", "InferRequest"}


def test_pickling_says_what_to_do() -> None:
    for action in (pickle.dumps, copy.deepcopy):
        with pytest.raises(
            TypeError, match=r"send the path of the model and uncork\.load it there"
        ):
            action(COMPILED)


def test_odd_values() -> None:
    ids = uncork.Builder("ids")
    ids.result(ids.parameter("ids", "i64", [None]), "same")
    assert uncork.compile_model(ids.model())([])[0].shape == (0,), "an empty list is ids"
    masked = np.ma.masked_array(A, A == 4)
    with pytest.raises(
        uncork.InputError, match=r"it is masked at \[1, 1\]: fill it first, by \.filled\(value\)"
    ):
        COMPILED(masked, B)
    np.testing.assert_array_equal(COMPILED(np.ma.masked_array(A), B)[0], A + B)


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    with_gradient = torch.tensor(A, requires_grad=True)
    for given in ([with_gradient, B], {"a": with_gradient.detach().bfloat16(), 1: torch.tensor(B)}):
        np.testing.assert_array_equal(COMPILED(given)["sum"], A + B)
    np.testing.assert_array_equal(uncork.compile_model(doubled())([torch.tensor(A)])[0], 2 * A)


def test_sparse_matrices_and_nulls() -> None:
    class Sparse:
        """As SciPy's: NumPy makes an array of one object of it."""

        def toarray(self) -> None: ...

    with pytest.raises(uncork.InputError, match=r"input 'a': .*sparse: give its \.toarray\(\)"):
        COMPILED(Sparse(), B)
    with pytest.raises(
        uncork.InputError, match=r"input 'b': expected an array of f32, got None|None at \[0, 1\]"
    ):
        COMPILED(A, np.array([[1, None]], object))


def test_notebooks_show_tables() -> None:
    """Names come from files: they are text there, whatever they hold."""
    builder = uncork.Builder("<b>odd</b>")
    x = builder.parameter("<script>", "f32", [None, 2])
    builder.result(builder.add("Add", 1, x, x, name="<i>")[0], "a&b")
    compiled = uncork.compile_model(builder.model())
    results = compiled(A)
    shown = [
        thing._repr_html_()
        for thing in (compiled.model, compiled, results, compiled.plan, compiled.profile(A))
    ]
    for html in shown:
        assert html.startswith("<table><caption>") and html.endswith("</table>")
        assert "<script" not in html and "<b>" not in html and "<i>" not in html
    assert "<td>input</td><td>&lt;script&gt;</td><td>f32</td><td>[?,2]</td>" in shown[0]
    assert "<td>a&amp;b</td><td>f32[2,2]</td><td>2, 4, 6, 8</td>" in shown[2]
    assert "&lt;i&gt;" in shown[3]


def test_help_has_the_options() -> None:
    for function in (uncork.load, uncork.compile_model):
        assert {
            "backend",
            "strict",
            "threads",
            "precision",
            "loop_limit",
            "tables",
            "ids",
            "mmap",
        } <= set(inspect.signature(function).parameters)
    text = pydoc.render_doc(uncork.load, renderer=pydoc.plaintext)
    for option in (
        "threads",
        "precision",
        "tables",
        "ids",
        "mmap",
        "strict",
        "loop_limit",
        "backend",
        "weights",
    ):
        assert f"`{option}" in text, f"help(uncork.load) says nothing of {option}"
