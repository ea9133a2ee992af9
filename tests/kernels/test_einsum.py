"""Einsums with a constant against the sum written out: every order of labels that the kernel takes,
and why it does not take others.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import run_fenced
from tests.kernels._run import spec_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import host_target
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.types import ElementType, TensorSpec

SIZES = {"a": 2, "b": 3, "c": 5, "d": 18, "e": 7, "f": 1}


def summed(equation: str, operands: list[np.ndarray]) -> np.ndarray:
    """Every product of the equation by itself, in f64."""
    left, _, right = equation.partition("->")
    subscripts = left.split(",")
    labels = sorted(set("".join(subscripts)))
    result = np.zeros([SIZES[label] for label in right])
    for place in itertools.product(*(range(SIZES[label]) for label in labels)):
        at = dict(zip(labels, place, strict=True))
        factors = [
            operand[tuple(at[label] for label in part)]
            for operand, part in zip(operands, subscripts, strict=True)
        ]
        result[tuple(at[label] for label in right)] += float(factors[0]) * float(factors[1])
    return result


def chosen(equation: str, constant: int, name: str = "f32", sizes: dict[str, int] = SIZES):
    generator = np.random.default_rng(7)
    element_type = ElementType.parse(name)
    operands = [
        generator.standard_normal([sizes[label] for label in part]).astype(element_type.dtype)
        for part in equation.partition("->")[0].split(",")
    ]
    specs = [spec_of(operand, element_type) for operand in operands]
    known = [
        s if i == constant else TensorSpec(s.element_type, s.shape) for i, s in enumerate(specs)
    ]
    operation = find("Einsum", 7)(equation=equation)
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(known)]
    return select_kernel(operation, known, outputs, host_target()), specs, outputs, operands


@pytest.mark.parametrize(
    ("equation", "constant"),
    [
        ("ab,bc->ac", 1),
        ("ab,cb->ac", 1),
        ("cb,ab->ca", 0),
        ("cb,ab->ac", 0),  # the columns of the result lie apart
        ("dabc,abce->deab", 1),  # columns between rows and batches, which are two
        ("eabd,bdc->eabc", 1),
        ("abcd,ced->abce", 1),
        ("abcd,cde->cabe", 1),
        ("abcd,acde->abce", 1),
        ("abcd,acde->caeb", 1),
        ("abd,cd->abc", 1),
        ("ad,d->a", 1),
        ("a,b->ab", 1),  # nothing is summed
        ("af,fb->ab", 1),
        ("abc,bc->a", 1),  # no columns
        ("abc,bcde->ade", 1),
        ("ab,bcd->cad", 1),  # columns that are not neighbours
        ("ab,bcd->dac", 1),
        ("eab,becd->caed", 1),
        ("ab,bcde->cade", 1),
        ("abf,fcde->cadbe", 1),
        ("abc,bcde->aed", 1),  # the constant is turned
    ],
)
def test_orders(equation: str, constant: int) -> None:
    choice, specs, outputs, operands = chosen(equation, constant)
    assert isinstance(choice, KernelPlan), choice
    expected = summed(equation, operands)
    for threads, first in itertools.product((1, 2, 3), (False, True)):
        (got,) = run_fenced(choice, specs, outputs, first, threads)
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("equation", "constant", "name", "reason"),
    [
        ("ab,bc->ac", -1, "f32", "no kernel for other than two operands, one of them a constant"),
        ("ab,bc->ac", 1, "f64", "no kernel for f64"),
        (
            "ba,bc->ac",
            1,
            "f32",
            "no kernel for sums over other than the last dimensions of the data",
        ),
        (
            "aab,bc->ac",
            1,
            "f32",
            "no kernel for diagonals, dimensions that stretch and sums of one operand",
        ),
        (
            "ab,bcd->ac",
            1,
            "f32",
            "no kernel for diagonals, dimensions that stretch and sums of one operand",
        ),
        (
            "eab,bc->ac",
            1,
            "f32",
            "no kernel for diagonals, dimensions that stretch and sums of one operand",
        ),
    ],
)
def test_reasons(equation: str, constant: int, name: str, reason: str) -> None:
    assert chosen(equation, constant, name)[0] == reason
