"""Size programs against the numbers that sizes stand for: random polynomials of whole numbers, of
their parts, and of functions of both.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from uncork.compiler.size_program import SizeProgram
from uncork.kernels.runtime.segment_plan import Op
from uncork.symbolic import Facts, Origin, Size, floor, maximum, quotient

_MEANS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "max": max,
}


def computed(size: Size, values: dict[object, int]) -> int:
    """The number that a program computes for a size, operation by operation."""
    ops: list[Op] = []
    program = SizeProgram(lambda: ops)
    slots = {symbol: program.bind(symbol) for symbol in values}
    result = program.slot(size)
    numbers = list(program.values)
    for symbol, slot in slots.items():
        numbers[slot.index] = values[symbol]
    for op in ops:
        numbers[op.result.index] = _MEANS[op.operation](numbers[op.a.index], numbers[op.b.index])
    return numbers[result.index]


def some_size(chance: random.Random, symbols: list[Size], depth: int) -> Size:
    if depth == 0:
        part = Fraction(chance.randint(-3, 3), chance.choice((1, 1, 2, 3, 4)))
        return chance.choice(symbols) * part + chance.randint(-2, 2)
    a, b = (some_size(chance, symbols, depth - 1) for _ in range(2))
    kind = chance.choice(("sum", "product", "floor", "max", "quotient"))
    if kind == "sum":
        return a + b
    if kind == "product":
        return a * b
    if kind == "floor":
        return floor(a)
    return maximum([a, b]) if kind == "max" else quotient(a, floor(b * b) + 1)


@pytest.mark.parametrize("seed", range(200))
def test_a_program_computes_what_a_size_is(seed: int) -> None:
    chance, facts = random.Random(seed), Facts()
    symbols = [facts.symbol(n, 0, None, "input", Origin(0, 0, i)) for i, n in enumerate("ab")]
    size = some_size(chance, [Size.of(symbol) for symbol in symbols], 2)
    for _ in range(5):
        values = {symbol: chance.randint(0, 9) for symbol in symbols}
        if size.constant is None:
            assert computed(size, values) == math.floor(size.exact_value(values)), (size, values)


def test_the_largest_of_parts() -> None:
    facts = Facts()
    n = facts.symbol("n", 0, None, "input", Origin(0, 0, 0))
    size = maximum([Size.of(-1), Size.of(n) * Fraction(-1, 4)]) + Size.of(n) * Fraction(3, 4)
    # By hand: max(-1, -6/4) + 18/4 is 3.5, max(-1, -2/4) + 6/4 is 1.
    assert [computed(size, {n: value}) for value in (6, 2, 0)] == [3, 1, 0]
