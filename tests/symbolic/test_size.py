"""Normal forms by hand, and random expressions against the numbers that they stand for."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from uncork.symbolic import (
    Facts,
    Origin,
    Size,
    Symbol,
    ceil,
    floor,
    maximum,
    minimum,
    plain,
    quotient,
    substitute,
)

FACTS = Facts()


def size(name: str, low: int = 0, high: int | None = None) -> Size:
    return Size.of(FACTS.symbol(name, low, high, "input", Origin(0, 0, 0)))


BATCH, STEPS, HEADS = size("batch", 1), size("steps", 1), size("heads", 1)
ANY = size("any")


def third(x: Size) -> Size:
    return x * Fraction(1, 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (STEPS * 2 + STEPS, 3 * STEPS),
        ((STEPS + 1) * (STEPS - 1), STEPS * STEPS - 1),
        (BATCH * STEPS - STEPS * BATCH, Size.of(0)),
        (STEPS // 2 // 2, STEPS // 4),
        ((STEPS // 2 + 3) // 2, (STEPS + 6) // 4),
        ((4 * STEPS + 7) // 4, STEPS + 1),
        ((STEPS * 3) // 2, STEPS + STEPS // 2),
        (ceil(third(STEPS)), (STEPS + 2) // 3),
        (ceil(ceil(STEPS * Fraction(1, 2)) * Fraction(1, 2)), (STEPS + 3) // 4),
        (-(-STEPS // 2), (STEPS + 1) // 2),
        ((STEPS * 2 + 1) // 4, STEPS // 2),
        (floor(third(STEPS) + Fraction(1, 2)), floor(third(STEPS) + Fraction(1, 3))),
        ((BATCH * STEPS * 12) // STEPS, 12 * BATCH),
        ((BATCH * STEPS * 6) // (BATCH * 4), (STEPS * 3) // 2),
        ((BATCH * STEPS * 2) // (HEADS * STEPS * 4), BATCH // (HEADS * 2)),
        (STEPS % 1, Size.of(0)),
        ((8 * STEPS + 3) % 8, Size.of(3)),
        (maximum([STEPS, STEPS - 1]), STEPS),
        (maximum([maximum([STEPS, BATCH]), HEADS]), maximum([HEADS, STEPS, BATCH])),
        (maximum([STEPS + 2, BATCH + 2]), maximum([STEPS, BATCH]) + 2),
        (maximum([STEPS, Size.of(0)]), STEPS),
        (minimum([STEPS, Size.of(1)]), Size.of(1)),
        (-maximum([-STEPS, -BATCH]), minimum([STEPS, BATCH])),
    ],
)
def test_equal_sizes_have_one_form(one: Size, other: Size) -> None:
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (STEPS, BATCH),
        (STEPS // 2 * 2, STEPS),
        (maximum([STEPS, BATCH]), STEPS),
        ((BATCH * ANY) // (HEADS * ANY), BATCH // HEADS),
    ],
)
def test_different_sizes_have_different_forms(one: Size, other: Size) -> None:
    """The last pair differs where what seems to cancel is 0."""
    assert one != other


def test_exact_division_of_polynomials() -> None:
    assert (2 * STEPS * BATCH + 6 * BATCH).over(STEPS + 3) == 2 * BATCH
    assert (STEPS * STEPS - 1).over(STEPS + 1) == STEPS - 1
    assert (STEPS + 1).over(STEPS) is None
    assert (STEPS + 1).over(Size.of(0)) is None
    assert (STEPS + 1).over(Size.of(2)) == STEPS * Fraction(1, 2) + Fraction(1, 2)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (4 * STEPS + 1, "4*steps + 1"),
        (256 - STEPS, "256 - steps"),
        (-STEPS - 1, "-steps - 1"),
        (STEPS * BATCH * STEPS, "batch*steps^2"),
        (STEPS * Fraction(3, 2), "3*steps/2"),
        ((STEPS + 2) // 3, "floor((steps + 2) / 3)"),
        (3 * minimum([STEPS, Size.of(256)]) + 1, "3*min(256, steps) + 1"),
        (maximum([STEPS - BATCH, Size.of(0)]), "max(0, steps - batch)"),
        ((STEPS + 1) // BATCH, "floor((steps + 1) / batch)"),
        (Size.of(0), "0"),
        (Size.of(Fraction(1, 2)), "1/2"),
    ],
)
def test_text(expression: Size, text: str) -> None:
    assert str(expression) == text


def test_an_open_size_decides_nothing() -> None:
    for decide in (
        bool,
        int,
        range,
        lambda n: n < 3,
        lambda n: n == 3,
        lambda n: n <= 3,
        lambda n: [1, 2][n],
        lambda n: n in (1, 2),
    ):
        with pytest.raises(TypeError):
            decide(STEPS)
    assert Size.of(3) == 3
    assert plain(STEPS - STEPS + 3) == 3
    assert plain(STEPS) is STEPS


def test_values() -> None:
    (steps,) = STEPS.symbols
    (batch,) = BATCH.symbols
    assert (4 * STEPS + 1).evaluate({steps: 10**30}) == 4 * 10**30 + 1
    assert (STEPS // (BATCH - 1)).evaluate({steps: 7, batch: 1}) == 7  # a divisor of 0 counts as 1
    with pytest.raises(ValueError, match="the size steps/2 is 7/2, which is no whole number"):
        (STEPS * Fraction(1, 2)).evaluate({steps: 7})
    with pytest.raises(KeyError):
        STEPS.evaluate({})


def test_substitution_finds_the_normal_form_again() -> None:
    (steps,) = STEPS.symbols
    assert substitute(maximum([STEPS, BATCH]) + STEPS // 2, {steps: 2 * BATCH}) == 3 * BATCH
    assert substitute(BATCH // STEPS, {steps: Size.of(0)}) == BATCH


def test_bounds() -> None:
    few = size("few", 2, 5)
    assert (few * 3 - 1).bounds == (5, 14)
    assert (few - few * few).bounds == (2 - 25, 5 - 4)
    assert (-ANY).bounds == (-math.inf, 0)
    assert (ANY * few // 2).bounds == (0, math.inf)
    assert maximum([few, ANY]).bounds == (2, math.inf)


Pair = tuple[Size, Fraction]


def random_pair(depth: int, values: dict[Symbol, int], generator: random.Random) -> Pair:
    """An expression and its value, computed beside it."""
    if depth == 0:
        symbol = generator.choice(list(values))
        number = generator.randint(-5, 5)
        return (
            (Size.of(symbol), Fraction(values[symbol]))
            if generator.random() < 0.7
            else (Size.of(number), Fraction(number))
        )
    (a, x), (b, y) = (random_pair(depth - 1, values, generator) for _ in range(2))
    factor, shift = (
        Fraction(generator.randint(-5, 5), generator.randint(1, 6)),
        Fraction(generator.randint(-5, 5), 3),
    )
    choices: list[Pair] = [
        (a + b, x + y),
        (a - b, x - y),
        (a * b, x * y),
        (floor(a * factor + shift), Fraction(math.floor(x * factor + shift))),
        (ceil(a * factor + shift), Fraction(math.ceil(x * factor + shift))),
        (maximum([a, b]), max(x, y)),
        (minimum([a, b]), min(x, y)),
        (quotient(a, maximum([b, Size.of(1)])), x // max(y, 1)),
    ]
    return generator.choice(choices)


@pytest.mark.parametrize("seed", range(60))
def test_random_expressions(seed: int) -> None:
    generator = random.Random(seed)
    for depth in (1, 2, 3, 3, 4, 4):
        values = {
            symbol: generator.randint(1, 20)
            for expression in (STEPS, BATCH, ANY)
            for symbol in expression.symbols
        }
        expression, value = random_pair(depth, values, generator)
        assert expression.exact_value(values) == value, f"{expression} with {values}"
        low, high = expression.bounds
        assert low <= value <= high, f"{expression} with {values}"
        some = {symbol: Size.of(number) for symbol, number in list(values.items())[:2]}
        assert substitute(expression, some).exact_value(values) == value
