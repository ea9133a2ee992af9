"""What onnxruntime computes otherwise than the IR, and exports write down so that it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork
from uncork.errors import UnsupportedError
from uncork.ir.bodies import GraphBody
from uncork.ops._body import BodyInput, BodyMap, JoinedOutput, SlicedInput, Slicing

from ._run import run

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]


@pytest.mark.parametrize("channels", [2, None])
def test_slopes_of_an_open_number(channels: int | None) -> None:
    """As many as there are channels: one for each; otherwise along the last axis."""
    builder = uncork.Builder("prelu")
    data = builder.parameter("data", "f32", [None, channels, None])
    slope = builder.parameter("slope", "f32", [None])
    builder.result(builder.add("PReLU", 1, data, slope)[0], "y")
    proto = uncork.to_onnx(builder.model())
    low = -np.ones((1, 2, 2), np.float32)
    found = run(proto, [low, np.array([2, 3], np.float32)])[0]
    np.testing.assert_array_equal(found, [[[-2, -2], [-3, -3]]])
    low = -np.ones((1, 2, 3), np.float32)
    found = run(proto, [low, np.array([2, 3, 4], np.float32)])[0]
    np.testing.assert_array_equal(found, [[[-2, -3, -4]] * 2])


def of_f64(type_name: str) -> Any:
    """A model of one layer of f64."""
    builder = uncork.Builder("wide")
    x = builder.parameter("x", "f64", [1, 1, 4])
    if type_name == "AvgPool":
        options: dict[str, Any] = {"kernel": [2], "strides": [1], "exclude_pad": False}
        options |= {"pads_begin": [0], "pads_end": [0], "rounding_type": "floor"}
        (y,) = builder.add(type_name, 1, x, **options)
    elif type_name == "Convolution":
        options = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
        (y,) = builder.add(type_name, 1, x, builder.constant(np.ones((1, 1, 2))), **options)
    else:
        (y,) = builder.add(type_name, 1, x)
    builder.result(y, "y")
    return builder.model()


@pytest.mark.parametrize(
    ("type_name", "node", "expected"),
    [
        ("Erf", "Erf", [0, 0.5204998778, 0.8427007929, 0.9953222650]),
        ("Acos", "Acos", [np.pi / 2, np.pi / 3, 0, np.nan]),
        ("Cosh", "Cosh", [1, 1.1276259652, 1.5430806348, 3.7621956911]),
        ("AvgPool", "AveragePool", [0.25, 0.75, 1.5]),
        ("Convolution", "Conv", [0.5, 1.5, 3]),
    ],
)
def test_f64_that_onnxruntime_does_not_have(type_name: str, node: str, expected: Any) -> None:
    """It exported, and no session could be made of it."""
    model = of_f64(type_name)
    with pytest.raises(UnsupportedError, match=f"{node} of f64 is computed in f32; approximate="):
        uncork.to_onnx(model)
    proto = uncork.to_onnx(model, approximate=True)
    found = run(proto, [np.array([[[0, 0.5, 1, 2]]])])[0]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[0, 0], expected, 1e-6)
    assert f"{node} of f64" in proto.metadata_props[0].value


def test_groups_whose_mean_is_large() -> None:
    """Of 1000 and 1001 the normal numbers are -1 and 1; by squares in f32 nothing is left."""
    builder = uncork.Builder("norm")
    x = builder.parameter("x", "f32", [None, 2, None])
    ones, zeros = (builder.constant(np.full(2, n, np.float32)) for n in (1, 0))
    options = {"num_groups": 1, "epsilon": 1e-9}
    builder.result(builder.add("GroupNormalization", 12, x, ones, zeros, **options)[0], "y")
    given = np.array([[[1000, 1001], [1001, 1000]]], np.float32)
    found = run(uncork.to_onnx(builder.model()), [given])[0]
    np.testing.assert_allclose(found, [[[-1, 1], [1, -1]]], 1e-4)


def test_a_loop_without_a_turn() -> None:
    """The sizes of its result that the model tells are there."""
    body = uncork.Builder("body")
    part, before = (body.parameter(name, "f32", [None, None]) for name in ("part", "before"))
    body.result(body.add("Add", 1, part, before)[0], "new")
    maps = BodyMap(
        GraphBody(body.model()),
        (SlicedInput(0, 0, Slicing(1)), BodyInput(1, 1)),
        (JoinedOutput(0, 0, Slicing(1)),),
        ((0, 1),),
    )
    builder = uncork.Builder("turns")
    x, first = builder.parameter("x", "f32", [3, None]), builder.parameter("first", "f32", [3, 1])
    (y,) = builder.add_with_bodies("TensorIterator", 1, x, first, bodies={"body": maps})
    builder.result(y, "y")
    proto = uncork.to_onnx(builder.model())
    start = np.ones((3, 1), np.float32)
    assert run(proto, [np.ones((3, 0), np.float32), start])[0].shape == (3, 0)
    two = run(proto, [np.ones((3, 2), np.float32), start])[0]
    np.testing.assert_array_equal(two, [[2, 3]] * 3)
