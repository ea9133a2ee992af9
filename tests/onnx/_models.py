"""Two small ONNX models: a layer with its bias, and one with a loop and many attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tests.onnx._run import model_of


def linear(**more: Any) -> Any:
    """A model of a product and its bias."""
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], name="layer/dense", transB=1),
        helper.make_node("Relu", ["h"], ["scores"], name="layer/act"),
    ]
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    return model_of(
        nodes, {"x": ["batch", 3]}, ["scores"], {"w": w, "b": np.ones(2, np.float32)}, **more
    )


def bodies() -> Any:
    """A model with a loop, an If, and attributes of every kind."""
    keep = helper.make_node("Identity", ["c"], ["c2"])
    grow = helper.make_node("Mul", ["v", "two"], ["v2"])
    body = helper.make_graph(
        [keep, grow],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [None]),
        ],
        [
            helper.make_tensor_value_info("c2", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v2", TensorProto.FLOAT, [None]),
            helper.make_tensor_value_info("v2", TensorProto.FLOAT, [None]),
        ],
    )
    nodes = [
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.float32([2]))),
        helper.make_node("Conv", ["x", "w"], ["f"], kernel_shape=[3], pads=[1, 1]),
        helper.make_node("Resize", ["f", "", "s"], ["g"], mode="linear"),
        helper.make_node("ReduceMax", ["g"], ["m"], axes=[1, 2], keepdims=0),
        helper.make_node("Loop", ["n", "", "m"], ["last", "all"], body=body),
    ]
    constants = {
        "w": np.ones((2, 2, 3), np.float32),
        "s": np.float32([1, 1, 2]),
        "n": np.array(3),
    }
    return model_of(nodes, {"x": [1, 2, 5]}, ["last", "all"], constants)
