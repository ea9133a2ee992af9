"""The parts of activations: what becomes one layer, what stays, and the results."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import uncork
from uncork.compiler.compile import compile_model
from uncork.ir.model import Source
from uncork.passes.fuse_activations import fuse_activations

Make = Callable[[uncork.Builder, Source], Source]
VALUES = np.array([[-9.0, -3.0, -1.0, -0.1, -0.0, 0.2, 0.7, 2.0, 5.0, 12.0]], np.float32)


def one(b: uncork.Builder, type_name: str, *inputs: Source | float) -> Source:
    """A layer's output; numbers are constants."""
    given = [b.constant(np.float32(i)) if isinstance(i, float) else i for i in inputs]
    version = {"SoftPlus": 4}.get(type_name, 1)
    return b.add(type_name, version, *given)[0]


def swish(b: uncork.Builder, x: Source) -> Source:
    return one(b, "Multiply", one(b, "Sigmoid", x), x)


def mish(b: uncork.Builder, x: Source) -> Source:
    return one(b, "Multiply", x, one(b, "Tanh", one(b, "SoftPlus", x)))


def gelu_halved_last(b: uncork.Builder, x: Source) -> Source:
    raised = one(b, "Add", one(b, "Erf", one(b, "Divide", x, math.sqrt(2))), 1.0)
    return one(b, "Multiply", one(b, "Multiply", x, raised), 0.5)


def gelu_halved_first(b: uncork.Builder, x: Source) -> Source:
    raised = one(b, "Add", 1.0, one(b, "Erf", one(b, "Multiply", x, math.sqrt(0.5))))
    return one(b, "Multiply", raised, one(b, "Multiply", 0.5, x))


def gelu_in_two_terms(b: uncork.Builder, x: Source) -> Source:
    half = one(b, "Divide", x, 2.0)
    share = one(b, "Multiply", half, one(b, "Erf", one(b, "Multiply", x, math.sqrt(0.5))))
    return one(b, "Add", half, share)


def gelu_tanh_by_power(b: uncork.Builder, x: Source) -> Source:
    cube = one(b, "Multiply", one(b, "Power", x, 3.0), 0.044715)
    inner = one(b, "Multiply", one(b, "Add", x, cube), math.sqrt(2 / math.pi))
    raised = one(b, "Add", one(b, "Tanh", inner), 1.0)
    return one(b, "Multiply", one(b, "Multiply", x, 0.5), raised)


def gelu_tanh_by_products(b: uncork.Builder, x: Source) -> Source:
    share = one(b, "Multiply", one(b, "Multiply", 0.044715, x), x)
    inner = one(
        b, "Multiply", one(b, "Multiply", x, math.sqrt(2 / math.pi)), one(b, "Add", share, 1.0)
    )
    return one(b, "Multiply", x, one(b, "Multiply", one(b, "Add", one(b, "Tanh", inner), 1.0), 0.5))


def model(make: Make, element: str = "f32", biased: bool = False) -> uncork.Model:
    b = uncork.Builder("activation")
    x = given = b.parameter("x", element, [None, None])
    if biased:
        given = one(b, "Add", one(b, "Multiply", x, 3.0), 0.25)
    b.result(make(b, given), "y")
    return b.model()


def kinds(model: uncork.Model) -> list[str]:
    return [n.type_name for n in model.nodes if n.type_name not in ("Parameter", "Const", "Result")]


def exact(name: str, x: float) -> float:
    """The activation of one number in the 53 bits of Python's functions."""
    if name == "Swish":
        return x / (1 + math.exp(-x))
    if name == "Mish":
        return x * math.tanh(math.log1p(math.exp(x)))
    if name == "tanh":
        return x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    return x * math.erfc(-x / math.sqrt(2)) / 2


