"""Models changed in place, and what that does not change."""

from __future__ import annotations

import copy
import threading
from pathlib import Path

import numpy as np
import pytest

import uncork
import uncork.openvino as ov
from uncork.ir.bodies import GraphBody
from uncork.openvino import opset13 as ops
from uncork.openvino.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm
from uncork.ops._body import BodyInput, BodyMap, BodyOutput


def doubled(name: str = "x") -> ov.Model:
    """x + x, of any length."""
    x = ops.parameter([-1], np.float32, name=name)
    return ov.Model([ops.add(x, x, name="sum")], [x], "doubled")


def test_what_was_compiled_stays_as_it_was() -> None:
    model = doubled()
    compiled = ov.compile_model(model)
    model.reshape([3])
    assert compiled(np.ones(5, np.float32))[0].tolist() == [2] * 5
    assert str(compiled.input().partial_shape) == "[?]"


def test_ports_of_the_model_are_keys_of_what_is_compiled_of_it() -> None:
    model = doubled()
    compiled = ov.compile_model(model)
    results = compiled({model.input(0): np.ones(1, np.float32)})
    assert results[model.output(0)].tolist() == [2]


def test_calls_from_several_threads_are_not_mixed() -> None:
    compiled = ov.compile_model(doubled())
    wrong: list[float] = []

    def calls(value: float) -> None:
        for _ in range(200):
            got = compiled(np.full(64, value, np.float32))[0]
            if not (got == 2 * value).all():
                wrong.append(value)

    threads = [threading.Thread(target=calls, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_results_stay_when_the_output_tensor_is_looked_at_later() -> None:
    request = ov.compile_model(doubled()).create_infer_request()
    first = request.infer([np.array([1, 2], np.float32)])[0]
    seen = request.get_output_tensor().data
    request.infer([np.array([3, 4], np.float32)])
    assert first.tolist() == [2, 4] and seen.tolist() == [6, 8]


def test_inputs_of_a_call_that_was_begun_are_copied() -> None:
    request = ov.compile_model(doubled()).create_infer_request()
    given = np.array([1, 2], np.float32)
    request.start_async([given])
    given[:] = 0
    request.wait()
    assert request.results[0].tolist() == [2, 4]


def test_integers_that_would_change_are_refused() -> None:
    ids = ops.parameter([-1], np.int32, name="ids")
    compiled = ov.compile_model(ov.Model([ops.add(ids, ids)], [ids], "ids"))
    assert compiled(np.array([1, 2]))[0].tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="4294967297 at"):
        compiled(np.array([1, 2**32 + 1]))
    with pytest.raises(RuntimeError, match="ids and counts are never rounded"):
        compiled(np.array([1.5]))


def test_a_model_of_the_file_is_written_as_it_was_read(tmp_path: Path) -> None:
    builder = uncork.Builder("kept")
    x = builder.parameter("x", "f32", [None, 2])
    builder.result(builder.add("ReLU", 1, x, name="relu")[0], "y")
    builder.info("model_info/labels", "a b")
    uncork.write_model(builder.model(), tmp_path / "a.xml")
    ov.serialize(ov.Core().read_model(tmp_path / "a.xml"), tmp_path / "b.xml")
    ov.save_model(ov.Core().read_model(tmp_path / "a.xml"), tmp_path / "c.xml")
    texts = [(tmp_path / f"{name}.xml").read_text() for name in "abc"]
    assert texts[1] == texts[2]
    first, second = (uncork.read_model(tmp_path / f"{name}.xml") for name in "ab")
    assert [n.name for n in first.nodes] == [n.name for n in second.nodes]
    assert (first.inputs, first.outputs) == (second.inputs, second.outputs)
    assert 'labels value="a b"' in texts[1]


def test_weights_anywhere(tmp_path: Path) -> None:
    """Both files, and no other that a kill might leave."""
    (tmp_path / "w").mkdir()
    x = ops.parameter([3], np.float32, name="x")
    model = ov.Model([ops.add(x, ops.constant(np.arange(3, dtype=np.float32)))], [x], "m")
    ov.serialize(model, tmp_path / "m.xml", tmp_path / "w" / "weights.data")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["m.xml", "w", "weights.data"]
    again = ov.Core().read_model(tmp_path / "m.xml", tmp_path / "w" / "weights.data")
    assert ov.compile_model(again)(np.ones(3, np.float32))[0].tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="where the weights go"):
        ov.serialize(model, tmp_path / "m.xml", tmp_path / "m.xml")


def test_remarks_with_names_that_are_no_tags(tmp_path: Path) -> None:
    model = doubled()
    model.set_rt_info("yes", ["model info", "2nd"])
    ov.serialize(model, tmp_path / "m.xml")
    again = ov.Core().read_model(tmp_path / "m.xml")
    assert again.get_rt_info(["model info", "2nd"]).value == "yes"


def test_halves_keep_numbers_that_f16_lacks(tmp_path: Path) -> None:
    x = ops.parameter([2], np.float32, name="x")
    large = ops.constant(np.array([1e6, 1], np.float32))
    third = ops.constant(np.array([1 / 3, 1], np.float32))
    model = ov.Model([ops.add(x, large), ops.add(x, third)], [x], "m")
    ov.save_model(model, tmp_path / "m.xml")
    results = ov.compile_model(tmp_path / "m.xml")(np.zeros(2, np.float32))
    assert results[0].tolist() == [1e6, 1]
    assert results[1].tolist() == [np.float32(np.float16(1 / 3)), 1]


def test_copies() -> None:
    model = doubled()
    other = copy.deepcopy(copy.copy(model))
    other.reshape([2])
    assert model.is_dynamic() and not other.is_dynamic()


