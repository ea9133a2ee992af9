"""What `profile` counts of steps that read weights as they are stored, of attention, of codes, of
Winograd's tiles and of groups: numbers worked out by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.passes.test_compressed_products import weights as compressed
from tests.passes.test_quantize_layers import residual

F32 = np.float32


def counted(builder: uncork.Builder, *inputs: np.ndarray) -> dict[str, tuple[float, float]]:
    """(operations, bytes) of the steps, by the names of their layers."""
    steps = uncork.compile_model(builder.model(), threads=1).profile(*inputs).steps
    return {step.layer: (step.operations, step.bytes) for step in steps}


# The matrices of test_compressed_products have 320 rows of 72 columns.


@pytest.mark.parametrize(
    ("stored", "more", "bytes_of_weights"),
    [
        ("f16", {"scale": ""}, 2 * 320 * 72),
        ("i8", {}, 320 * 72 + 4 * 72),  # and a scale of f32 for each column
        # Half a byte each; a scale of f32 and a zero point of u8 for each of 5 groups of a column.
        ("u4", {"group": 64, "zeros": "u4"}, 320 * 72 / 2 + (4 + 1) * 72 * 5),
    ],
)
@pytest.mark.parametrize("rows", [1, 24])
def test_weights_as_they_are_stored(
    stored: str, more: dict[str, object], bytes_of_weights: float, rows: int
) -> None:
    builder = uncork.Builder()
    matrix = compressed(builder, stored, **more)
    data = builder.parameter("data", "f32", [None, 320])
    (y,) = builder.add("MatMul", 1, data, matrix, transpose_b=True, name="product")
    builder.result(y, "y")
    found = counted(builder, np.ones((rows, 320), F32))
    assert found["product"] == (
        2 * rows * 320 * 72,
        4 * rows * 320 + bytes_of_weights + 4 * rows * 72,
    )


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    """2 heads of 5 queries and 7 keys, of 16 and 8 numbers."""
    builder = uncork.Builder()
    given = [
        builder.parameter(name, "f32", shape)
        for name, shape in (("q", [1, 2, 5, 16]), ("k", [1, 2, 7, 16]), ("v", [1, 2, 7, 8]))
    ]
    (y,) = builder.add("ScaledDotProductAttention", 13, *given, causal=causal, name="attention")
    builder.result(y, "y")
    arrays = [np.ones(shape, F32) for shape in ((1, 2, 5, 16), (1, 2, 7, 16), (1, 2, 7, 8))]
    # Query n sees n + 1 keys where it is causal: 15 of the 35 pairs.
    pairs = 1 + 2 + 3 + 4 + 5 if causal else 5 * 7
    assert counted(builder, *arrays)["attention"] == (
        2 * 2 * pairs * (16 + 8),
        4 * 2 * (5 * 16 + 7 * 16 + 7 * 8 + 5 * 8),
    )


def test_attention_over_parts_of_one_tensor() -> None:
    """Query, key and value are thirds of a tensor, with the heads behind the rows."""
    builder = uncork.Builder()
    data = builder.parameter("qkv", "f32", [1, 6, 3, 2, 16])
    axis = builder.constant(np.int64(0))
    (order,) = [builder.constant(np.array([2, 0, 3, 1, 4]))]
    (turned,) = builder.add("Transpose", 1, data, order)
    parts = [
        builder.add("Gather", 8, turned, builder.constant(np.int64(part)), axis)[0]
        for part in range(3)
    ]
    (y,) = builder.add("ScaledDotProductAttention", 13, *parts, causal=False, name="attention")
    builder.result(y, "y")
    found = counted(builder, np.ones((1, 6, 3, 2, 16), F32))
    assert found["attention"] == (2 * 2 * 6 * 6 * (16 + 16), 4 * 4 * (2 * 6 * 16))


def test_products_of_codes() -> None:
    """Two blocks of two convolutions of 16 channels over 12 x 13 pixels, of codes of a byte."""
    model = residual()
    steps = uncork.compile_model(model, threads=1).profile(np.ones((1, 16, 12, 13), F32)).steps
    products = [step for step in steps if step.operation.startswith("QuantizedProduct")]
    pixels, weights = 12 * 13, 16 * 16 * 9
    assert [step.operations for step in products] == [2 * pixels * 16 * weights // 16] * 4
    # Codes of the data, weights, scales and biases of outputs, two limits of a FakeQuantize, and
    # codes of the result; what the second one of a block adds is codes, too.
    first = pixels * 16 + weights + 4 * 16 + 4 * 16 + 2 * 4 + pixels * 16
    assert [products[0].bytes, products[2].bytes] == [first, first]


def test_winograd_counts_as_direct_sums_do() -> None:
    builder = uncork.Builder()
    data = builder.parameter("x", "f32", [1, 32, 56, 56])
    filters = builder.constant(np.full((64, 32, 3, 3), 0.01, F32))
    (y,) = builder.add(
        "Convolution", 1, data, filters, strides=[1, 1], dilations=[1, 1],
        pads_begin=[1, 1], pads_end=[1, 1], name="planes",
    )  # fmt: skip
    builder.result(y, "y")
    compiled = uncork.compile_model(builder.model(), threads=1)
    steps = compiled.profile(np.ones((1, 32, 56, 56), F32)).steps
    (step,) = [step for step in steps if step.operations]
    assert step.kernel.startswith("winograd")
    assert step.operations == 2 * 56 * 56 * 64 * 32 * 9
    assert step.bytes == 4 * (32 * 56 * 56 + 64 * 32 * 9 + 64 * 56 * 56)


def test_groups() -> None:
    """4 groups of 6 channels, 2 outputs each; transposed, a value goes to a filter's worth."""
    builder = uncork.Builder()
    data = builder.parameter("x", "f32", [1, 24, 10, 10])
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    filters = builder.constant(np.full((4, 2, 6, 3, 3), 0.1, F32))
    (y,) = builder.add("GroupConvolution", 1, data, filters, name="forward", **around)
    back = builder.constant(np.full((4, 2, 6, 3, 3), 0.1, F32))
    (y,) = builder.add("GroupConvolutionBackpropData", 1, y, back, name="back", **around)
    builder.result(y, "y")
    found = counted(builder, np.ones((1, 24, 10, 10), F32))
    assert found["forward"] == (
        2 * (8 * 8 * 8) * 6 * 9,
        4 * (24 * 100 + 4 * 2 * 6 * 9 + 8 * 64),
    )
    assert found["back"] == (
        2 * (8 * 8 * 8) * 6 * 9,
        4 * (8 * 64 + 4 * 2 * 6 * 9 + 24 * 100),
    )


