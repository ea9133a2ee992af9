"""QuantizeLinear and DequantizeLinear around layers: one rounding to levels, and products on codes.
Expected values are onnxruntime's, as the nodes stand there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork
from uncork.passes.codes_and_back import codes_and_back
from uncork.types import Array

onnx = pytest.importorskip("onnx")

STEP, WEIGHT_STEP, OUT_STEP = np.float32(0.05), np.float32(0.01), np.float32(0.02)


def network(kind: str, zero: int, back: float = float(STEP), *, shift: int = 0) -> bytes:
    """Codes of x, their numbers by the step `back`, and a convolution of those with ReLU, whose
    results are made codes and numbers, too.
    """
    helper, types = onnx.helper, onnx.TensorProto
    code = np.dtype(kind)
    rng = np.random.default_rng(5)
    constants = {
        "step": STEP,
        "back": np.float32(back),
        "zero": code.type(zero),
        "zero back": code.type(zero + shift),
        "weights": rng.integers(-127, 128, (8, 4, 3, 3)).astype(np.int8),
        "weight step": WEIGHT_STEP * np.arange(1, 9, dtype=np.float32),
        "weight zero": np.zeros(8, np.int8),
        "out step": OUT_STEP,
        "out zero": code.type(3),
    }
    nodes = [
        ("QuantizeLinear", ["x", "step", "zero"], "codes", {}),
        ("DequantizeLinear", ["codes", "back", "zero back"], "numbers", {}),
        ("DequantizeLinear", ["weights", "weight step", "weight zero"], "filters", {"axis": 0}),
        ("Conv", ["numbers", "filters"], "sums", {"pads": [1, 1, 1, 1]}),
        ("Relu", ["sums"], "positive", {}),
        ("QuantizeLinear", ["positive", "out step", "out zero"], "codes out", {}),
        ("DequantizeLinear", ["codes out", "out step", "out zero"], "y", {}),
    ]
    graph = helper.make_graph(
        [helper.make_node(kind_, given, [made], **more) for kind_, given, made, more in nodes],
        "quantized",
        [helper.make_tensor_value_info("x", types.FLOAT, ["n", 4, 9, 9])],
        [helper.make_tensor_value_info("y", types.FLOAT, ["n", 8, 9, 9])],
        [onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def by_onnxruntime(model: bytes, x: Array) -> Array:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def names_of(model: uncork.Model) -> list[str]:
    return [node.type_name for node in model.nodes]


@pytest.mark.oracle
@pytest.mark.parametrize(("kind", "zero"), [("u1", 0), ("u1", 131), ("i1", 0), ("i1", -7)])
def test_a_convolution_between_codes(kind: str, zero: int) -> None:
    """Results are levels, and those of onnxruntime but for a few at the border of two."""
    pytest.importorskip("llvmlite")
    model = network(kind, zero)
    compiled = uncork.load(model)
    assert any(step.kernel.startswith("dots") for step in compiled.plan.steps)
    for batch in (2, 1):
        x = np.random.default_rng(batch).standard_normal((batch, 4, 9, 9)).astype(np.float32) * 4
        made, expected = compiled(x)[0], by_onnxruntime(model, x)
        apart = np.abs(made - expected) / OUT_STEP
        assert apart.max() < 1.01
        assert (apart > 0.01).mean() < 0.01


@pytest.mark.oracle
def test_numbers_beyond_the_codes() -> None:
    """Those of the last code, on both sides."""
    model = network("u1", 131)
    x = np.linspace(-40, 40, 4 * 81, dtype=np.float32).reshape(1, 4, 9, 9)
    made, expected = uncork.load(model)(x)[0], by_onnxruntime(model, x)
    assert np.abs(made - expected).max() < 1.01 * OUT_STEP


def test_both_pairs_are_one_layer_each() -> None:
    rewritten = names_of(codes_and_back(uncork.read_model(network("u1", 131))))
    assert rewritten.count("FakeQuantize") == 2
    assert "Round" not in rewritten


@pytest.mark.parametrize(
    "other", [{"back": 0.06}, {"shift": 1}], ids=["another step", "another zero"]
)
def test_other_numbers_than_were_rounded(other: dict[str, Any]) -> None:
    """What is read by another step than it was written is no rounding to levels of its own."""
    rewritten = names_of(codes_and_back(uncork.read_model(network("u1", 131, **other))))
    assert rewritten.count("FakeQuantize") == 1
    assert rewritten.count("Round") == 1
