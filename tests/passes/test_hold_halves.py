"""`precision="bf16"`: tensors between products are held as bf16."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compiled_model import compile_for
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source as Tensor
from uncork.kernels.runtime.target import LEVELS, Target, host_target
from uncork.kernels.stored_types import multiplies_pairs
from uncork.ops._body import BodyInput, BodyMap, BodyOutput, SlicedInput, Slicing

SIZE, HEADS = 64, 4
needs_pairs = pytest.mark.skipif(
    not multiplies_pairs(host_target()), reason="the processor has no products of bf16"
)


class Net:
    """A model that is built, and NumPy's f64 of the same."""

    def __init__(self) -> None:
        self.builder = uncork.Builder("net")
        self.random = np.random.default_rng(5)

    def weights(self, *shape: int) -> Tensor:
        value = self.random.standard_normal(shape).astype(np.float32) / np.sqrt(shape[0])
        return self.builder.constant(value.astype(np.float32))

    def add(self, kind: str, opset: int, *inputs: Tensor, **attributes: object) -> Tensor:
        return self.builder.add(kind, opset, *inputs, **attributes)[0]

    def linear(self, x: Tensor, inner: int, columns: int, name: str) -> Tensor:
        product = self.builder.add("MatMul", 1, x, self.weights(inner, columns), name=name)[0]
        return self.add("Add", 1, product, self.weights(columns))

    def split(self, x: Tensor) -> Tensor:
        shape = self.builder.constant(np.array([0, 0, HEADS, SIZE // HEADS]))
        heads = self.add("Reshape", 1, x, shape, special_zero=True)
        return self.add("Transpose", 1, heads, self.builder.constant(np.array([0, 2, 1, 3])))

    def norm(self, x: Tensor) -> Tensor:
        axes = self.builder.constant(np.array([-1]))
        normal = self.add(
            "MVN", 6, x, axes, normalize_variance=True, eps=1e-5, eps_mode="inside_sqrt"
        )
        return self.add("Multiply", 1, normal, self.weights(SIZE))

    def block(self, x: Tensor) -> Tensor:
        """A block of a transformer, norms first."""
        normal = self.norm(x)
        q, k, v = (self.split(self.linear(normal, SIZE, SIZE, name)) for name in "qkv")
        seen = self.add("ScaledDotProductAttention", 13, q, k, v, causal=False)
        turned = self.add("Transpose", 1, seen, self.builder.constant(np.array([0, 2, 1, 3])))
        joined = self.builder.constant(np.array([0, 0, SIZE]))
        flat = self.add("Reshape", 1, turned, joined, special_zero=True)
        x = self.add("Add", 1, x, self.linear(flat, SIZE, SIZE, "projection"))
        wide = self.linear(self.norm(x), SIZE, 4 * SIZE, "wide")
        gelu = self.add("Gelu", 7, wide, approximation_mode="ERF")
        return self.add("Add", 1, x, self.linear(gelu, 4 * SIZE, SIZE, "narrow"))


def transformer(blocks: int = 2) -> uncork.Model:
    net = Net()
    x = net.builder.parameter("x", "f32", [None, None, SIZE])
    for _ in range(blocks):
        x = net.block(x)
    net.builder.result(net.linear(net.norm(x), SIZE, 3, "last"), "y")
    return net.builder.model()


def outputs(compiled: uncork.CompiledModel) -> list[tuple[str, str]]:
    return [(step.operation, str(step.outputs)) for step in compiled.plan.steps]


@needs_pairs
def test_a_transformer() -> None:
    model = transformer()
    x = np.random.default_rng(1).standard_normal((2, 30, SIZE)).astype(np.float32)
    expected = uncork.compile_model(model, backend="reference")(x)["y"]
    for threads in (1, 2):
        compiled = uncork.compile_model(model, precision="bf16", threads=threads)
        for part in (x, x[:1, :7], x[:, :1]):
            whole = expected if part is x else uncork.compile_model(model)(part)["y"]
            error = compiled(part)["y"] - whole
            rms = np.sqrt(np.mean(error**2) / np.mean(whole**2))
            assert 1e-5 < rms < 1e-2
    held = [kind for kind, _ in outputs(compiled) if kind.startswith("Held")]
    # The last product has three columns: it is not worth its conversion.
    assert held.count("HeldProduct-0") == 12
    assert held.count("HeldAttention-0") == 2


@needs_pairs
def test_what_errors_hang_on_stays_f32() -> None:
    """Residual sums are f32; what products and attention read is bf16, in the order of a block."""
    compiled = uncork.compile_model(transformer(blocks=1), precision="bf16", threads=1)
    compiled(np.ones((1, 5, SIZE), np.float32))
    held = [kind.split("[")[0] for name, kind in outputs(compiled) if name.startswith("Held")]
    # query, key, value, attention, projection with the sum, wide with its Gelu, narrow and sum
    assert held == ["bf16", "bf16", "bf16", "bf16", "f32", "bf16", "f32"]


@needs_pairs
def test_f32_is_the_default() -> None:
    compiled = uncork.compile_model(transformer())
    compiled(np.ones((1, 5, SIZE), np.float32))
    assert not [kind for kind, _ in outputs(compiled) if kind.startswith("Held")]


@needs_pairs
def test_a_processor_without_products_of_bf16_stays_f32() -> None:
    older = Target.of("x86_64", "x86-64-v4", "+avx512f,+avx512bw,+avx512dq,+avx512vl")
    compiled = compile_for(transformer(), older, 1, "bf16")
    plan = compiled.plan_for(x=[1, 5, SIZE])
    assert "Held" not in str(plan.steps)
    assert "bf16" not in str(plan.steps)
    assert "precision: f32" in str(plan)


@needs_pairs
def test_a_product_that_two_results_read_is_f32() -> None:
    net = Net()
    x = net.builder.parameter("x", "f32", [None, SIZE])
    middle = net.linear(x, SIZE, SIZE, "middle")
    net.builder.result(middle, "middle_out")
    net.builder.result(net.linear(middle, SIZE, SIZE, "end"), "end_out")
    model = net.builder.model()
    x_value = np.random.default_rng(2).standard_normal((9, SIZE)).astype(np.float32)
    exact = uncork.compile_model(model)(x_value)
    found = uncork.compile_model(model, precision="bf16")(x_value)
    for name in ("middle_out", "end_out"):
        assert found[name].dtype == np.float32
        # f32 sums of rounded factors, not rounded again: few of them are numbers of bf16
        assert ((found[name].view(np.uint32) & 0xFFFF) != 0).mean() > 0.9
        assert np.allclose(found[name], exact[name], atol=3e-2)


def convolutional(channels: int = 32) -> uncork.Model:
    """A residual network: direct and Winograd's convolutions, single channels, pools, a gate of
    channels, a classifier.
    """
    net = Net()
    around = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}

    def conv(x: Tensor, inner: int, outer: int, taps: int, **given: object) -> Tensor:
        pads = {"pads_begin": (taps // 2,) * 2, "pads_end": (taps // 2,) * 2}
        filters = net.random.standard_normal((outer, inner, taps, taps)) / np.sqrt(inner * taps**2)
        weights = net.builder.constant(filters.astype(np.float32))
        y = net.add("Convolution", 1, x, weights, **{**around, **pads, **given})
        return net.add("ReLU", 1, net.add("Add", 1, y, net.weights(1, outer, 1, 1)))

    def apart(x: Tensor) -> Tensor:
        filters = net.random.standard_normal((channels, 1, 1, 3, 3)).astype(np.float32) / 3
        return net.add("GroupConvolution", 1, x, net.builder.constant(filters), **around)

    x = net.builder.parameter("x", "f32", [None, 3, None, None])
    x = conv(x, 3, channels, 3)
    pool = {"kernel": (3, 3), **around, "rounding_type": "floor", "auto_pad": "explicit"}
    x = net.builder.add("MaxPool", 1, x, **{k: v for k, v in pool.items() if k != "dilations"})[0]
    for _ in range(2):
        y = conv(conv(x, channels, channels, 1), channels, channels, 3)
        y = apart(y)
        axes = net.builder.constant(np.array([2, 3]))
        gate = net.add("Sigmoid", 1, net.add("ReduceMean", 1, y, axes, keep_dims=True))
        x = net.add("Add", 1, x, net.add("Multiply", 1, y, gate))
    x = net.add("Concat", 1, x, conv(x, channels, channels, 3, strides=(1, 1)), axis=1)
    net.builder.result(x, "features")
    mean = net.add("ReduceMean", 1, x, net.builder.constant(np.array([2, 3])), keep_dims=False)
    net.builder.result(net.linear(mean, 2 * channels, 64, "classes"), "y")
    return net.builder.model()


@needs_pairs
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("channels", [32, 24, 18])
def test_convolutions(threads: int, channels: int) -> None:
    """Blocks of 16 and of 8 channels, and no blocks."""
    model = convolutional(channels)
    plain = uncork.compile_model(model)
    compiled = uncork.compile_model(model, precision="bf16", threads=threads)
    for shape in ((1, 3, 30, 34), (2, 3, 17, 14), (1, 3, 5, 9)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        expected, found = plain(x), compiled(x)
        for name in ("features", "y"):
            error = found[name] - expected[name]
            assert found[name].dtype == np.float32
            assert np.sqrt(np.mean(error**2) / np.mean(expected[name] ** 2)) < 2e-2
    held = [kind for name, kind in outputs(compiled) if name.startswith("Blocked")]
    assert all("bf16" in kind for kind in held)
    assert bool(held) == (channels % 8 == 0)


def upsampling(channels: int = 32) -> uncork.Model:
    """A first layer of one channel, down and up again by transposed convolutions."""
    net = Net()
    around = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}

    def filters(*shape: int) -> Tensor:
        value = net.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return net.builder.constant(value.astype(np.float32))

    x = net.builder.parameter("x", "f32", [None, 1, None, None])
    x = net.add("Convolution", 1, x, filters(channels, 1, 3, 3), **around)
    x = net.add("ReLU", 1, x)
    down = net.add(
        "Convolution", 1, x, filters(2 * channels, channels, 3, 3), **{**around, "strides": (2, 2)}
    )
    up = {"strides": (2, 2), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}
    x = net.add("ConvolutionBackpropData", 1, down, filters(2 * channels, channels, 4, 4), **up)
    x = net.add("Tanh", 1, net.add("Add", 1, x, net.weights(1, channels, 1, 1)))
    net.builder.result(
        net.add("Convolution", 1, x, filters(channels, channels, 3, 3), **around), "y"
    )
    return net.builder.model()


def test_first_and_transposed_convolutions_are_of_blocks() -> None:
    """Those of bf16 read blocks of 4 and of 2 channels; in f32 first convolutions read planes."""
    for model, few in ((convolutional(), ",4]"), (upsampling(), ",2]")):
        half = compile_for(model, LEVELS["x86-64-v4-bf16"], 1, "bf16")
        steps = outputs(half)
        turned = [shape for name, shape in steps if name.startswith("ToBlocks")]
        assert [shape.endswith(few) for shape in turned] == [True]
        assert not [name for name, _ in steps if "Convolution" in name and "Blocked" not in name]
        assert all("bf16" in shape for name, shape in steps if name.startswith("BlockedConv"))
        single = compile_for(model, LEVELS["x86-64-v4-bf16"], 1, "f32")
        assert not [shape for _, shape in outputs(single) if shape.endswith(few)]


@needs_pairs
@pytest.mark.parametrize("threads", [1, 2])
def test_transposed_convolutions(threads: int) -> None:
    model = upsampling()
    plain = uncork.compile_model(model)
    compiled = uncork.compile_model(model, precision="bf16", threads=threads)
    for shape in ((1, 1, 16, 18), (2, 1, 10, 28)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        expected, found = plain(x)["y"], compiled(x)["y"]
        error = found - expected
        assert 1e-5 < np.sqrt(np.mean(error**2) / np.mean(expected**2)) < 1e-2


@pytest.mark.parametrize(
    ("channels", "blocks"), [(32, {32}), (64, {32}), (48, {16}), (24, {8}), (18, set())]
)
def test_blocks_fill_rows_of_tiles(channels: int, blocks: set[int]) -> None:
    """A Concat of twice 48 channels cannot hand on blocks of 32, though these divide its result.
    Blocks of f32 are as long as vectors.
    """

    def found(precision: str) -> set[int]:
        compiled = compile_for(convolutional(channels), LEVELS["x86-64-v4-amx"], 1, precision)
        shapes = [kind for name, kind in outputs(compiled) if name.startswith("Blocked")]
        return {int(kind.rsplit(",", 1)[1].rstrip("]")) for kind in shapes}

    assert found("bf16") == blocks
    assert found("f32") <= {16, 8}


def two_products(wide: np.ndarray, narrow: np.ndarray) -> uncork.Model:
    """x + state through two products, as a body: `wide`, tanh, `narrow`."""
    body = uncork.Builder()
    x, state = (body.parameter(name, "f32", [8, SIZE]) for name in ("x", "state"))
    (given,) = body.add("Add", 1, x, state)
    (spread,) = body.add("MatMul", 1, given, body.constant(wide))
    (bent,) = body.add("Tanh", 1, spread)
    (result,) = body.add("MatMul", 1, bent, body.constant(narrow))
    body.result(result, "next")
    return body.model()


@needs_pairs
def test_products_in_bodies() -> None:
    """Five turns of a TensorIterator, each over eight rows, beside the same in f64."""
    net = np.random.default_rng(3)
    wide = (net.standard_normal((SIZE, 4 * SIZE)) / SIZE**0.5).astype(np.float32)
    narrow = (net.standard_normal((4 * SIZE, SIZE)) / (4 * SIZE) ** 0.5).astype(np.float32)
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [40, SIZE])
    start = builder.constant(np.zeros((8, SIZE), np.float32))
    rows = Slicing(axis=0, part_size=8, stride=8)
    joined = BodyMap(
        GraphBody(two_products(wide, narrow)),
        (SlicedInput(0, 0, rows), BodyInput(1, 1)),
        (BodyOutput(0, 0),),
        ((0, 1),),
    )
    (last,) = builder.add_with_bodies("TensorIterator", 1, x, start, bodies={"body": joined})
    builder.result(last, "y")
    given = net.standard_normal((40, SIZE)).astype(np.float32)
    expected = np.zeros((8, SIZE))
    for part in given.astype(np.float64).reshape(5, 8, SIZE):
        expected = np.tanh((part + expected) @ wide) @ narrow
    compiled = uncork.compile_model(builder.model(), precision="bf16")
    error = compiled(given)["y"] - expected
    assert 1e-5 < np.sqrt(np.mean(error**2) / np.mean(expected**2)) < 1e-2
    assert [kind for kind, _ in outputs(compiled)].count("HeldProduct-0") == 2


def filters(net: np.random.Generator, *shape: int) -> np.ndarray:
    return (net.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)


def branched() -> uncork.Model:
    """A sum of two convolutions of one tensor, behind one and before another."""
    net, builder = np.random.default_rng(4), uncork.Builder()
    same: dict[str, Any] = {"strides": [1, 1], "dilations": [1, 1]}
    one = {**same, "pads_begin": [1, 1], "pads_end": [1, 1]}
    none = {**same, "pads_begin": [0, 0], "pads_end": [0, 0]}

    def convolved(x: Tensor, size: int, how: dict[str, Any]) -> Tensor:
        return builder.add(
            "Convolution", 1, x, builder.constant(filters(net, 32, 32, size, size)), **how
        )[0]

    x = convolved(builder.parameter("x", "f32", [1, 32, 14, 14]), 3, one)
    x = builder.add("Add", 1, convolved(x, 3, one), convolved(x, 1, none))[0]
    builder.result(convolved(builder.add("ReLU", 1, x)[0], 3, one), "y")
    return builder.model()


def test_layers_that_passes_make_are_rounded() -> None:
    steps = outputs(compile_for(branched(), LEVELS["x86-64-v4-bf16"], 1, "bf16"))
    convolutions = [kind for name, kind in steps if "Convolution" in name]
    assert len(convolutions) == 3
    assert [kind.split("[")[0] for kind in convolutions] == ["bf16", "bf16", "bf16"]


def test_windows_that_bf16_alone_brings_over_blocks() -> None:
    """Three windows over words, as TextCNN has: channels fill no blocks, and f32 gains nothing."""
    net, builder = np.random.default_rng(6), uncork.Builder()
    x = builder.parameter("x", "f32", [8, 128, 64])
    for size in (3, 4, 5):
        (made,) = builder.add(
            "Convolution", 1, x, builder.constant(filters(net, 100, 128, size)),
            strides=[1], dilations=[1], pads_begin=[0], pads_end=[0],
        )  # fmt: skip
        axes = builder.constant(np.array([2], np.int64))
        (made,) = builder.add("ReduceMax", 1, builder.add("ReLU", 1, made)[0], axes)
        builder.result(made)

    def ways(precision: Literal["f32", "bf16"]) -> set[str]:
        compiled = compile_for(builder.model(), LEVELS["x86-64-v4-bf16"], 1, precision)
        return {name for name, _ in outputs(compiled) if "Convolution" in name}

    assert ways("f32") == {"FusedConvolution-0"}
    assert ways("bf16") == {"BlockedConvolution-0"}