FORMS = [
    (swish, "Swish", "Swish"),
    (mish, "Mish", "Mish"),
    (gelu_halved_last, "Gelu", "erf"),
    (gelu_halved_first, "Gelu", "erf"),
    (gelu_in_two_terms, "Gelu", "erf"),
    (gelu_tanh_by_power, "Gelu", "tanh"),
    (gelu_tanh_by_products, "Gelu", "tanh"),
]


@pytest.mark.parametrize(("make", "type_name", "name"), FORMS)
def test_the_parts_become_one_layer_that_computes_the_same(
    make: Make, type_name: str, name: str
) -> None:
    fused = fuse_activations(model(make))
    assert kinds(fused) == [type_name]
    wanted = np.array([[exact(name, float(x)) for x in VALUES[0]]])
    for backend in ("cpu", "reference"):
        got = compile_model(model(make), backend=backend)({"x": VALUES})["y"]
        np.testing.assert_allclose(got, wanted, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize(("make", "type_name", "name"), FORMS)
def test_x_may_be_made_by_arithmetic_of_its_own(make: Make, type_name: str, name: str) -> None:
    fused = fuse_activations(model(make, biased=True))
    assert kinds(fused) == ["Multiply", "Add", type_name]
    wanted = np.array([[exact(name, 3 * float(x) + 0.25) for x in VALUES[0]]])
    got = compile_model(model(make, biased=True))({"x": VALUES})["y"]
    np.testing.assert_allclose(got, wanted, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize(("make", "type_name", "name"), FORMS)
def test_nan_and_infinity_are_what_the_parts_make_of_them(
    make: Make, type_name: str, name: str
) -> None:
    values = np.array([[np.nan, np.inf, -np.inf]], np.float32)
    got = compile_model(model(make))({"x": values})["y"][0]
    assert np.isnan(got[0])
    assert got[1] == np.inf
    assert np.isnan(got[2])  # -inf * 0


def _scaled(factor: float) -> Make:
    return lambda b, x: one(b, "Multiply", x, one(b, "Sigmoid", one(b, "Multiply", x, factor)))


def _other_root(b: uncork.Builder, x: Source) -> Source:
    raised = one(b, "Add", one(b, "Erf", one(b, "Divide", x, 1.41)), 1.0)
    return one(b, "Multiply", one(b, "Multiply", x, raised), 0.5)


def _not_halved(b: uncork.Builder, x: Source) -> Source:
    raised = one(b, "Add", one(b, "Erf", one(b, "Divide", x, math.sqrt(2))), 1.0)
    return one(b, "Multiply", x, raised)


def _of_another(b: uncork.Builder, x: Source) -> Source:
    return one(b, "Multiply", one(b, "Negative", x), one(b, "Sigmoid", x))


def _read_twice(b: uncork.Builder, x: Source) -> Source:
    gate = one(b, "Sigmoid", x)
    return one(b, "Subtract", one(b, "Multiply", gate, x), gate)


def _of_rows(b: uncork.Builder, x: Source) -> Source:
    rows = b.add("ReduceSum", 1, x, b.constant(np.array([1])), keep_dims=True)[0]
    return one(b, "Multiply", one(b, "Sigmoid", rows), x)


def _with_a_longer_half(b: uncork.Builder, x: Source) -> Source:
    raised = one(b, "Add", one(b, "Erf", one(b, "Divide", x, math.sqrt(2))), 1.0)
    half = b.constant(np.full((1, 1, 1), 0.5, np.float32))
    return one(b, "Multiply", one(b, "Multiply", x, raised), half)


@pytest.mark.parametrize(
    "make",
    [
        _scaled(1.5),
        _other_root,
        _not_halved,
        _of_another,
        _read_twice,
        _of_rows,
        _with_a_longer_half,
    ],
)
def test_others_stay(make: Make) -> None:
    given = model(make)
    assert fuse_activations(given) is given


def test_f64_stays() -> None:
    def make(b: uncork.Builder, x: Source) -> Source:
        return b.add("Multiply", 1, b.add("Sigmoid", 1, x)[0], x)[0]

    given = model(make, "f64")
    assert fuse_activations(given) is given
