"""Layers between FakeQuantize layers in models: which are on codes, which come near, results."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.internal_ops.quantized import QuantizedConstant
from uncork.ir.model import Model, Source
from uncork.kernels.runtime import processor
from uncork.passes import pipeline

GENERATOR = np.random.default_rng(5)
_START = GENERATOR.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Whatever ran before: a number that lies at the border of two levels by chance changes
    results.
    """
    GENERATOR.bit_generator.state = _START


def rounded(
    b: uncork.Builder, x: Source, low: float, high: float, levels: int = 256, **more: object
) -> Source:
    limits = [b.constant(np.float32(limit).reshape(1, 1, 1, 1)) for limit in (low, high)]
    return b.add("FakeQuantize", 1, x, *limits, *limits, levels=levels, **more)[0]


def weights(b: uncork.Builder, *shape: int, how: str = "i8") -> Source:
    """Weights as NNCF (small numbers that are scaled) and POT (FakeQuantize) write them, and as
    neither does.
    """
    codes = GENERATOR.integers(-127, 128, shape)
    scales = (
        GENERATOR.uniform(0.5, 1, (shape[0], *[1] * (len(shape) - 1)))
        / 73
        / np.sqrt(np.prod(shape[1:]))
    ).astype(np.float32)
    if how == "rows of inner channels":
        scales = np.broadcast_to(
            scales[:1], (1, shape[1], *[1] * (len(shape) - 2))
        ) * GENERATOR.uniform(0.5, 1, (1, shape[1], 1, 1))
        how, scales = "i8", scales.astype(np.float32)
    if how == "FakeQuantize":
        limits = [b.constant(scales * np.float32(side)) for side in (-127, 127)]
        return b.add(
            "FakeQuantize",
            1,
            b.constant((codes * scales).astype(np.float32)),
            *limits,
            *limits,
            levels=255,
        )[0]
    if how == "f32":
        return b.constant(GENERATOR.standard_normal(shape).astype(np.float32) / 20)
    points = np.full([1] * len(shape), 128, np.uint8)
    stored = (
        b.constant(codes.astype(np.int8))
        if how == "i8"
        else b.constant((codes + 128).astype(np.uint8))
    )
    (whole,) = b.add("Convert", 1, stored, destination_type="f32")
    if how == "u8":
        (zero,) = b.add("Convert", 1, b.constant(points), destination_type="f32")
        (whole,) = b.add("Subtract", 1, whole, zero)
    return b.add("Multiply", 1, whole, b.constant(scales))[0]


