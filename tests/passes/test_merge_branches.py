"""Sums of convolutions of one tensor: what becomes one convolution, what stays, and the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.compiler.compile import compile_model
from uncork.ir.model import Source
from uncork.passes.merge_branches import merge_branches

Make = Callable[[uncork.Builder, Source, np.random.Generator], Source]


def convolution(
    b: uncork.Builder,
    x: Source,
    rng: np.random.Generator,
    shape: tuple[int, ...],
    pads: int | tuple[list[int], list[int]] = 0,
    stride: int = 1,
    dilation: int = 1,
    biased: bool = True,
) -> Source:
    """A convolution with filters [O, C, k..], or [G, O, C, k..], and a bias."""
    grouped = len(shape) == 5
    axes = 2
    begin, end = ([pads] * axes, [pads] * axes) if isinstance(pads, int) else pads
    filters = b.constant(rng.standard_normal(shape).astype(np.float32))
    given: dict[str, Any] = {"strides": [stride] * axes, "dilations": [dilation] * axes}
    made = b.add(
        "GroupConvolution" if grouped else "Convolution", 1, x, filters,
        pads_begin=begin, pads_end=end, **given,
    )[0]  # fmt: skip
    if not biased:
        return made
    outputs = shape[0] * shape[1] if grouped else shape[0]
    return add(b, made, b.constant(rng.standard_normal((1, outputs, 1, 1)).astype(np.float32)))


def add(b: uncork.Builder, *terms: Source) -> Source:
    total = terms[0]
    for term in terms[1:]:
        total = b.add("Add", 1, total, term)[0]
    return total


def norm(b: uncork.Builder, x: Source, rng: np.random.Generator, channels: int) -> Source:
    numbers = [
        b.constant(rng.uniform(0.5, 1.5, channels).astype(np.float32))
        for _ in ("gamma", "beta", "mean", "variance")
    ]
    return b.add("BatchNormInference", 5, x, *numbers, epsilon=1e-5)[0]


def model(make: Make, channels: int = 8) -> uncork.Model:
    b = uncork.Builder("branches")
    rng = np.random.default_rng(1)
    x = b.parameter("x", "f32", [None, channels, None, None])
    b.result(make(b, x, rng), "y")
    return b.model()


def kinds(model: uncork.Model) -> list[str]:
    return [n.type_name for n in model.nodes if n.type_name not in ("Parameter", "Const", "Result")]


def agree(given: uncork.Model, channels: int = 8) -> None:
    for shape in ((2, channels, 9, 11), (1, channels, 16, 16)):
        x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
        wanted = compile_model(given, backend="reference")({"x": x})["y"]
        got = compile_model(given)({"x": x})["y"]
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-5 * np.abs(wanted).max())


def test_branches_of_a_block_are_one_convolution() -> None:
    def make(b: uncork.Builder, x: Source, rng: np.random.Generator) -> Source:
        whole = convolution(b, x, rng, (8, 8, 3, 3), 1)
        return add(b, convolution(b, x, rng, (8, 8, 1, 1)), whole, norm(b, x, rng, 8))

    given = model(make)
    assert kinds(merge_branches(given)) == ["Convolution", "Add"]
    agree(given)


def test_without_a_shift_the_sum_is_the_convolution() -> None:
    def make(b: uncork.Builder, x: Source, rng: np.random.Generator) -> Source:
        one, other = (convolution(b, x, rng, (8, 8, 3, 3), 1, biased=False) for _ in range(2))
        return add(b, one, other)

    given = model(make)
    assert kinds(merge_branches(given)) == ["Convolution"]
    agree(given)


@pytest.mark.parametrize(
    "branches",
    [
        [((4, 2, 2, 3, 3), {"pads": 1}), ((8, 1, 1, 1, 1), {})],  # finer groups
        [((8, 8, 3, 3), {"pads": 1}), ((2, 4, 4, 3, 3), {"pads": 1})],
        [((8, 8, 3, 3), {"pads": 2, "dilation": 2}), ((8, 8, 1, 1), {})],
        [((8, 8, 5, 5), {"pads": 2, "stride": 2}), ((8, 8, 3, 3), {"pads": 1, "stride": 2})],
        [((8, 8, 3, 3), {"pads": ([2, 0], [0, 2])}), ((8, 8, 1, 1), {})],
        [((8, 8, 3, 3), {"pads": ([2, 0], [0, 2])}), ((8, 8, 2, 1), {"pads": ([1, 0], [0, 0])})],
        [((16, 8, 1, 3), {"pads": ([0, 1], [0, 1])}), ((16, 8, 1, 1), {})],
    ],
)
def test_a_window_lies_in_another(branches: list[tuple[tuple[int, ...], dict[str, Any]]]) -> None:
    def make(b: uncork.Builder, x: Source, rng: np.random.Generator) -> Source:
        return add(b, *(convolution(b, x, rng, shape, **how) for shape, how in branches))

    given = model(make)
    merged = kinds(merge_branches(given))
    assert len(merged) == 2
    assert merged[0].endswith("Convolution")
    agree(given)


def test_what_else_is_added_stays() -> None:
    def make(b: uncork.Builder, x: Source, rng: np.random.Generator) -> Source:
        inner = convolution(b, x, rng, (8, 8, 3, 3), 1)
        short = b.add("ReLU", 1, convolution(b, x, rng, (8, 8, 1, 1)))[0]
        gate = b.add("ReduceMean", 1, x, b.constant(np.array([2, 3])), keep_dims=True)[0]
        return add(b, inner, short, convolution(b, x, rng, (8, 8, 1, 1)), gate)

    given = model(make)
    found = kinds(merge_branches(given))
    assert sorted(found) == sorted(
        ["Convolution", "Add", "ReLU", "ReduceMean", "Convolution", "Add", "Add", "Add"]
    )
    agree(given)


def test_a_sum_may_have_thousands_of_terms() -> None:
    def make(b: uncork.Builder, x: Source, rng: np.random.Generator) -> Source:
        total = add(b, *(convolution(b, x, rng, (8, 8, 1, 1), biased=False) for _ in range(2)))
        one = b.constant(np.full((1, 8, 1, 1), 0.001, np.float32))
        return add(b, total, *[one] * 3000)

    given = model(make)
    assert kinds(merge_branches(given)) == ["Convolution", "Add"]


def _unlike(
    first: tuple[tuple[int, ...], dict[str, Any]], second: tuple[tuple[int, ...], dict[str, Any]]
) -> Make:
    def make(b: uncork.Builder, x: Source, rng: np.random.Generator) -> Source:
        return add(b, *(convolution(b, x, rng, shape, **how) for shape, how in (first, second)))

    return make


def _of_others(b: uncork.Builder, x: Source, rng: np.random.Generator) -> Source:
    other = b.add("ReLU", 1, x)[0]
    return add(
        b, convolution(b, x, rng, (8, 8, 3, 3), 1), convolution(b, other, rng, (8, 8, 3, 3), 1)
    )


def _read_elsewhere(b: uncork.Builder, x: Source, rng: np.random.Generator) -> Source:
    one = convolution(b, x, rng, (8, 8, 1, 1), biased=False)
    b.result(one, "z")
    return add(b, convolution(b, x, rng, (8, 8, 3, 3), 1), one)


def _of_norms(b: uncork.Builder, x: Source, rng: np.random.Generator) -> Source:
    return add(b, norm(b, x, rng, 8), norm(b, x, rng, 8))


def _of_changing_filters(b: uncork.Builder, x: Source, rng: np.random.Generator) -> Source:
    filters = b.parameter("filters", "f32", [8, 8, 1, 1])
    settings: dict[str, Any] = {
        name: [1 if name in ("strides", "dilations") else 0] * 2
        for name in ("strides", "dilations", "pads_begin", "pads_end")
    }
    return add(
        b,
        convolution(b, x, rng, (8, 8, 3, 3), 1),
        b.add("Convolution", 1, x, filters, **settings)[0],
    )


@pytest.mark.parametrize(
    "make",
    [
        # It would multiply more: nine places of 64 numbers each.
        _unlike(((8, 8, 1, 1), {}), ((8, 1, 1, 3, 3), {"pads": 1})),
        # One output, which the sum stretches over eight.
        _unlike(((8, 8, 3, 3), {"pads": 1}), ((1, 8, 3, 3), {"pads": 1})),
        _of_others,
        _read_elsewhere,
        _of_norms,
        _of_changing_filters,
    ],
)
def test_others_stay(make: Make) -> None:
    given = model(make)
    assert merge_branches(given) is given


@pytest.mark.parametrize(
    ("first", "second", "shape"),
    [
        # The same sizes of results where the data have these sizes, and not for others.
        (((8, 8, 3, 3), {"pads": 1, "stride": 2}), ((8, 8, 1, 1), {"stride": 2}), None),
        (((8, 8, 3, 3), {"pads": 1}), ((8, 8, 1, 1), {"pads": 0}), None),
        (((8, 8, 3, 3), {"pads": 0}), ((8, 8, 3, 3), {"pads": ([1, 1], [-0, -0])}), "refused"),
    ],
)
def test_strides_and_pads(first: Any, second: Any, shape: str | None) -> None:
    given = model(_unlike(first, second))
    merged = merge_branches(given)
    if shape == "refused":  # results of different sizes: the sum is refused as it always was
        assert merged is given
    else:
        assert kinds(merged) == ["Convolution", "Add"]
        agree(given)
