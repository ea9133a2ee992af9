"""Small ONNX models: a layer with its bias, a loop and many attributes, and layers as told."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import uncork
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


def told() -> Any:
    """A model that uncork has written: bags, steps of a sequence, and constants no node reads."""
    b = uncork.Builder("told")
    ids, starts = b.parameter("ids", "i64", [None]), b.parameter("starts", "i64", [None])
    table = b.constant(np.arange(12, dtype=np.float32).reshape(4, 3), name="table")
    (bags,) = b.add("EmbeddingBagOffsetsSum", 3, table, ids, starts, name="bag")
    (rows,) = b.add("Unsqueeze", 1, bags, b.constant(np.array([1])))
    weights = [b.constant(np.full(shape, 0.1, np.float32)) for shape in ((6, 3), (6, 2), (6,))]
    lifted = [b.add("Unsqueeze", 1, w, b.constant(np.array([0])))[0] for w in weights]
    (count,) = b.add("ShapeOf", 3, starts)
    (state,) = b.add(
        "Broadcast",
        3,
        b.constant(np.float32(0)),
        b.add("Concat", 1, count, b.constant(np.array([1, 2])), axis=0)[0],
        mode="numpy",
    )
    (lengths,) = b.add("Broadcast", 3, b.constant(np.array(1)), count, mode="numpy")
    steps, _ = b.add("GRUSequence", 5, rows, state, lengths, *lifted, hidden_size=2)
    (turned,) = b.add("Transpose", 1, steps, b.constant(np.array([0, 2, 1, 3])))
    b.result(turned, "steps")
    return uncork.to_onnx(b.model())
