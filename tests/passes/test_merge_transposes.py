"""Transposes of transposes: what becomes one, what goes, what stays, and the results."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

import uncork
from uncork.passes.merge_transposes import merge_transposes

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ORDERS = list(itertools.permutations(range(3)))


def model(*orders: list[int], between: str = "", also: bool = False) -> uncork.Model:
    """Transposes one after the other; `between` is a layer behind the first, which `also` may be
    an output.
    """
    b = uncork.Builder("turned")
    (value,) = (b.parameter("x", "f32", [2, None, 4]),)
    for i, order in enumerate(orders):
        (value,) = b.add("Transpose", 1, value, b.constant(np.array(order, np.int64)))
        if i == 0 and also:
            b.result(value, "first")
        if i == 0 and between:
            (value,) = b.add(between, 1, value)
    b.result(value, "y")
    return b.model()


def count(model: uncork.Model) -> int:
    return Counter(n.type_name for n in merge_transposes(model).nodes)["Transpose"]


@pytest.mark.parametrize("first", ORDERS)
@pytest.mark.parametrize("second", ORDERS)
def test_two_are_one_or_none(first: list[int], second: list[int]) -> None:
    given = model(list(first), list(second))
    turned = X.transpose(first).transpose(second)
    assert count(given) == (0 if turned.shape == X.shape and (turned == X).all() else 1)
    found = uncork.compile_model(given)(X)[0]
    np.testing.assert_array_equal(found, turned)


def test_three_and_no_order_at_all() -> None:
    """An empty order is the reverse."""
    given = model([1, 0, 2], [], [2, 0, 1])
    assert count(given) == 1
    expected = X.transpose(1, 0, 2).transpose().transpose(2, 0, 1)
    np.testing.assert_array_equal(uncork.compile_model(given)(X)[0], expected)


def test_one_that_others_read_stays_for_all() -> None:
    """Two moves of the same elements would be more work."""
    given = model([1, 0, 2], [2, 0, 1], also=True)
    assert merge_transposes(given) is given


def test_one_that_others_read_stays_for_them() -> None:
    given = model([1, 0, 2], [1, 0, 2], also=True)
    assert count(given) == 1
    first, second = uncork.compile_model(given)(X)
    np.testing.assert_array_equal(first, X.transpose(1, 0, 2))
    np.testing.assert_array_equal(second, X)


def test_others_stay() -> None:
    for given in (model([1, 0, 2]), model([1, 0, 2], [1, 0, 2], between="ReLU")):
        assert merge_transposes(given) is given


def test_an_order_of_the_call_stays() -> None:
    b = uncork.Builder("asked")
    x, order = b.parameter("x", "f32", [2, 3, 4]), b.parameter("order", "i64", [3])
    (first,) = b.add("Transpose", 1, x, b.constant(np.array([1, 0, 2])))
    b.result(b.add("Transpose", 1, first, order)[0], "y")
    given = b.model()
    assert merge_transposes(given) is given
    found = uncork.compile_model(given)(X, np.array([2, 1, 0]))[0]
    np.testing.assert_array_equal(found, X.transpose(1, 0, 2).transpose(2, 1, 0))
