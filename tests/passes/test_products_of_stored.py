"""Einsum, MatMul and Convolution by weights that are stored in few bits: a product of rows reads
them as they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork import storage
from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.ir.model import Source
from uncork.types import ElementType

#: Sizes of labels: all that are summed are static, `t` and `b` are open.
SIZES = {"b": 2, "t": 3, "d": 64, "h": 8, "k": 32, "e": 4, "i": 96}
OPEN = "bt"
#: The equation, with the data first or the weights, and where the weights have groups.
EQUATIONS = {
    "heads of a projection": ("btd,dhk->bthk", 1, 0),
    "heads that are joined": ("bthk,hkd->btd", 1, 1),
    "heads before rows": ("btd,dhk->bhtk", 1, 0),
    "weights first": ("dhk,btd->bthk", 0, 0),
    "experts of one row": ("td,edi->eti", 1, 1),
    "experts of their own rows": ("etd,edi->eti", 1, 1),
    "experts that are turned": ("etd,eid->tei", 1, 2),
    "no rows": ("d,di->i", 1, 0),
    "experts without rows": ("ed,edi->ei", 1, 1),
    "an ellipsis": ("...d,di->...i", 1, 0),
}


@pytest.mark.parametrize("name", EQUATIONS)
@pytest.mark.parametrize("stored", ["u4", "i8", "f8e4m3"])
def test_equations(name: str, stored: str) -> None:
    equation, place, axis = EQUATIONS[name]
    subscripts, _, _ = equation.replace("...", "bt").partition("->")
    labels = subscripts.split(",")
    generator = np.random.default_rng(3)
    shape = [SIZES[label] for label in labels[place]]
    kind, builder = ElementType.parse(stored), uncork.Builder()
    codes = generator.integers(0, 16, shape).astype(np.int8 if stored == "i8" else np.uint8)
    scales = generator.uniform(0.5, 2, [*shape[:axis], 1, *shape[axis + 1 :]]).astype(np.float32)
    (matrix,) = builder.add("Convert", 1, builder.constant(codes, stored), destination_type="f32")
    (matrix,) = builder.add("Multiply", 1, matrix, builder.constant(scales))
    value = storage.decode(codes, kind).astype(np.float64) * scales
    sizes = [None if label in OPEN else SIZES[label] for label in labels[1 - place]]
    x = builder.parameter("x", "f32", sizes)
    (y,) = builder.add("Einsum", 7, *((x, matrix) if place else (matrix, x)), equation=equation)
    builder.result(y, "y")
    compiled = uncork.compile_model(builder.model(), threads=1, decompression="f32")
    data = generator.standard_normal([SIZES[n] for n in labels[1 - place]]).astype(np.float32)
    got = np.asarray(compiled(data)["y"])
    given = (data, value) if place else (value, data)
    wanted = np.einsum(equation, *(array.astype(np.float64) for array in given))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 * abs(wanted).max())
    (linear,) = (
        node.operation
        for node in compiled.executor.prepared.nodes
        if isinstance(node.operation, CompressedLinear)
    )
    assert linear.weights.codes.nbytes == codes.size * kind.bits // 8
    assert not [step for step in compiled.plan.steps if step.kernel == "reference"]


@pytest.mark.parametrize("equation", ["bd,bdi->i", "btd,tdi->bi", "bdd,di->bi"])
def test_what_is_no_product_of_matrices(equation: str) -> None:
    subscripts = equation.partition("->")[0].split(",")
    generator, builder = np.random.default_rng(4), uncork.Builder()
    codes = generator.integers(-9, 9, [SIZES[n] for n in subscripts[1]]).astype(np.int8)
    (matrix,) = builder.add("Convert", 1, builder.constant(codes), destination_type="f32")
    (matrix,) = builder.add("Multiply", 1, matrix, builder.constant(np.float32(0.25)))
    x = builder.parameter("x", "f32", [SIZES[n] for n in subscripts[0]])
    (y,) = builder.add("Einsum", 7, x, matrix, equation=equation)
    builder.result(y, "y")
    data = generator.standard_normal([SIZES[n] for n in subscripts[0]]).astype(np.float32)
    got = np.asarray(uncork.compile_model(builder.model(), threads=1)(data)["y"])
    wanted = np.einsum(equation, data.astype(np.float64), codes * 0.25)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 * abs(wanted).max())


class _Weights:
    """A constant of small numbers in a model, scaled along one axis, and what it is."""

    def __init__(self, shape: Sequence[int], stored: str, axis: int, seed: int = 5) -> None:
        self.generator, self.builder = np.random.default_rng(seed), uncork.Builder()
        kind = ElementType.parse(stored)
        codes = self.generator.integers(0, 16, shape).astype(
            np.int8 if stored == "i8" else np.uint8
        )
        sizes = [size if i == axis else 1 for i, size in enumerate(shape)]
        scales = self.generator.uniform(0.5, 2, sizes).astype(np.float32)
        made = self.builder.constant(codes, stored)
        (made,) = self.builder.add("Convert", 1, made, destination_type="f32")
        (self.source,) = self.builder.add("Multiply", 1, made, self.builder.constant(scales))
        self.value = storage.decode(codes, kind).astype(np.float64) * scales
        self.bytes = codes.size * kind.bits // 8

    def result(self, y: Source, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Random data of this shape, and what the model makes of them, by the codes as they are."""
        self.builder.result(y, "y")
        compiled = uncork.compile_model(self.builder.model(), threads=1, decompression="f32")
        data = self.generator.standard_normal(shape).astype(np.float32)
        got = np.asarray(compiled(data)["y"])
        operations = [node.operation for node in compiled.executor.prepared.nodes]
        (linear,) = (op for op in operations if isinstance(op, CompressedLinear))
        assert linear.weights.codes.nbytes == self.bytes
        assert not [step for step in compiled.plan.steps if step.kernel == "reference"]
        return data.astype(np.float64), got


