"""Transposes that products read through: which go, which copy rows only, which stay, and the
results.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import uncork
from uncork.passes.fold_transposes import fold_transposes

RNG = np.random.default_rng(0)
Shape = tuple[int, ...]


def model(
    first: Shape, second: Shape, order: list[int], transposed: bool = False, also: bool = False
) -> uncork.Model:
    """`first` times what `order` makes of `second`, whose batch only the call knows; `also`: it is
    a result, too.
    """
    b = uncork.Builder("product")
    x = b.parameter("x", "f32", first)
    y = b.parameter("y", "f32", [None, *second[1:]])
    (turned,) = b.add("Transpose", 1, y, b.constant(np.array(order, np.int64)))
    (product,) = b.add("MatMul", 1, x, turned, transpose_b=transposed)
    b.result(product, "product")
    if also:
        b.result(turned, "turned")
    return b.model()


def orders(found: uncork.Model) -> list[list[int]]:
    """The orders of the transposes that are left."""
    left = fold_transposes(found)
    return [
        left.spec(node.inputs[1]).value.tolist()  # type: ignore[union-attr]
        for node in left.nodes
        if node.type_name == "Transpose"
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 19])
def test_any_order(order: tuple[int, ...], transposed: bool, rows: int) -> None:
    second = (2, 3, 5, 17)
    seen = tuple(second[axis] for axis in order)
    inner = seen[-1] if transposed else seen[-2]
    x = RNG.standard_normal((*seen[:-2], rows, inner)).astype(np.float32)
    y = RNG.standard_normal(second).astype(np.float32)
    found = model(x.shape, second, list(order), transposed)
    turned = y.transpose(order)
    expected = x.astype(np.float64) @ (turned.swapaxes(-1, -2) if transposed else turned)
    np.testing.assert_allclose(uncork.compile_model(found)(x, y)["product"], expected, atol=1e-4)
    if order[-2] == 3:
        left = [*order[:2], order[3], 3]
        assert orders(found) == ([] if left == [0, 1, 2, 3] else [left])
    else:
        assert orders(found) == [list(order)]


def test_what_others_read_stays() -> None:
    found = model((2, 4, 7), (2, 6, 7), [0, 2, 1], also=True)
    assert orders(found) == [[0, 2, 1]]


def test_what_nobody_reads_hinders_nothing() -> None:
    b = uncork.Builder("unread")
    x = b.parameter("x", "f32", [2, None, 4])
    b.add("Transpose", 1, x, b.constant(np.array([0, 2, 1], np.int64)))
    b.result(b.add("ReLU", 1, x)[0], "y")
    data = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(uncork.compile_model(b.model())(data)["y"], data.clip(0))
    fold_transposes(b.model())


def test_a_matrix_by_its_own_transpose() -> None:
    """`x @ x.T` reads one matrix both ways; `x.T @ x.T` needs the transpose."""
    for both in (False, True):
        b = uncork.Builder("gram")
        x = b.parameter("x", "f32", [6, 6])
        (turned,) = b.add("Transpose", 1, x, b.constant(np.array([1, 0], np.int64)))
        (y,) = b.add("MatMul", 1, turned if both else x, turned)
        b.result(y, "y")
        data = RNG.standard_normal((6, 6)).astype(np.float32)
        expected = (data.T if both else data).astype(np.float64) @ data.T
        found = b.model()
        np.testing.assert_allclose(uncork.compile_model(found)(data)["y"], expected, atol=1e-5)
        assert orders(found) == ([[1, 0]] if both else [])