def convolved(
    b: uncork.Builder,
    x: Source,
    channels: int,
    outputs: int,
    taps: int = 3,
    relu: bool = True,
    **more: object,
) -> Source:
    around = {
        "strides": [1, 1],
        "dilations": [1, 1],
        "pads_begin": [taps // 2] * 2,
        "pads_end": [taps // 2] * 2,
    }
    (y,) = b.add("Convolution", 1, x, weights(b, outputs, channels, taps, taps, **more), **around)
    (y,) = b.add(
        "Add",
        1,
        y,
        b.constant(GENERATOR.standard_normal((1, outputs, 1, 1)).astype(np.float32) / 4),
    )
    return b.add("ReLU", 1, y)[0] if relu else y


def residual(
    sizes: Sequence[int | None] = (1, 16, 12, 13), how: str = "i8", apart: bool = False
) -> Model:
    """Blocks of two convolutions and a sum; `apart`: a FakeQuantize for each reader."""
    b = uncork.Builder("residual")
    x = b.parameter("x", "f32", sizes)
    for _ in range(2):
        first = rounded(b, x, 0, 4)
        y = rounded(b, convolved(b, first, 16, 16, how=how), 0, 2)
        y = rounded(b, convolved(b, y, 16, 16, relu=False, how=how), -2, 2 * 127 / 128)
        (y,) = b.add("Add", 1, y, rounded(b, x, 0, 4) if apart else first)
        (x,) = b.add("ReLU", 1, y)
    b.result(x, "y")
    return b.model()


def operations(model: Model, **options: object) -> list[str]:
    steps = compile_model(model, threads=1, **options).plan.steps
    return [step.operation.partition("-")[0] for step in steps]


def agree(model: Model, *arrays: np.ndarray, level: float, **options: object) -> None:
    """Results are those of the reference, but for a level of few numbers and what layers after it
    make of that.
    """
    fast, slow = (
        compile_model(model, threads=1, **options),
        compile_model(model, backend="reference"),
    )
    for got, wanted in zip(fast(*arrays), slow(*arrays), strict=True):
        differences = np.abs(got - wanted)
        assert differences.max() <= 2 * level
        assert (differences > 1e-5 * np.abs(wanted).max()).mean() < 0.01


def image(*sizes: int) -> np.ndarray:
    return np.abs(GENERATOR.standard_normal(sizes) * 2).astype(np.float32)


@pytest.mark.parametrize("how", ["i8", "u8", "FakeQuantize"])
def test_codes_pass_from_layer_to_layer(how: str) -> None:
    model = residual(how=how)
    assert operations(model) == ["Reheld", *["QuantizedProduct"] * 4, "Reheld"]
    agree(model, image(1, 16, 12, 13), level=2 / 128)


def test_one_rounding_for_each_reader() -> None:
    model = residual(apart=True)
    assert operations(model).count("QuantizedProduct") == 4
    agree(model, image(1, 16, 12, 13), level=2 / 128)


def test_sizes_of_the_call() -> None:
    """One plan for all of them."""
    model = residual([None, 16, None, None])
    fast, slow = compile_model(model, threads=1), compile_model(model, backend="reference")
    for sizes in ((1, 16, 12, 13), (3, 16, 1, 1), (2, 16, 30, 5), (1, 16, 12, 13)):
        x = image(*sizes)
        assert np.abs(fast(x)[0] - slow(x)[0]).max() <= 2 / 64
    assert {step.operation.partition("-")[0] for step in fast.plan.steps} == {
        "Reheld",
        "QuantizedProduct",
    }


def linear(how: str = "i8", transposed: bool = True, rows: int | None = None) -> Model:
    b = uncork.Builder("linear")
    x = b.parameter("x", "f32", [None, rows, 48])
    for _ in range(2):
        limits = [b.constant(np.float32(limit)) for limit in (-3, 3 * 127 / 128)]
        (codes,) = b.add("FakeQuantize", 1, x, *limits, *limits, levels=256)
        if transposed:
            matrix = weights(b, 48, 48, how=how)
        else:
            (whole,) = b.add(
                "Convert",
                1,
                b.constant(GENERATOR.integers(-127, 128, (48, 48)).astype(np.int8)),
                destination_type="f32",
            )
            (matrix,) = b.add(
                "Multiply",
                1,
                whole,
                b.constant((GENERATOR.uniform(0.5, 1, (1, 48)) / 500).astype(np.float32)),
            )
        (y,) = b.add("MatMul", 1, codes, matrix, transpose_b=transposed)
        (y,) = b.add(
            "Add", 1, y, b.constant(GENERATOR.standard_normal((1, 1, 48)).astype(np.float32) / 4)
        )
        (x,) = b.add("Gelu", 7, y)
    b.result(x, "y")
    return b.model()


@pytest.mark.parametrize("how", ["i8", "u8", "FakeQuantize", "columns"])
def test_products(how: str) -> None:
    model = linear("i8", False) if how == "columns" else linear(how)
    compiled = compile_model(model, threads=1)
    compiled(np.zeros((1, 1, 48), np.float32))
    assert [step.operation for step in compiled.plan.steps] == [
        "Reheld-0",
        "QuantizedProduct-0",
        "QuantizedProduct-0",
    ]
    for sizes in ((2, 7, 48), (1, 1, 48), (3, 40, 48)):
        agree(model, GENERATOR.standard_normal(sizes).astype(np.float32), level=6 / 255)


def apart(b: uncork.Builder, x: Source, channels: int, stride: int = 1) -> Source:
    """A convolution of each channel for itself, as converters write it: its filters are
    reshaped.
    """
    around = {
        "strides": [stride] * 2,
        "dilations": [1, 1],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
    }
    (filters,) = b.add(
        "Reshape",
        1,
        weights(b, channels, 1, 3, 3),
        b.constant(np.array([channels, 1, 1, 3, 3])),
        special_zero=False,
    )
    (y,) = b.add("GroupConvolution", 1, x, filters, **around)
    return b.add("Clamp", 1, y, min=0.0, max=6.0)[0]


def test_each_channel_for_itself() -> None:
    b = uncork.Builder("apart")
    x = rounded(b, b.parameter("x", "f32", [None, 16, None, None]), -4, 4 * 127 / 128)
    x = rounded(b, convolved(b, x, 16, 24, taps=1), 0, 2)
    x = rounded(b, apart(b, x, 24, 2), 0, 1)
    b.result(convolved(b, x, 24, 8, taps=1, relu=False), "y")
    model = b.model()
    compiled = compile_model(model, threads=1)
    compiled(np.zeros((1, 16, 5, 5), np.float32))
    assert [step.operation for step in compiled.plan.steps] == [
        "Reheld-0",
        *["QuantizedProduct-0"] * 3,
        "Reheld-0",
    ]
    for sizes in ((1, 16, 12, 13), (2, 16, 5, 40), (1, 16, 1, 1)):
        agree(model, image(*sizes), level=2 / 255)


def test_channels_that_fill_no_words_end_in_codes() -> None:
    """A depthwise convolution of such has a kernel for codes alone, whoever reads these."""
    b = uncork.Builder("last")
    x = rounded(b, b.parameter("x", "f32", [None, 17, 6, 7]), -4, 4 * 127 / 128)
    b.result(rounded(b, apart(b, x, 17), 0, 2), "y")
    model = b.model()
    assert operations(model) == ["Reheld", "QuantizedProduct", "Reheld"]
    compiled = compile_model(model, threads=1)
    compiled(image(1, 17, 6, 7))
    assert "reference" not in [step.kernel for step in compiled.plan.steps]
    agree(model, image(2, 17, 6, 7), level=2 / 255)


def rounded_each(b: uncork.Builder, x: Source, channels: int, low: float, high: float) -> Source:
    """As NNCF rounds what a depthwise convolution reads: each channel by limits of its own."""
    factors = np.linspace(0.5, 1, channels, dtype=np.float32).reshape(1, channels, 1, 1)
    limits = [b.constant(np.float32(limit) * factors) for limit in (low, high)]
    return b.add("FakeQuantize", 1, x, *limits, *limits, levels=256)[0]


def separable(sizes: Sequence[int | None]) -> Model:
    """Blocks of a depthwise convolution and one of single pixels, and a sum: xception's."""
    b = uncork.Builder("separable")
    x = b.parameter("x", "f32", sizes)
    x = convolved(b, rounded(b, x, 0, 4), 16, 24, taps=1, relu=False)
    for _ in range(2):
        (y,) = b.add("ReLU", 1, x)
        y = rounded(b, apart(b, rounded_each(b, y, 24, 0, 2), 24, 1), 0, 1)
        y = rounded_each(b, convolved(b, y, 24, 24, taps=1), 24, 0, 2)
        y = convolved(b, rounded(b, apart(b, y, 24, 1), 0, 1), 24, 24, taps=1, relu=False)
        (x,) = b.add("Add", 1, y, x)
    b.result(x, "y")
    return b.model()


def test_limits_of_each_channel_for_itself() -> None:
    model = separable([None, 16, None, None])
    compiled = compile_model(model, threads=1)
    compiled(np.zeros((1, 16, 5, 5), np.float32))
    done = [step.operation.partition("-")[0] for step in compiled.plan.steps]
    # Numbers become codes, what is added stays numbers beside the channels, and the result planes.
    assert done.count("QuantizedProduct") == 9 and done.count("Reheld") == 4, done
    assert len(done) == 13  # no ReLU of what is rounded by limits from 0 on
    for sizes in ((1, 16, 12, 13), (2, 16, 5, 40), (1, 16, 1, 1)):
        agree(model, image(*sizes), level=2 / 255)


def test_a_clamp_within_the_limits_stays() -> None:
    b = uncork.Builder("clamped")
    x = b.parameter("x", "f32", [1, 16, 12, 13])
    (x,) = b.add("Clamp", 1, x, min=-1.0, max=1.5)
    b.result(convolved(b, rounded(b, x, -2, 2 * 127 / 128), 16, 16), "y")
    model = b.model()
    assert operations(model).count("Clamp") == 1
    agree(model, image(1, 16, 12, 13), level=2 / 255)


@pytest.mark.parametrize("opset", [1, 8, 14])
def test_pooling_chooses_among_codes(opset: int) -> None:
    b = uncork.Builder("pooled")
    x = rounded(
        b,
        convolved(b, rounded(b, b.parameter("x", "f32", [2, 3, 21, 20]), -4, 4 * 127 / 128), 3, 16),
        0,
        2,
    )
    window = {
        "kernel": [3, 3],
        "strides": [2, 2],
        "pads_begin": [1, 1],
        "pads_end": [1, 0],
        "rounding_type": "ceil",
    }
    (x, *_) = b.add("MaxPool", opset, x, **window)
    b.result(convolved(b, x, 16, 8), "y")
    model = b.model()
    assert operations(model) == [
        "Reheld",
        "QuantizedProduct",
        "QuantizedPool",
        "QuantizedProduct",
        "Reheld",
    ]
    agree(model, GENERATOR.standard_normal((2, 3, 21, 20)).astype(np.float32), level=2 / 255)


@pytest.mark.parametrize("same", [True, False])
def test_codes_of_one_grid_are_brought_together(same: bool) -> None:
    """Of two grids numbers are."""
    b = uncork.Builder("together")
    x = rounded(b, b.parameter("x", "f32", [1, 16, 9, 9]), 0, 4)
    parts = [
        rounded(b, convolved(b, x, 16, outputs), 0, high)
        for outputs, high in ((8, 2), (12, 2 if same else 2.8284))
    ]
    (y,) = b.add("Concat", 1, *parts, axis=1)
    (z,) = b.add("Concat", 1, rounded(b, y, 0, 2), x, axis=1) if not same else (y,)
    b.result(convolved(b, rounded(b, z, 0, 2) if not same else z, 20 if same else 36, 8), "y")
    model = b.model()
    found = operations(model)
    assert found == (
        ["Reheld", "QuantizedProduct", "QuantizedProduct", "Concat", "QuantizedProduct", "Reheld"]
        if same
        else found
    )
    assert found.count("QuantizedProduct") == 3
    agree(model, image(1, 16, 9, 9), level=3 / 255)


def test_groups_of_several_channels() -> None:
    b = uncork.Builder("groups")
    x = rounded(b, b.parameter("x", "f32", [1, 16, 9, 9]), 0, 4)
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    (filters,) = b.add(
        "Reshape",
        1,
        weights(b, 8, 8, 3, 3),
        b.constant(np.array([2, 4, 8, 3, 3])),
        special_zero=False,
    )
    b.result(b.add("GroupConvolution", 1, x, filters, **around)[0], "y")
    model = b.model()
    assert operations(model).count("QuantizedProduct") == 1
    agree(model, image(1, 16, 9, 9), level=4 / 255)


def near(b: uncork.Builder, x: Source, why: str) -> Source:
    """A convolution that is not one of whole numbers, or that no kernel has."""
    if why == "no rounding":
        return convolved(b, x, 16, 16)
    if why == "too many levels":
        return convolved(b, rounded(b, x, 0, 4, levels=257), 16, 16)
    if why == "limits of each channel":
        limits = [
            b.constant(np.linspace(side, side + 1, 16, dtype=np.float32).reshape(1, 16, 1, 1))
            for side in (-2, 2)
        ]
        return convolved(b, b.add("FakeQuantize", 1, x, *limits, *limits, levels=256)[0], 16, 16)
    if why == "limits of the call":
        high = b.add("ReduceMax", 1, x, b.constant(np.array([0, 1, 2, 3])), keep_dims=True)[0]
        low = b.constant(np.zeros((1, 1, 1, 1), np.float32))
        return convolved(
            b, b.add("FakeQuantize", 1, x, low, high, low, high, levels=256)[0], 16, 16
        )
    if why == "limits the other way round":
        return convolved(b, rounded(b, x, 4, 0), 16, 16)
    if why == "no code for zero":
        return convolved(b, rounded(b, x, -1.003, 4), 16, 16)
    if why == "other layers between":
        return convolved(b, b.add("Sigmoid", 1, rounded(b, x, 0, 4))[0], 16, 16)
    return convolved(b, rounded(b, x, 0, 4), 16, 16, how=why)


@pytest.mark.parametrize(
    "why",
    [
        *[
            "no rounding",
            "too many levels",
            "limits of each channel",
            "limits of the call",
            "limits the other way round",
        ],
        *["no code for zero", "other layers between", "f32", "rows of inner channels"],
    ],
)
def test_what_comes_near_stays(why: str) -> None:
    b = uncork.Builder("near")
    b.result(near(b, b.parameter("x", "f32", [1, 16, 12, 13]), why), "y")
    model = b.model()
    assert "QuantizedProduct" not in operations(model)
    agree(model, image(1, 16, 12, 13), level=4 / 255)


def test_limits_of_the_result_may_be_others() -> None:
    """They are part of the scale."""
    b = uncork.Builder("scaled")
    limits = [b.constant(np.float32(limit)) for limit in (0, 4, -1, 1.5)]
    (x,) = b.add("FakeQuantize", 1, b.parameter("x", "f32", [1, 16, 9, 9]), *limits, levels=256)
    b.result(convolved(b, x, 16, 8), "y")
    model = b.model()
    assert "QuantizedProduct" in operations(model)
    agree(model, image(1, 16, 9, 9), level=2.5 / 255)


def test_exact_fake_quantize_keeps_f32() -> None:
    model = residual()
    assert "QuantizedProduct" not in operations(model, exact_fake_quantize=True)
    x = image(1, 16, 12, 13)
    exact, slow = (
        compile_model(model, exact_fake_quantize=True)(x)[0],
        compile_model(model, backend="reference")(x)[0],
    )
    assert (np.abs(exact - slow) > 1e-5).mean() < 0.01


def test_exact_fake_quantize_reaches_into_bodies() -> None:
    from uncork.ir.bodies import configure
    from uncork.ir.hints import Hints

    nodes = configure(residual(), False, None, Hints(in_f32=True)).nodes
    assert [n.hints.in_f32 for n in nodes if n.type_name == "FakeQuantize"] == [True] * 6


def test_nan_is_the_references() -> None:
    """It has no code, and stays what it is."""
    model = residual()
    x = image(1, 16, 12, 13)
    x[0, 3, 5, 5] = np.nan
    fast, slow = compile_model(model)(x)[0], compile_model(model, backend="reference")(x)[0]
    assert np.isnan(slow).any()
    np.testing.assert_array_equal(np.isnan(fast), np.isnan(slow))


def test_layers_mean_what_they_meant() -> None:
    """The internal operations' references give what the model's do."""
    from uncork.ir.interpret import interpret

    model = residual(how="FakeQuantize")
    options = pipeline.Options(compile_model(model).executor.target)
    changed = pipeline.apply_passes(
        pipeline.WITH_SIZES, pipeline.apply_passes(pipeline.ON_LOAD, model, options), options
    )
    assert sum(node.type_name == "QuantizedProduct" for node in changed.nodes) == 4
    x = image(1, 16, 12, 13)
    got, wanted = interpret(changed, [x])[0], interpret(model, [x])[0]
    assert (np.abs(got - wanted) > 1e-5).mean() < 0.01


@pytest.mark.oracle
def test_openvino_gives_the_same(tmp_path: Path) -> None:
    """It rounds in other places: a level of some numbers, and what is made of that."""
    from tests._openvino import OpenVino

    pytest.importorskip("openvino")
    if not {"avx512vnni", "avxvnni", "dotprod"} & processor.features():
        pytest.skip("without VNNI its sums of two products saturate")
    worker = OpenVino()
    try:
        for model, x in (
            (residual(), image(1, 16, 12, 13)),
            (separable([1, 16, 12, 13]), image(1, 16, 12, 13)),
            (linear(rows=7), image(2, 7, 48)),
        ):
            path = tmp_path / "model.xml"
            uncork.write_model(model, path)
            (wanted,) = worker.run(path, [x])
            differences = np.abs(compile_model(model)(x)[0] - wanted)
            assert differences.max() <= 6 / 128
            assert differences.mean() < 1 / 128 / 2
    finally:
        worker.close()


def test_two_threads_give_the_same() -> None:
    model = residual([1, 16, 40, 40])
    x = image(1, 16, 40, 40)
    np.testing.assert_array_equal(
        compile_model(model, threads=1)(x)[0], compile_model(model, threads=2)(x)[0]
    )


def test_weights_that_are_read_as_codes_are_not_kept_as_numbers() -> None:
    """They are made again when somebody asks, to the same bits."""
    b = uncork.Builder("large")
    x = rounded(b, b.parameter("x", "f32", [1, 128, 4, 4]), 0, 4)
    b.result(rounded(b, convolved(b, x, 128, 128), 0, 2), "y")
    compiled = compile_model(b.model(), threads=1)
    compiled(GENERATOR.standard_normal((1, 128, 4, 4)).astype(np.float32))
    constants = [
        node.operation
        for node in compiled.executor.prepared.nodes
        if isinstance(node.operation, QuantizedConstant)
    ]
    assert len(constants) == 1
    for constant in constants:
        assert constant.kept is None and constant.infer().value is None
        first = weakref.ref(constant.value)
        assert first() is None, "nobody holds it"
        held = constant.value
        assert constant.value is held
        assert held.tobytes() == constant.weights.values().tobytes()