#: Sizes of the data and of the weights; whether the weights come first; what is transposed.
PRODUCTS = {
    "turned data": ([2, 64, 5], [96, 64], False, (True, True)),
    "turned data, weights as they are": ([64, 5], [64, 96], False, (True, False)),
    "weights first": ([2, 3, 64, 5], [96, 64], True, (False, False)),
    "weights first, both turned": ([5, 64], [64, 96], True, (True, True)),
    "several matrices first": ([4, 64, 5], [4, 96, 64], True, (False, False)),
    "several matrices by turned data": ([4, 64, 5], [4, 64, 96], False, (True, False)),
    "a vector": ([64], [64, 96], False, (False, False)),
    "a vector behind": ([64], [96, 64], True, (False, False)),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("stored", ["u4", "i8", "nf4"])
def test_products(name: str, stored: str) -> None:
    shape, sizes, first, (turned_a, turned_b) = PRODUCTS[name]
    weights = _Weights(sizes, stored, 0 if len(sizes) > 2 else sizes.index(96))
    x = weights.builder.parameter("x", "f32", [None if size == 5 else size for size in shape])
    given = (weights.source, x) if first else (x, weights.source)
    turns = {"transpose_a": turned_a, "transpose_b": turned_b}
    (y,) = weights.builder.add("MatMul", 1, *given, **turns)
    data, got = weights.result(y, shape)
    both = (weights.value, data) if first else (data, weights.value)
    wanted = np.matmul(*(
        array.swapaxes(-1, -2) if turned and array.ndim > 1 else array
        for array, turned in zip(both, (turned_a, turned_b), strict=True)
    ))  # fmt: skip
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 * abs(wanted).max())


#: Sizes of the data and of the filters, and which sizes of the data are open.
WINDOWS = {
    "patches": ([2, 3, 32, 48], [64, 3, 16, 16], [0]),
    "pixels": ([2, 64, 3, 5], [96, 64, 1, 1], [0]),
    "frames": ([1, 64, 9], [128, 64, 1], [0, 2]),
    "one window": ([1, 16, 7, 7], [64, 16, 7, 7], []),
    "volumes": ([1, 8, 4, 4, 4], [96, 8, 2, 2, 2], [0]),
}


def _convolved(data: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """By the definition: the sum of each window's numbers times those of a filter."""
    kernel = filters.shape[2:]
    counts = [size // taps for size, taps in zip(data.shape[2:], kernel, strict=True)]
    result = np.zeros((len(data), len(filters), *counts))
    for place in np.ndindex(*counts):
        begins = [i * taps for i, taps in zip(place, kernel, strict=True)]
        cells = (slice(b, b + taps) for b, taps in zip(begins, kernel, strict=True))
        window = data[(slice(None), slice(None), *cells)]
        result[(slice(None), slice(None), *place)] = np.tensordot(
            window, filters, (range(1, data.ndim), range(1, data.ndim))
        )
    return result


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("stored", ["u4", "i8", "nf4"])
def test_convolutions_whose_windows_do_not_overlap(name: str, stored: str) -> None:
    shape, sizes, open_ = WINDOWS[name]
    weights = _Weights(sizes, stored, 0)
    given = [None if i in open_ else size for i, size in enumerate(shape)]
    x = weights.builder.parameter("x", "f32", given)
    none = [0] * (len(shape) - 2)
    (y,) = weights.builder.add(
        "Convolution",
        1,
        x,
        weights.source,
        strides=sizes[2:],
        dilations=[1] * len(none),
        pads_begin=none,
        pads_end=none,
    )
    data, got = weights.result(y, shape)
    wanted = _convolved(data, weights.value)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 * abs(wanted).max())


@pytest.mark.parametrize(
    ("size", "stride", "pads", "filters"),
    [
        (12, 2, 0, [64, 16, 3]),  # windows overlap
        (12, 3, 1, [64, 16, 3]),  # and reach past the data
        (14, 3, 0, [64, 16, 3]),  # some data are in no window
        (99, 3, 0, [32, 16, 3]),  # more windows than outputs
        (100, 1, 0, [64, 16, 1]),
    ],
)
def test_convolutions_that_stay(size: int, stride: int, pads: int, filters: list[int]) -> None:
    weights = _Weights(filters, "i8", 0)
    x = weights.builder.parameter("x", "f32", [1, 16, size])
    (y,) = weights.builder.add(
        "Convolution",
        1,
        x,
        weights.source,
        strides=[stride],
        dilations=[1],
        pads_begin=[pads],
        pads_end=[pads],
    )
    weights.builder.result(y, "y")
    compiled = uncork.compile_model(weights.builder.model(), threads=1)
    kinds = {type(node.operation) for node in compiled.executor.prepared.nodes}
    assert CompressedLinear not in kinds
    assert not [step for step in compiled.plan.steps if step.kernel == "reference"]
