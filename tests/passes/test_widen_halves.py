"""Layers of f16 and bf16 by kernels of f32: every layer's result is rounded as before, whatever
stands around it.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.ir.build import Builder
from uncork.ir.model import Source
from uncork.kernels.runtime.target import LEVELS, lacking
from uncork.passes.widen_halves import widen_halves
from uncork.storage import encode
from uncork.types import ElementType, PartialShape

#: The half types with the relative distance of two neighbours.
HALVES = {"f16": 2.0**-10, "bf16": 2.0**-7}
PARAMETERS = pytest.mark.parametrize("half", HALVES)


class Network:
    """A network of halves between f32 inputs and results."""

    def __init__(self, half: str) -> None:
        self.half, self.builder = half, Builder("halves")
        self.generator = np.random.default_rng(3)
        self.results = 0

    def input(self, name: str, shape: list[int | None]) -> Source:
        return self.add("Convert", 1, self.builder.parameter(name, "f32", shape), to=self.half)

    def weights(self, *shape: int, scale: float = 0.3) -> Source:
        value = (self.generator.standard_normal(shape) * scale).astype(np.float32)
        element_type = ElementType.parse(self.half)
        return self.builder.constant(encode(value, element_type), self.half)

    def add(self, name: str, opset: int, *inputs: Source, to: str = "", **attributes) -> Source:
        if to:
            attributes["destination_type"] = to
        return self.builder.add(name, opset, *inputs, **attributes)[0]

    def result(self, source: Source) -> None:
        """A result as f32."""
        self.builder.result(self.add("Convert", 1, source, to="f32"), f"y{self.results}")
        self.results += 1

    def check(self, *data: np.ndarray, references: tuple[str, ...] = ()) -> None:
        """Kernels compute everything, and give what the references give but for the last place."""
        model = self.builder.model()
        fast, slow = (uncork.compile_model(model, backend=b) for b in ("cpu", "reference"))
        got, wanted = fast(*data), slow(*data)
        steps = [s.operation.partition("-")[0] for s in fast.plan.steps if s.kernel == "reference"]
        assert tuple(steps) == references
        for number in range(self.results):
            a, b = np.asarray(got[number]), np.asarray(wanted[number])
            finite = np.isfinite(b)
            assert finite.any()
            np.testing.assert_array_equal(a[~finite], b[~finite])
            # What is summed in another order may be rounded to the neighbour.
            largest = float(np.abs(b[finite]).max())
            np.testing.assert_allclose(
                a[finite], b[finite], rtol=2 * HALVES[self.half], atol=HALVES[self.half] * largest
            )


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@PARAMETERS
def test_a_transformer_block(half: str) -> None:
    net = Network(half)
    x = net.input("x", [None, None, 16])
    axes = net.builder.constant(np.array([-1], np.int64))
    normed = net.add("MVN", 6, x, axes, eps=1e-5, normalize_variance=True, eps_mode="inside_sqrt")
    normed = net.add("Add", 1, net.add("Multiply", 1, normed, net.weights(16)), net.weights(16))
    queries, keys, values = (
        net.add("Add", 1, net.add("MatMul", 1, normed, net.weights(16, 16)), net.weights(1, 1, 16))
        for _ in range(3)
    )
    scores = net.add("MatMul", 1, queries, keys, transpose_b=True)
    shares = net.add("SoftMax", 8, net.add("Multiply", 1, scores, net.weights(1)), axis=-1)
    mixed = net.add("Add", 1, x, net.add("MatMul", 1, shares, values))
    hidden = net.add("Gelu", 7, net.add("MatMul", 1, mixed, net.weights(16, 32)))
    net.result(net.add("Add", 1, mixed, net.add("MatMul", 1, hidden, net.weights(32, 16))))
    net.check(normal(2, 5, 16))
    net.check(normal(1, 9, 16, seed=1))


@PARAMETERS
def test_convolutions(half: str) -> None:
    net = Network(half)
    x = net.input("x", [1, 8, 12, 12])
    ends = {n: [1, 1] for n in ("strides", "pads_begin", "pads_end", "dilations")}
    x = net.add("Convolution", 1, x, net.weights(16, 8, 3, 3), **ends)
    x = net.add("ReLU", 1, net.add("Add", 1, x, net.weights(1, 16, 1, 1)))
    pooled = net.builder.add(
        "MaxPool", 8, x, strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], kernel=[2, 2]
    )
    x = net.add("GroupConvolution", 1, pooled[0], net.weights(16, 1, 1, 3, 3), **ends)
    net.result(net.add("Concat", 1, x, pooled[0], axis=1))
    net.check(normal(1, 8, 12, 12))


@PARAMETERS
def test_recurrent_layers(half: str) -> None:
    net = Network(half)
    x = net.input("x", [2, 6, 5])
    lengths = net.builder.constant(np.array([6, 4], np.int64))
    state = net.builder.constant(
        encode(np.zeros((2, 1, 8), np.float32), ElementType.parse(half)), half
    )
    attributes = {"hidden_size": 8, "direction": "forward"}
    weights = net.weights(1, 24, 5), net.weights(1, 24, 8), net.weights(1, 24)
    made = net.builder.add("GRUSequence", 5, x, state, lengths, *weights, **attributes)
    net.result(made[0])
    net.result(made[1])
    weights = net.weights(1, 32, 5), net.weights(1, 32, 8), net.weights(1, 32)
    made = net.builder.add("LSTMSequence", 5, x, state, state, lengths, *weights, **attributes)
    net.result(made[0])
    net.check(normal(2, 6, 5))


@PARAMETERS
def test_attention_as_one_layer(half: str) -> None:
    net = Network(half)
    q, k, v = (net.input(name, [1, 2, None, 8]) for name in "qkv")
    net.result(net.add("ScaledDotProductAttention", 13, q, k, v, causal=True))
    net.check(*(normal(1, 2, 7, 8, seed=n) for n in range(3)))


@PARAMETERS
def test_what_is_read_in_both_types(half: str) -> None:
    """A product that other kernels of halves, a movement, and results read."""
    net = Network(half)
    x = net.input("x", [3, 8])
    product = net.add("MatMul", 1, x, net.weights(8, 8))
    net.result(product)
    net.result(net.add("Concat", 1, x, product, net.weights(3, 2), axis=1))
    like = net.add("ConvertLike", 1, net.builder.parameter("n", "i32", [3]), product)
    net.result(net.add("MatMul", 1, like, product))
    net.builder.result(product, "half")
    model = net.builder.model()
    compiled = uncork.compile_model(model)
    data, numbers = normal(3, 8), np.array([1, 70000, -3], np.int32)
    assert {s.operation for s in compiled.plan.steps if s.kernel == "reference"} <= {"Convert-1"}
    got, wanted = (compiled(data, numbers), uncork.compile_model(model, backend="reference"))
    own = wanted(data, numbers)
    assert model.output("half").element_type is ElementType.parse(half)
    a, b = (np.asarray(y["half"]).astype(np.float32) for y in (got, own))
    np.testing.assert_allclose(a, b, rtol=2 * HALVES[half], atol=1e-3)
    np.testing.assert_array_equal(got[0], a)  # both are the same rounded numbers
    np.testing.assert_array_equal(np.asarray(got[1])[:, 8:16], a)


def test_a_sum_beyond_f16_is_infinite() -> None:
    net = Network("f16")
    x = net.input("x", [2, 4])
    ones = net.builder.constant(np.full((4, 4), 200, np.float16), "f16")
    product = net.add("MatMul", 1, x, ones)
    net.result(net.add("Multiply", 1, product, net.weights(1)))
    net.check(np.array([[1, 2, 3, 4], [100, 100, 100, 100]], np.float32))


def test_each_layer_rounds() -> None:
    """By hand: 2048 + 1 is 2048 in f16, so a bias of 1 that is added twice is lost twice."""
    builder = Builder("rounding")
    x = builder.parameter("x", "f16", [1, 2])
    weights = builder.constant(np.array([[1024.0], [1024.0]], np.float16), "f16")
    one = builder.constant(np.ones((1, 1), np.float16), "f16")
    (product,) = builder.add("MatMul", 1, x, weights)
    for _ in range(2):
        (product,) = builder.add("Add", 1, product, one)
    builder.result(product, "y")
    compiled = uncork.compile_model(builder.model())
    assert len(compiled.plan.steps) <= 3
    assert compiled(np.ones((1, 2), np.float16))["y"].tolist() == [[2048.0]]


def test_models_without_such_layers_stay() -> None:
    net = Network("f16")
    x = net.input("x", [3, 8])
    net.result(net.add("SoftMax", 8, net.add("Add", 1, x, net.weights(8)), axis=1))
    model = net.builder.model()
    assert widen_halves(model) is model
    single = Builder("f32")
    a = single.parameter("a", "f32", [2, 2])
    single.result(single.add("MatMul", 1, a, a)[0], "y")
    model = single.model()
    assert widen_halves(model) is model


@pytest.mark.skipif(bool(lacking(LEVELS["x86-64-v2"])), reason="of another machine")
def test_processors_without_conversions_of_halves_leave_nothing_to_references() -> None:
    net = Network("f16")
    product = net.add("MatMul", 1, net.input("x", [3, 8]), net.weights(8, 8))
    sigmoid = net.add("Sigmoid", 1, net.add("Add", 1, product, net.weights(8)))
    net.result(net.add("SoftMax", 8, sigmoid, axis=1))
    model = net.builder.model()
    compiled = uncork.compile_model(model, target="x86-64-v2")
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    (result,) = compiled(x).values()
    assert not [step.reason for step in compiled.plan.steps if step.kernel == "reference"]
    (expected,) = uncork.compile_model(model, backend="reference")(x).values()
    np.testing.assert_allclose(result, expected, atol=1e-3)


@PARAMETERS
def test_a_variable_and_a_body_keep_their_type(half: str) -> None:
    net = Network(half)
    x = net.input("x", [2, 4])
    read = net.add(
        "ReadValue", 6, net.weights(2, 4), variable_id="v", variable_type=half,
        variable_shape=PartialShape((2, 4)),
    )  # fmt: skip
    product = net.add("MatMul", 1, net.add("Add", 1, x, read), net.weights(4, 4))
    net.add("Assign", 6, product, variable_id="v")
    net.result(product)
    model = net.builder.model()
    fast, slow = (uncork.compile_model(model, backend=b) for b in ("cpu", "reference"))
    for seed in range(3):
        data = normal(2, 4, seed=seed)
        np.testing.assert_allclose(fast(data)[0], slow(data)[0], atol=4 * HALVES[half])
