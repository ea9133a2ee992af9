"""Functions of opsets: every one of OpenVINO's, called as there, and what each makes."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import uncork.openvino as ov
from uncork.openvino import _opsets, opset1, opset4, opset13, opset15
from uncork.ops import registered

#: What is called in several ways, or put together step by step, has no one signature.
SEVERAL = {"assign", "constant", "parameter", "read_value", "result"}
SEVERAL |= {"if_op", "loop", "tensor_iterator"}


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(1, 17))
def test_functions_are_called_as_those_of_openvino(number: int) -> None:
    pytest.importorskip("openvino")
    theirs = importlib.import_module(f"openvino.opset{number}")
    names = {n for n in dir(theirs) if not n.startswith("_") and callable(getattr(theirs, n))}
    ours = importlib.import_module(f"uncork.openvino.opset{number}")
    assert set(dir(ours)) == names
    for name in names - SEVERAL:
        expected = inspect.signature(getattr(theirs, name)).parameters.values()
        got = inspect.signature(getattr(ours, name)).parameters
        wanted = {p.name: p.default for p in expected}
        assert {n: p.default for n, p in got.items()} == wanted, name
        assert [n for n in got if n != "name"] == [n for n in wanted if n != "name"], name


def test_every_function_has_an_operation() -> None:
    for name in _opsets.names_in(16):
        if name not in SEVERAL:
            type_name = _opsets.type_of_function(name)
            assert type_name in {kind.type_name for kind in registered()}, name


def test_the_version_is_that_of_the_opset() -> None:
    x = opset1.parameter([4], np.float32, name="x")
    assert opset1.softmax(x, 0).get_type_info().version_id == "opset1"
    assert opset13.softmax(x, 0).get_type_info().version_id == "opset8"


def test_an_older_version_where_the_call_does_not_say_what_the_newer_one_needs() -> None:
    made = opset4.range(np.int64(0), np.int64(5), np.int64(2))
    assert made.get_type_info().version_id == "opset1" and list(made.shape) == [3]


def test_inputs_of_another_order_than_the_arguments() -> None:
    data = opset1.parameter([2, 3], np.float32, name="data")
    made = [np.full(3, value, np.float32) for value in (1, 2, 3, 4)]
    node = opset1.batch_norm_inference(data, *made, 1e-5)
    assert [n.get_node().get_friendly_name() for n in node.input_values()][2] == "data"


def test_inputs_that_are_left_out_in_the_middle() -> None:
    table = opset15.constant(np.ones((3, 2), np.float32))
    weights = np.ones(2, np.float32)
    node = opset15.embedding_bag_offsets_sum(
        table, np.array([0, 1]), np.array([0]), per_sample_weights=weights
    )
    assert node.input_value(3).get_node().data == -1


def test_numbers_take_the_type_of_the_other_side() -> None:
    x = opset13.parameter([2], np.float16, name="x")
    assert (x + 1).get_element_type() == opset13.multiply(2, x).get_element_type() == ov.Type.f16


def test_names_of_layers() -> None:
    x = opset13.parameter([2], np.float32, name="x")
    assert opset13.relu(x, name="positive").get_friendly_name() == "positive"
    assert opset13.relu(x).get_friendly_name().startswith("Relu_")
    assert x.output(0).names == {"x"}


def test_functions_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="'stft': it is in opset15 and later"):
        opset13.stft  # noqa: B018
    with pytest.raises(AttributeError, match="opset13 has no function 'nothing'"):
        opset13.nothing  # noqa: B018


def test_mistakes_are_runtime_errors_with_the_layer() -> None:
    a = opset13.parameter([2, 3], np.float32, name="a")
    with pytest.raises(RuntimeError, match=r"'product' \(MatMul-1\)"):
        opset13.matmul(a, a, False, False, name="product")
    with pytest.raises(RuntimeError, match="is left out, and one behind it is given"):
        opset13.squeeze(None, [0])


def test_mistakes_with_bodies() -> None:
    x = opset13.parameter([1], np.float32, name="x")
    inner = opset13.parameter([1], np.float32, name="inner")
    body = ov.Model([opset13.relu(inner)], [inner], "body")
    choice = opset13.if_op(opset13.constant(np.array(True)))
    with pytest.raises(RuntimeError, match="If has no then_body yet"):
        choice.set_input(x, inner, None)
    with pytest.raises(TypeError, match="expected a Model as body, got str"):
        choice.set_then_body("body")
    choice.set_then_body(body)
    with pytest.raises(RuntimeError, match=r"'x'.* is no parameter of the body 'body'"):
        choice.set_input(x, x, None)
    iterator = opset13.tensor_iterator()
    iterator.set_body(body)
    with pytest.raises(RuntimeError, match="is given by no result of 'body'"):
        iterator.get_iter_value(x)
    with pytest.raises(RuntimeError, match="each of the 1 parameters to be fed once"):
        iterator.get_iter_value(body.get_results()[0])
    with pytest.raises(RuntimeError, match=r"only the last turn \(-1\)"):
        iterator.get_iter_value(body.get_results()[0], 0)
    with pytest.raises(RuntimeError, match="loop: expected a trip count and a condition"):
        opset13.loop()