def test_a_replaced_output_takes_its_readers_and_names() -> None:
    x = ops.parameter([2], np.float32, name="x")
    middle = ops.exp(x, name="middle")
    middle.output(0).set_names({"middle"})
    model = ov.Model([ops.negative(middle)], [x], "m")
    middle.output(0).replace(ops.abs(x))
    model.validate_nodes_and_infer_types()
    assert ov.compile_model(model)(np.array([-3, 2], np.float32))[0].tolist() == [-3, -2]
    assert [n.get_type_name() for n in model.get_ordered_ops()][1] == "Abs"


def test_parameters_are_set_and_validated() -> None:
    model = doubled()
    (x,) = model.get_parameters()
    x.set_element_type(ov.Type.f16)
    x.set_partial_shape([4])
    model.validate_nodes_and_infer_types()
    assert model.output().element_type == ov.Type.f16 and list(model.output().shape) == [4]


def test_evaluation_by_the_definition() -> None:
    out = ov.Tensor(np.zeros(2, np.float32))
    assert doubled().evaluate([out], [ov.Tensor(np.array([1, 4], np.float32))])
    assert out.data.tolist() == [2, 8]


def test_a_parameter_that_is_not_named_is_refused() -> None:
    x, y = (ops.parameter([1], np.float32, name=n) for n in "xy")
    with pytest.raises(RuntimeError, match=r"'y'.* is no parameter of the model"):
        ov.Model([ops.add(x, y)], [x], "m")


def test_converting_without_openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"takes OpenVINO's own package.*from_torch"):
        ov.convert_model("model.pb")


def test_what_preprocessing_refuses() -> None:
    for steps, message in (
        (lambda i: i.preprocess().resize(ResizeAlgorithm.RESIZE_LINEAR), "a layout with H"),
        (lambda i: i.preprocess().reverse_channels(), "a layout with C"),
        (lambda i: i.preprocess().convert_color(ColorFormat.RGB), "UNDEFINED cannot become RGB"),
        (lambda i: i.tensor().set_memory_type("GPU"), "models on the CPU"),
        (lambda i: i.preprocess().pad([1], [1, 1], 0.0), "expected 1 begins and ends"),
        (lambda i: i.tensor().set_layout("N") and i.model().set_layout("C"), "other axes"),
    ):
        ppp = PrePostProcessor(doubled())
        with pytest.raises(RuntimeError, match=message):
            steps(ppp.input()) and ppp.build()


def test_steps_that_are_refused_leave_the_model_as_it_was() -> None:
    a, b = (ops.parameter([1, 2], np.float32, name=n) for n in "ab")
    model = ov.Model([ops.add(a, b)], [a, b], "sum")
    ppp = PrePostProcessor(model)
    ppp.input("a").preprocess().scale(2.0)
    ppp.input("b").preprocess().reverse_channels()
    with pytest.raises(RuntimeError, match="a layout with C"):
        ppp.build()
    given = [np.full((1, 2), value, np.float32) for value in (2, 4)]
    assert ov.compile_model(model)(given)[0].tolist() == [[6, 6]]


def test_steps_of_an_input_that_is_an_output_too() -> None:
    x = ops.parameter([2], np.float32, name="x")
    model = ov.Model([x], [x], "same")
    ppp = PrePostProcessor(model)
    ppp.input().tensor().set_element_type(ov.Type.u8)
    ppp.input().preprocess().convert_element_type(ov.Type.f32).scale(2.0)
    compiled = ov.compile_model(ppp.build())
    assert compiled(np.array([2, 4], np.uint8))[0].tolist() == [1, 2]


def test_attributes_are_spelled_as_in_files() -> None:
    x = ops.parameter([1, 1, 4, 4], np.float32, name="x")
    pool = ops.avg_pool(x, [2, 2], [0, 0], [0, 0], [2, 2], True)
    assert pool.get_attributes()["exclude-pad"] is True
    assert ops.add(x, x).get_attributes() == {"auto_broadcast": "numpy"}


def test_a_layer_with_a_body_is_read_changed_and_written(tmp_path: Path) -> None:
    inner = uncork.Builder("inner")
    y = inner.parameter("y", "f32", [None])
    inner.result(inner.add("Add", 1, y, y)[0], "twice")
    other = uncork.Builder("other")
    other.result(other.parameter("z", "f32", [None]), "same")
    outer = uncork.Builder("outer")
    x, wanted = outer.parameter("x", "f32", [None]), outer.parameter("wanted", "boolean", [])
    joined = [
        BodyMap(GraphBody(b.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))
        for b in (inner, other)
    ]
    (out,) = outer.add_with_bodies(
        "If", 8, wanted, x, bodies=dict(zip(("then_body", "else_body"), joined, strict=True))
    )
    outer.result(out, "out")
    uncork.write_model(outer.model(), tmp_path / "if.xml")
    model = ov.Core().read_model(tmp_path / "if.xml")
    model.reshape({"x": [3]})
    ov.save_model(model, tmp_path / "again.xml")
    compiled = ov.compile_model(tmp_path / "again.xml")
    ones = np.ones(3, np.float32)
    assert compiled({"x": ones, "wanted": np.array(True)})[0].tolist() == [2, 2, 2]
    assert compiled({"x": ones, "wanted": np.array(False)})[0].tolist() == [1, 1, 1]


def test_errors_cross_processes() -> None:
    import pickle

    with pytest.raises(RuntimeError) as caught:
        ov.Core().read_model("no/model.xml")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, uncork.ReadError) and isinstance(again, RuntimeError)
    assert str(again) == str(caught.value)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # of torch
def test_converting_by_openvino(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("openvino")
    model = ov.convert_model(torch.nn.Linear(3, 2), example_input=torch.ones(1, 3))
    assert isinstance(model, ov.Model) and list(model.output().partial_shape)[1] == 2
