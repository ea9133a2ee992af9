"""Einsum by weights that are stored in few bits: a product reads them as they are stored."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork import storage
from uncork.internal_ops.compressed_linear import CompressedLinear
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
