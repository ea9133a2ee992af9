"""Building models in Python: a mistake is raised at the call that made it, and a constant is what
was given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork
from uncork.ir.model import Source
from uncork.ops.parameter import Const
from uncork.types import ElementType


def constant(value: Any, element_type: Any = None) -> Any:
    builder = uncork.Builder()
    builder.constant(value, element_type)
    operation = builder.model().nodes[0].operation
    assert isinstance(operation, Const)
    return operation


@pytest.mark.parametrize(
    ("value", "element_type", "expected", "name"),
    [
        (np.float32([1, 2]), None, [1, 2], "f32"),
        ([1, 2], None, [1, 2], "i64"),
        (True, None, True, "boolean"),
        (0.1, None, 0.1, "f64"),
        (0.1, "f32", np.float32(0.1), "f32"),
        ([0.1], "f16", [np.float16(0.1)], "f16"),
        ([1, 2], "f32", [1, 2], "f32"),
        ([1, 2], "i8", [1, 2], "i8"),
        (np.int64([255]), "u8", [255], "u8"),
        (np.float64([0.5, np.nan]), "f32", [0.5, np.nan], "f32"),
        (np.uint16([0x3F80]), "bf16", [0x3F80], "bf16"),
        # 1 + 2**-8 lies between two numbers: the even one
        (np.float32([1, -2, 1 + 2**-8]), "bf16", [0x3F80, 0xC000, 0x3F80], "bf16"),
        ([1.0, 0.1], "bf16", [0x3F80, 0x3DCD], "bf16"),
        (np.float64([1, 448]), "f8e4m3", [0x38, 0x7E], "f8e4m3"),
        ([1.5, -6.0], "f4e2m1", [3, 15], "f4e2m1"),
        ([15, 0], "u4", [15, 0], "u4"),
        ([-8, 7], "i4", [-8, 7], "i4"),
        ([15], ElementType.nf4, [15], "nf4"),
        (["a", "b"], None, ["a", "b"], "string"),
        ("a", "string", "a", "string"),
        (np.zeros((0, 2), ">f4"), None, np.zeros((0, 2)), "f32"),
    ],
)
def test_constants(value: Any, element_type: Any, expected: Any, name: str) -> None:
    operation = constant(value, element_type)
    assert operation.element_type.name == name
    assert operation.value.dtype == operation.element_type.dtype
    np.testing.assert_array_equal(operation.value, np.array(expected, operation.value.dtype))


@pytest.mark.parametrize(
    ("value", "element_type", "message"),
    [
        ([300], "u8", r"expected values of u8, got i64\[1\] with others"),
        ([-1], "u64", "expected values of u64"),
        ([1.5], "i64", r"expected values of i64, got f64\[1\] with others"),
        (np.float64([0.1]), "f32", r"expected values of f32, got f64\[1\]"),
        (np.float64(0.1), "f32", r"expected values of f32, got f64\[\]"),
        ([2**40], "i32", "expected values of i32"),
        ([2**53 + 1], "f64", "expected values of f64"),
        ([0, 1], "boolean", "expected values of boolean, got i64"),
        ([True], "u8", "expected values of u8, got boolean"),
        (
            [2**16],
            "bf16",
            r"expected values of bf16 \(their codes, in uint16\), got i64\[1\] with others",
        ),
        ([16], "u4", r"expected values of u4 \(their codes, in uint8\)"),
        ([8], "i4", "expected values of i4"),
        ([-9], "i4", "expected values of i4"),
        ([2], "u1", "expected values of u1"),
        ([256], "f8e4m3", "expected values of f8e4m3"),
        ([1], "string", "expected strings, got int"),
        (np.array(["a", None], object), None, "expected strings, got NoneType"),
        (np.zeros(1, np.complex64), None, "there is no element type for arrays of complex64"),
        ([1], "f99", "expected an element type such as f32 or i64, got 'f99'"),
    ],
)
def test_refused_constants(value: Any, element_type: Any, message: str) -> None:
    with pytest.raises(uncork.ValidationError, match=message):
        constant(value, element_type)


def test_too_many_dimensions() -> None:
    try:
        array = np.zeros((1,) * 33)
    except ValueError:
        pytest.skip("this NumPy has no such arrays")
    with pytest.raises(uncork.ValidationError, match="expected at most 32 dimensions, got 33"):
        constant(array)


def test_mistakes_name_the_layer() -> None:
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [2])
    with pytest.raises(
        uncork.ValidationError,
        match=r"^layer 'bad' \(Gather-8\): input 'indices' \(port 1\): expected an integer type",
    ):
        builder.add("Gather", 8, x, x, x, name="bad")
    with pytest.raises(
        uncork.ValidationError,
        match=r"^layer 'Gather_1' \(Gather-8\): input 'indices' \(port 1\) is missing",
    ):
        builder.add("Gather", 8, x)
    with pytest.raises(uncork.ValidationError, match="has no attribute 'axes'; it has"):
        builder.add("Gather", 8, x, x, x, axes=1)
    with pytest.raises(
        uncork.UnsupportedError, match=r"Gathr@opset8 is not supported; did you mean Gather\?"
    ):
        builder.add("Gathr", 8, x)
    with pytest.raises(
        uncork.UnsupportedError, match=r"GRUSequence@opset1 is not supported; .* from opset5 on"
    ):
        builder.add("GRUSequence", 1, x)
    with pytest.raises(
        uncork.UnsupportedError, match="Gather@opset8 is not an operation with sub-graphs"
    ):
        builder.add_with_bodies("Gather", 8, x, bodies={})
    with pytest.raises(
        uncork.ValidationError, match="expected an element type such as f32 or i64, got 'f99'"
    ):
        builder.parameter("y", "f99", [])
    assert len(builder.model().nodes) == 1, "what was refused is not there"


def test_outputs_of_another_builder() -> None:
    builder = uncork.Builder()
    value = builder.parameter("x", "f32", [2])
    for source in (Source(5, 0), Source(0, 1)):
        with pytest.raises(
            uncork.ValidationError,
            match=r"expected outputs of layers of this builder as inputs, got Source\(",
        ):
            builder.add("ReLU", 1, source)
    with pytest.raises(
        uncork.ValidationError, match=r"expected an output of a layer, got 1 in a tuple: name one"
    ):
        builder.result((value,))  # type: ignore[arg-type]
    with pytest.raises(uncork.ValidationError, match="expected outputs of layers of this builder"):
        builder.result(Source(0, 3), "y")


def test_results_have_no_outputs() -> None:
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [2])
    assert builder.add("Result", 1, x) == ()
    assert uncork.compile_model(builder.model())(np.zeros(2, np.float32))[0].tolist() == [0, 0]


def test_names() -> None:
    builder = uncork.Builder("m")
    x = builder.parameter("x", "f32", [2])
    (y,) = builder.add("ReLU", 1, x, tensor_names=["y", "why"])
    builder.result(y, "out")
    builder.result(y)
    model = builder.model()
    assert [n.name for n in model.nodes] == ["x", "ReLU_1", "out/result", "Result_3"]
    assert model.names_of_output(0)[:3] == ("y", "why", "out")
    assert (model.name, model.source, model.ir_version) == ("m", "m", 11)
