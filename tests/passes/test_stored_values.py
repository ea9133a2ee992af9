"""Weights as converters and people write them: whatever moves and steps stand between a constant
and a product, it is read as it is stored, and means what the layers mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork import storage
from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.ir.model import Source
from uncork.passes import known_values
from uncork.passes.stored_values import stored_values
from uncork.types import ElementType

COLUMNS, GROUPS, SIZE = 24, 6, 32
INNER = GROUPS * SIZE
Array = np.ndarray


class Chain:
    """Layers behind a constant, and what they compute in f64, by NumPy."""

    def __init__(self, shape: tuple[int, ...], stored: str, codes: Array | None = None) -> None:
        self.builder, self.generator = uncork.Builder(), np.random.default_rng(5)
        kind = ElementType.parse(stored)
        if codes is None:
            codes = self.generator.integers(0, 1 << kind.bits, shape).astype(np.uint8)
            if stored.startswith("f8"):
                codes &= 0xB7  # neither infinite nor NaN
            if stored in ("i4", "i8"):
                codes = codes.astype(np.int8)
                codes = (codes ^ 8) - np.int8(8) if stored == "i4" else codes
        self.matrix: Source = self.builder.constant(codes, stored)
        self.value = storage.decode(codes, kind).astype(np.float64)

    def add(self, kind: str, *inputs: Any, version: int = 1, **attributes: Any) -> Chain:
        (self.matrix,) = self.builder.add(kind, version, self.matrix, *inputs, **attributes)
        return self

    def convert(self, to: str = "f32") -> Chain:
        return self.add("Convert", destination_type=to)

    def scale(self, *shape: int, to: str = "f32", first: bool = False) -> Chain:
        number = self.generator.uniform(0.01, 0.02, shape).astype(
            np.float16 if to == "f16" else np.float32
        )
        self.value = self.value * number.astype(np.float64)
        constant = self.builder.constant(number)
        order = (constant, self.matrix) if first else (self.matrix, constant)
        (self.matrix,) = self.builder.add("Multiply", 1, *order)
        return self

    def less(self, number: Array) -> Chain:
        self.value = self.value - number.astype(np.float64)
        return self.add("Subtract", self.builder.constant(number))

    def reshape(self, *shape: int) -> Chain:
        self.value = self.value.reshape(shape)
        return self.add("Reshape", self.builder.constant(np.array(shape)), special_zero=False)

    def transpose(self, *order: int) -> Chain:
        self.value = self.value.transpose(order)
        return self.add("Transpose", self.builder.constant(np.array(order)))

    def numbers(self, table: Array) -> Chain:
        """The numbers of a table in place of the codes."""
        self.value = table[self.value.astype(int)].astype(np.float64)
        axis = self.builder.constant(np.array(0))
        (self.matrix,) = self.builder.add(
            "Gather", 8, self.builder.constant(table), self.matrix, axis
        )
        return self

    def model(self, transposed: bool) -> uncork.Model:
        x = self.builder.parameter("x", "f32", [None, INNER])
        (y,) = self.builder.add("MatMul", 1, x, self.matrix, transpose_b=transposed)
        self.builder.result(y, "y")
        return self.builder.model()


def gptq() -> Chain:
    """[groups, size, columns], as GPTQ's converter makes it, and turned."""
    chain = Chain((GROUPS, SIZE, COLUMNS), "u4").convert()
    chain.less(np.full((1, 1, 1), 8, np.float32)).scale(GROUPS, 1, COLUMNS)
    return chain.reshape(INNER, COLUMNS).transpose(1, 0)


def in_whole_numbers() -> Chain:
    """8 is subtracted in i8, before anything is converted."""
    codes = np.random.default_rng(6).integers(0, 16, (GROUPS, SIZE, COLUMNS)).astype(np.int8)
    chain = Chain(codes.shape, "i8", codes).less(np.full((1, 1, 1), 8, np.int8))
    return chain.convert().scale(GROUPS, 1, COLUMNS).reshape(INNER, COLUMNS)


def wrapping() -> Chain:
    """A difference that i8 does not hold, which wraps as the layer does."""
    codes = np.full((COLUMNS, INNER), -128, np.int8)
    chain = Chain(codes.shape, "i8", codes).less(np.ones((1, 1), np.int8))
    chain.value[...] = 127
    return chain.convert().scale(COLUMNS, 1)


def code_book() -> Chain:
    chain = Chain((COLUMNS, GROUPS, SIZE), "u4").convert("u8")
    chain.numbers(np.linspace(-1, 1, 16).astype(np.float16)).scale(COLUMNS, GROUPS, 1, to="f16")
    return chain.reshape(COLUMNS, INNER).convert()