def test_a_step_of_bf16_is_timed_without_conversions(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed takes and makes bf16 as it lies in memory: 1 is 0x3F80 there."""
    from uncork.compiler import measured_steps as module

    found: list[np.ndarray] = []
    bound = module._bound

    def recorded(compiled, arrays, results):
        call = bound(compiled, arrays, results)
        results[0][:] = 0
        call()
        found.append(results[0].copy())
        return call

    monkeypatch.setattr(module, "_bound", recorded)
    builder = uncork.Builder()
    x = builder.parameter("x", "bf16", [2, 3])
    builder.result(builder.add("ReLU", 1, x)[0], "y")
    compiled = uncork.compile_model(builder.model(), threads=1)
    assert len(compiled.profile(np.ones((2, 3), F32)).steps) == 1
    (made,) = found
    assert made.dtype == np.uint16 and made.tolist() == [[0x3F80] * 3] * 2


def test_a_layer_that_reads_halves_of_a_tensor_reads_it_once() -> None:
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, 64])
    one, other = builder.add("Split", 1, data, builder.constant(np.int64(1)), num_splits=2)
    builder.result(builder.add("Multiply", 1, one, other, name="gate")[0], "y")
    # Two rows of 32 numbers each are read for one that is written.
    assert counted(builder, np.ones((5, 64), F32)) == {"gate": (5 * 32, 4 * 3 * 5 * 32)}


def test_kernels_of_open_sizes_are_those_of_the_plan() -> None:
    """A convolution of any size is not the one of this size."""
    b = uncork.Builder("open")
    x = b.parameter("x", "f32", [None, 3, None, None])
    filters = b.constant(np.ones((20, 3, 7, 7), np.float32))
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [3, 3], "pads_end": [3, 3]}
    (y,) = b.add("Convolution", 1, x, filters, **around)
    b.result(b.add("SoftMax", 8, y, axis=1)[0], "y")
    data = np.ones((2, 3, 30, 40), np.float32)
    compiled = uncork.compile_model(b.model(), threads=1)
    profile = compiled.profile(data)
    assert [step.kernel for step in profile.steps] == [
        step.kernel for step in compiled.plan_for([2, 3, 30, 40]).steps
    ]
    assert "open" in profile.steps[0].kernel
