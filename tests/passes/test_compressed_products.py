"""Products whose matrix layers make of small numbers: what the layers say, by weights that stay as
they are stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels.test_open_sizes import hold
from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.ir.model import Model, Source
from uncork.kernels.runtime.target import host_target

RANGES = {"i8": (-128, 128), "u8": (0, 256), "i4": (-8, 8), "u4": (0, 16), "nf4": (0, 16)}
INNER, COLUMNS = 320, 72


def weights(
    builder: uncork.Builder,
    stored: str,
    *,
    group: int = 0,
    zeros: str = "",
    scale: str = "f32",
    computed: str = "f32",
    transposed: bool = True,
    scale_first: bool = False,
) -> Source:
    """The layers that make a matrix, as converters write them."""
    generator = np.random.default_rng(1)
    if stored in RANGES:
        low, high = RANGES[stored]
        codes = generator.integers(low, high, (COLUMNS, INNER)).astype(
            "i1" if stored in ("i8", "i4") else "u1"
        )
    else:
        codes = generator.standard_normal((COLUMNS, INNER)).astype(np.float16)
        if stored == "bf16":
            codes = (codes.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    shape, one = (
        ((COLUMNS, INNER // group, group), (COLUMNS, INNER // group, 1))
        if group
        else ((COLUMNS, INNER), (COLUMNS, 1))
    )
    order = tuple(range(len(shape))) if transposed else (*range(1, len(shape)), 0)

    def constant(array: np.ndarray, name: str = "") -> Source:
        return builder.constant(
            np.ascontiguousarray(array.transpose(order)), *([name] if name else [])
        )

    (matrix,) = builder.add(
        "Convert", 1, constant(codes.reshape(shape), stored), destination_type=computed
    )
    if zeros:
        (zero,) = builder.add(
            "Convert",
            1,
            constant(generator.integers(0, 9, one).astype("u1"), zeros),
            destination_type=computed,
        )
        (matrix,) = builder.add("Subtract", 1, matrix, zero)
    if scale:
        number = constant(
            generator.uniform(0.001, 0.01, one).astype(
                np.float16 if computed == "f16" else np.float32
            )
        )
        (matrix,) = builder.add(
            "Multiply", 1, *((number, matrix) if scale_first else (matrix, number))
        )
    if group:
        final = (COLUMNS, INNER) if transposed else (INNER, COLUMNS)
        (matrix,) = builder.add(
            "Reshape", 1, matrix, builder.constant(np.array(final)), special_zero=False
        )
    if computed != "f32":
        (matrix,) = builder.add("Convert", 1, matrix, destination_type="f32")
    return matrix


def model(matrix: Source, builder: uncork.Builder, transposed: bool = True, end: str = "") -> Model:
    data = builder.parameter("data", "f32", [None, None, INNER])
    (result,) = builder.add("MatMul", 1, data, matrix, transpose_b=transposed)
    if end:
        (result,) = builder.add(
            "Add", 1, result, builder.constant(np.linspace(-1, 1, COLUMNS).astype(np.float32))
        )
        (result,) = builder.add(end, 1, result)
    builder.result(result, "y")
    return builder.model()


def compressed(made: Model) -> list[CompressedLinear]:
    """The products of the model that read stored weights."""
    nodes = uncork.compile_model(made, threads=1).executor.prepared.nodes
    return [node.operation for node in nodes if isinstance(node.operation, CompressedLinear)]


def calls() -> list[list[np.ndarray]]:
    generator = np.random.default_rng(2)
    return [
        [generator.standard_normal((*rows, INNER)).astype(np.float32)]
        for rows in ((1, 1), (2, 9), (1, 16), (3, 1), (1, 2))
    ]


CASES = {
    "f16": {"stored": "f16", "scale": ""},
    "bf16": {"stored": "bf16", "scale": ""},
    "i8, a scale for each column": {"stored": "i8"},
    "i8, in f16": {"stored": "i8", "computed": "f16"},
    "u8, zero points": {"stored": "u8", "zeros": "u8", "computed": "f16"},
    "i4, in groups": {"stored": "i4", "group": 64, "computed": "f16"},
    "i4, the scale first": {"stored": "i4", "group": 64, "scale_first": True},
    "u4, in groups, zero points": {"stored": "u4", "group": 32, "zeros": "u4", "computed": "f16"},
    "u4, zero points of eight bits": {"stored": "u4", "zeros": "u8"},
    "u4, large groups": {"stored": "u4", "group": 160, "zeros": "u4"},
}


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_as_converters_write_them(name: str, transposed: bool) -> None:
    """One plan for every number of rows, which gives what the layers give."""
    builder = uncork.Builder()
    made = model(weights(builder, **CASES[name], transposed=transposed), builder, transposed)
    taken = compressed(made)
    (operation,) = taken
    assert operation.weights.codes.dtype.itemsize <= 2
    hold(made, calls())


@pytest.mark.parametrize("end", ["ReLU", "Sigmoid", "Tanh"])
def test_bias_and_activation(end: str) -> None:
    builder = uncork.Builder()
    made = model(weights(builder, "i8"), builder, end=end)
    hold(made, calls())
    compiled = uncork.compile_model(made, threads=1)
    compiled(*calls()[0])
    assert [step.operation for step in compiled.plan.steps] == ["FusedCompressedLinear-0"]


def test_the_layers_of_the_reference() -> None:
    """The operation means what the layers say."""
    for case in CASES.values():
        builder = uncork.Builder()
        made = model(weights(builder, **case), builder)
        for operation in compressed(made):
            (x,) = calls()[1]
            expected = uncork.compile_model(made, backend="reference")(x)[0]
            np.testing.assert_allclose(operation.reference(x), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("between", ["", "ReLU", "Reshape", "Tanh"])
def test_data_that_are_numbers_of_bf16(between: str) -> None:
    """They are known as such where nothing but their order and signs changes after a rounding; one
    plan multiplies any number of rows.
    """
    builder = uncork.Builder()
    matrix = weights(builder, "bf16", scale="")
    data = builder.parameter("data", "f32", [None, INNER])
    for name in ("bf16", "f32"):
        (data,) = builder.add("Convert", 1, data, destination_type=name)
    if between == "Reshape":
        shape = builder.constant(np.array([1, -1, INNER]))
        (data,) = builder.add("Reshape", 1, data, shape, special_zero=False)
    elif between:
        (data,) = builder.add(between, 1, data)
    builder.result(builder.add("MatMul", 1, data, matrix, transpose_b=True)[0], "y")
    made = builder.model()
    (operation,) = compressed(made)
    assert operation.numbers.name == ("f32" if between == "Tanh" else "bf16")
    generator = np.random.default_rng(2)
    given = [generator.standard_normal((n, INNER)).astype(np.float32) for n in (9, 1, 7, 40, 8)]
    hold(made, [[x] for x in given])
    shared = uncork.compile_model(made, threads=3)
    for x in given:
        expected = uncork.compile_model(made, backend="reference")(x)[0]
        np.testing.assert_allclose(shared(x)[0], expected, rtol=1e-5, atol=1e-4)


def test_one_matrix_for_two_products() -> None:
    builder = uncork.Builder()
    matrix = weights(builder, "u8", zeros="u8")
    data = builder.parameter("data", "f32", [None, INNER])
    for name in ("a", "b"):
        (given,) = builder.add("Negative", 1, data) if name == "b" else (data,)
        builder.result(builder.add("MatMul", 1, given, matrix, transpose_b=True)[0], name)
    first, second = compressed(builder.model())
    assert first.weights is second.weights


@pytest.mark.parametrize("why", ["a result", "rows that differ", "vectors", "transposed data"])
def test_what_is_something_else(why: str) -> None:
    """It is read as it is stored, too."""
    builder = uncork.Builder()
    if why == "rows that differ":
        codes = builder.constant(
            np.random.default_rng(3).integers(-9, 9, (COLUMNS, INNER)).astype("i1")
        )
        (matrix,) = builder.add("Convert", 1, codes, destination_type="f32")
        (matrix,) = builder.add(
            "Multiply",
            1,
            matrix,
            builder.constant(np.random.default_rng(4).uniform(1, 2, (COLUMNS, INNER)).astype("f4")),
        )
    else:
        matrix = weights(builder, "i8")
    shape = {"vectors": [INNER], "transposed data": [INNER, 3]}.get(why, [3, INNER])
    data = builder.parameter("data", "f32", shape)
    (result,) = builder.add(
        "MatMul", 1, data, matrix, transpose_a=why == "transposed data", transpose_b=True
    )
    builder.result(result, "y")
    if (
        why == "a result"
    ):  # both: the product reads what is stored, the result what the layers make of it
        builder.result(matrix, "weights")
    made = builder.model()
    # Rows that differ have a scale for each number, which is read beside its code.
    assert len(compressed(made)) == 1
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    got, expected = (
        uncork.compile_model(made)(x),
        uncork.compile_model(made, backend="reference")(x),
    )
    for position in range(len(expected)):
        np.testing.assert_allclose(got[position], expected[position], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activations", ["f32", "i16", "i8"])
@pytest.mark.parametrize("target", [None, "x86-64-v3"])
@pytest.mark.parametrize("stored", ["u4", "i8", "f8e5m2", "f16"])
def test_no_rows_are_written_where_there_are_none(
    stored: str, target: str | None, activations: str
) -> None:
    """Kernels for a few rows make one at least, and are not called for none."""
    if target is not None and not host_target().has("avx2"):
        pytest.skip("it takes AVX2")
    builder = uncork.Builder("none")
    x = builder.parameter("x", "f32", [None, INNER])
    (y,) = builder.add("MatMul", 1, x, weights(builder, stored), transpose_b=True)
    builder.result(y, "y")
    compiled = uncork.compile_model(
        builder.model(),
        threads=1,
        target=target,
        decompression="f32",
        activations=activations,  # type: ignore[arg-type]
    )
    memory = np.full(64 * INNER, 7, np.float32)
    middle = memory[32 * INNER : 32 * INNER]
    call = compiled.bind(middle.reshape(0, INNER), outputs=[middle.reshape(0, COLUMNS)])
    assert call()["y"].shape == (0, COLUMNS)
    assert (memory == 7).all()


def test_the_plan_says_what_fast_would_do_with_stored_weights() -> None:
    """By f16 as the file has it; without; and as "fast" has it, of which nothing is left to say."""
    b = uncork.Builder("stored")
    x = b.parameter("x", "f32", [3, 128])
    codes = b.constant(np.arange(64 * 128, dtype=np.uint8).reshape(64, 128) % 255)
    (wide,) = b.add("Convert", 1, codes, destination_type="f16")
    (scaled,) = b.add("Multiply", 1, wide, b.constant(np.full((64, 1), 0.01, np.float16)))
    (matrix,) = b.add("Convert", 1, scaled, destination_type="f32")
    b.result(b.add("MatMul", 1, x, matrix, transpose_b=True)[0], "y")
    model = b.model()

    def said(**options: Any) -> str:
        lines = str(uncork.compile_model(model, **options).plan).splitlines()
        return next(line for line in lines if line.startswith("precision:"))

    out = "leave out roundings of stored weights to f16"
    assert out in said()
    assert out not in said(decompression="f32")
    assert "stored weights" not in said(precision="fast")
    assert "stored weights" not in said(precision="fast", activations="i16")