def short_book() -> Chain:
    codes = np.random.default_rng(7).integers(0, 5, (COLUMNS, INNER)).astype(np.uint8)
    chain = Chain(codes.shape, "u8", codes)
    return chain.numbers(np.array([-2, -0.5, 0, 0.5, 2], np.float32)).scale(COLUMNS, 1)


def two_scales() -> Chain:
    chain = Chain((COLUMNS, GROUPS, SIZE), "i8").convert().scale(COLUMNS, GROUPS, 1)
    return chain.reshape(COLUMNS, INNER).scale(COLUMNS, 1, first=True)


def two_scales_in_halves(to: str) -> Chain:
    """The second one in f16, or in f32 behind what was rounded to f16."""
    chain = Chain((COLUMNS, GROUPS, SIZE), "u4").convert("f16").scale(COLUMNS, GROUPS, 1, to="f16")
    chain = chain.convert() if to == "f32" else chain
    chain = chain.reshape(COLUMNS, INNER).scale(COLUMNS, 1, to=to)
    return chain if to == "f32" else chain.convert()


def turned_codes() -> Chain:
    return Chain((INNER, COLUMNS), "i8").transpose(1, 0).convert().scale(COLUMNS, 1)


def split_columns() -> Chain:
    """Columns of two axes that are turned apart: the codes lie in no order of a matrix."""
    chain = Chain((4, INNER, COLUMNS // 4), "u4").convert().scale(4, 1, 1)
    return chain.transpose(0, 2, 1).reshape(COLUMNS, INNER).scale(COLUMNS, 1)


def squeezed() -> Chain:
    chain = Chain((1, COLUMNS, INNER), "f8e4m3").convert().scale(1, COLUMNS, 1)
    chain.value = chain.value[0]
    return chain.add("Squeeze", chain.builder.constant(np.array([0])))


def not_a_number() -> Chain:
    codes = np.full((COLUMNS, INNER), 0x38, np.uint8)
    codes[3, 5] = 0x7F
    return Chain(codes.shape, "f8e4m3", codes).convert()


def points_behind_scales(to: str) -> Chain:
    chain = Chain((COLUMNS, GROUPS, SIZE), "u4").convert(to)
    chain.less(np.full((1, 1, 1), 5, chain_type(to))).scale(COLUMNS, GROUPS, 1, to=to)
    chain.less(np.full((COLUMNS, 1, 1), 0.25, chain_type(to))).scale(COLUMNS, 1, 1, to=to)
    return chain.reshape(COLUMNS, INNER) if to == "f32" else chain.reshape(COLUMNS, INNER).convert()


def mixed(stored: str, turns: bool) -> Chain:
    """Groups that are cut elsewhere once they were turned: along axes that lie beside each other,
    or that do not.
    """
    chain = Chain((GROUPS, SIZE, COLUMNS), stored).convert().scale(GROUPS, 1, COLUMNS)
    chain.transpose(*((2, 0, 1) if turns else (1, 2, 0)))
    return chain.reshape(COLUMNS // 4, 4, INNER).reshape(COLUMNS, INNER).scale(COLUMNS, 1)


def mixed_columns() -> Chain:
    chain = Chain((INNER, COLUMNS), "i8").convert().scale(1, COLUMNS)
    chain.reshape(INNER // 32, 32 * COLUMNS).transpose(1, 0).reshape(COLUMNS, INNER)
    return chain.scale(COLUMNS, 1)


def cut_elsewhere() -> Chain:
    """Axes that lie in another order, joined, and cut within what was one of them."""
    chain = Chain((COLUMNS, INNER), "u4").convert().scale(COLUMNS, 1)
    return chain.transpose(1, 0).reshape(9, INNER * COLUMNS // 9).reshape(COLUMNS, INNER)


def chain_type(name: str) -> type[np.floating]:
    return {"f16": np.float16, "f32": np.float32}[name]


def of_short_groups(stored: str, size: int) -> Chain:
    chain = Chain((COLUMNS, INNER // size, size), stored).convert()
    return chain.scale(COLUMNS, INNER // size, 1).reshape(COLUMNS, INNER)


def powers(least: int, most: int, to: str = "f32") -> Chain:
    """Scales of f8e8m0, of codes from the least to the most."""
    chain = Chain((COLUMNS, GROUPS, SIZE), "f4e2m1").convert(to)
    codes = chain.generator.integers(least, most + 1, (COLUMNS, GROUPS, 1)).astype(np.uint8)
    codes[0, 0], codes[-1, -1] = least, most
    scales = chain.builder.constant(codes, "f8e8m0")
    (scales,) = chain.builder.add("Convert", 1, scales, destination_type=to)
    (chain.matrix,) = chain.builder.add("Multiply", 1, chain.matrix, scales)
    numbers = np.ldexp(1.0, codes.astype(np.int64) - 127).astype(chain_type(to))
    chain.value = (chain.value * numbers.astype(np.float64)).astype(chain_type(to)).astype(float)
    chain = chain.reshape(COLUMNS, INNER)
    return chain if to == "f32" else chain.convert()


CHAINS: dict[str, tuple[Callable[[], Chain], bool, str]] = {
    "GPTQ": (gptq, True, "u4"),
    "a difference in whole numbers": (in_whole_numbers, False, "i4"),
    "a difference that wraps": (wrapping, True, "i8"),
    "a code book": (code_book, True, "u4"),
    "a short code book": (short_book, True, "u4"),
    "a code book of bytes": (
        lambda: (
            Chain((COLUMNS, GROUPS, SIZE), "u8")
            .numbers(np.linspace(-1, 1, 256).astype(np.float16))
            .scale(COLUMNS, GROUPS, 1, to="f16")
            .reshape(COLUMNS, INNER)
            .convert()
        ),
        True,
        "u8",
    ),
    "two scales": (two_scales, True, "i8"),
    "two scales in f16": (lambda: two_scales_in_halves("f16"), True, "u4"),
    "a scale in f16 and one in f32": (lambda: two_scales_in_halves("f32"), True, "u4"),
    "codes that are turned": (turned_codes, True, "i8"),
    "columns of two axes": (split_columns, True, "u4"),
    "an axis of 1": (squeezed, True, "f8e4m3"),
    "floats of 4 bits": (
        lambda: Chain((COLUMNS, INNER), "f4e2m1").convert().scale(COLUMNS, 1),
        True,
        "u4",
    ),
    "scales of 8 bits": (lambda: powers(118, 129), True, "u4"),
    "scales of 8 bits in f16": (lambda: powers(118, 129, "f16"), True, "u4"),
    "scales of 8 bits that f16 rounds to 0": (lambda: powers(99, 120, "f16"), True, "u4"),
    "scales of 8 bits that are not normal": (lambda: powers(0, 9), True, "u4"),
    "scales of 8 bits that are large": (lambda: powers(215, 240), True, "u4"),
    "a NaN in a float of 8 bits": (not_a_number, True, "u8"),
    "a third scale behind a rounded one": (
        lambda: two_scales_in_halves("f32").scale(COLUMNS, 1),
        True,
        "u4",
    ),
    "codes of many bits that number a table": (
        lambda: (
            Chain(
                (COLUMNS, INNER),
                "i16",
                np.random.default_rng(8).integers(0, 200, (COLUMNS, INNER)).astype(np.int16),
            )
            .convert("i32")
            .numbers(np.linspace(-1, 1, 200).astype(np.float32))
            .scale(COLUMNS, 1)
        ),
        True,
        "u8",
    ),
    "a table of many numbers": (
        lambda: (
            Chain(
                (COLUMNS, GROUPS, SIZE),
                "u16",
                np.random.default_rng(8).integers(0, 700, (COLUMNS, GROUPS, SIZE), np.uint16),
            )
            .numbers(np.linspace(-1, 1, 700).astype(np.float16))
            .scale(COLUMNS, GROUPS, 1, to="f16")
            .reshape(COLUMNS, INNER)
            .convert()
        ),
        True,
        "u16",
    ),
    "groups turned and cut": (lambda: mixed("u4", True), True, "u4"),
    "groups cut along others": (lambda: mixed("i4", False), True, "i4"),
    "axes cut elsewhere": (cut_elsewhere, True, "u4"),
    "columns cut elsewhere": (mixed_columns, True, "i8"),
    "a scale for each number": (
        lambda: Chain((COLUMNS, INNER), "i8").convert().scale(COLUMNS, INNER),
        True,
        "i8",
    ),
    "a scale for each place": (
        lambda: Chain((COLUMNS, INNER), "u4").convert().scale(1, INNER),
        True,
        "u4",
    ),
    "zero points behind scales": (lambda: points_behind_scales("f32"), True, "u4"),
    "zero points behind scales in f16": (lambda: points_behind_scales("f16"), True, "u4"),
    "groups of two": (lambda: of_short_groups("u4", 2), True, "u4"),
    "groups of six": (lambda: of_short_groups("i4", 6), True, "i4"),
    "groups of three of bytes": (lambda: of_short_groups("u8", 3), True, "u8"),
    "two bits": (lambda: Chain((INNER, COLUMNS), "u2").convert().scale(1, COLUMNS), False, "u4"),
}


@pytest.mark.parametrize("to", ["f16", "f32"])
def test_scales_of_8_bits_are_read_where_they_lie(to: str) -> None:
    model = powers(118, 129, to).model(True)
    (product,) = (node for node in model.nodes if node.type_name == "MatMul")
    stored = stored_values(model, product.inputs[1])
    matrix = None if stored is None else stored.matrix(True)
    assert matrix is not None and matrix.scales is not None
    (constant,) = (
        node.operation
        for node in model.nodes
        if node.type_name == "Const" and node.outputs[0].spec.element_type is ElementType.f8e8m0
    )
    assert np.shares_memory(matrix.scales, constant.value)


@pytest.mark.parametrize("name", CHAINS)
def test_what_is_understood(name: str) -> None:
    make, transposed, held = CHAINS[name]
    chain = make()
    model = chain.model(transposed)
    compiled = uncork.compile_model(model, threads=1)
    (operation,) = (
        node.operation
        for node in compiled.executor.prepared.nodes
        if isinstance(node.operation, CompressedLinear)
    )
    assert operation.weights.element_type.name == held
    value = chain.value if transposed else chain.value.T
    np.testing.assert_allclose(
        operation.weights.values(), value, rtol=2e-3, atol=min(1e-6, np.nanmax(abs(value)) / 64)
    )
    reference = uncork.compile_model(model, backend="reference")
    for rows in (1, 3, 20):
        x = np.random.default_rng(rows).standard_normal((rows, INNER)).astype(np.float32)
        wanted = x.astype(np.float64) @ value.T
        for system in (compiled, reference):
            got = np.asarray(system(x)["y"])
            np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-3 * np.nanmax(abs(wanted)))
        exact = x.astype(np.float64) @ operation.weights.values().astype(np.float64).T
        got = np.asarray(compiled(x)["y"])
        np.testing.assert_allclose(got, exact, rtol=0, atol=2e-6 * np.nanmax(abs(exact)))
    assert not [step for step in compiled.plan.steps if step.kernel == "reference"]


@pytest.mark.parametrize("part", [1, 50, 1 << 20])
def test_large_operands_are_computed_some_rows_at_a_time(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_values, "_PART", part)
    generator, builder = np.random.default_rng(2), uncork.Builder()
    codes = generator.integers(0, 0x78, (COLUMNS, GROUPS, 40)).astype(np.uint8)
    given = [
        generator.uniform(1, 2, shape).astype(np.float32)
        for shape in ((), (COLUMNS, 1, 1), (GROUPS, 40), (1, GROUPS, 1))
    ]
    constant = builder.constant(codes, "f8e4m3")
    (scale,) = builder.add("Convert", 1, constant, destination_type="f32")
    wanted = storage.decode(codes, ElementType.f8e4m3)
    for number in given:
        (scale,) = builder.add("Multiply", 1, scale, builder.constant(number))
        wanted = wanted * number
    (scale,) = builder.add("Convert", 1, scale, destination_type="f16")
    builder.result(scale, "scale")
    model = builder.model()
    (result,) = (model.by_id[number] for number in model.results)
    computed = known_values.computed_value(model, result.inputs[0])
    np.testing.assert_array_equal(computed, wanted.astype(np.float16))


def refused() -> dict[str, Chain]:
    wide = np.random.default_rng(9).integers(0, 70000, (COLUMNS, INNER)).astype(np.int32)
    long = Chain(wide.shape, "i32", wide).numbers(np.linspace(-1, 1, 70000).astype(np.float32))
    many = np.random.default_rng(9).integers(0, 9, (COLUMNS, INNER)).astype(np.int32)
    return {
        "a long table": long,
        "whole numbers of many bits": Chain(many.shape, "i32", many).convert().scale(COLUMNS, 1),
    }


@pytest.mark.parametrize("name", refused())
def test_what_comes_near(name: str) -> None:
    """It is computed as the layers say it, by layers."""
    chain = refused()[name]
    model = chain.model(True)
    (product,) = (node for node in model.nodes if node.type_name == "MatMul")
    stored = stored_values(model, product.inputs[1])
    assert stored is None or stored.matrix(True) is None
    x = np.random.default_rng(1).standard_normal((3, INNER)).astype(np.float32)
    with np.errstate(invalid="ignore"):
        wanted = x.astype(np.float64) @ chain.value.T
    got = np.asarray(uncork.compile_model(model)(x)["y"])
    np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=2e-3 * np.nanmax(abs(chain.value)))
