"""Sums and products of words whose known parts are computed as the text is written: against
Python's integers, and which instructions are left.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from tests.kernels.test_llvm_ir import run
from uncork.kernels.codegen.emit import I64, Kernel, Value


def instructions(k: Kernel, *words: str) -> int:
    """How many of these a kernel has."""
    return len(re.findall(rf"= ({'|'.join(words)}) i64", k.text()))


@pytest.mark.parametrize("seed", range(40))
def test_expressions_are_those_of_python(seed: int, tmp_path: Path) -> None:
    """Random sums, differences and products of two arguments and known numbers, large ones too,
    which wrap as words do; part of them inside a branch.
    """
    chance = random.Random(seed)
    given = [chance.choice([0, 1, -3, 7, (1 << 62) + 5, -(1 << 63)]) for _ in range(2)]
    k = Kernel("expression", ["a", "b"])
    pairs: list[tuple[Value, int]] = list(zip(k.arguments, given, strict=True))
    kept = k.variable(k.integer(0))

    def step() -> None:
        numbers = [0, 1, -1, 2, 64, -(1 << 40), (1 << 63) - 1]
        (x, a), (y, b) = chance.choice(pairs), chance.choice(pairs)
        if chance.random() < 0.6:
            b = chance.choice(numbers)
            y = k.integer(b)
            if chance.random() < 0.3:
                (x, a), (y, b) = (y, b), (x, a)
        word = chance.choice("+-*")
        made = x + y if word == "+" else x - y if word == "-" else x * y
        exact = a + b if word == "+" else a - b if word == "-" else a * b
        pairs.append((made, exact))

    for _ in range(12):
        step()
    with k.if_(k.arguments[0].equals(given[0])):
        before = len(pairs)
        for _ in range(6):
            step()
        kept.set(pairs[-1][0])
        expected = pairs[-1][1]
        del pairs[before:]
    for _ in range(6):
        step()
    k.finish(kept.get() - pairs[-1][0])
    wrapped = (expected - pairs[-1][1] + (1 << 63)) % (1 << 64) - (1 << 63)
    assert run(k, tmp_path, *given) == wrapped


def test_known_parts_are_added_up() -> None:
    """Places in a row that is `base + (i + 3) * 64` bytes away: one product, and one sum each."""
    k = Kernel("places", ["base", "i"])
    base, i = k.arguments
    for place in range(4):
        k.load(base + (i + 3) * 64 + place * 8, I64)
    k.finish()
    assert instructions(k, "mul") == 1
    assert instructions(k, "add") == 1 + 4, "base + i * 64, and to it 192, 200, 208 and 216"


def test_a_sum_that_is_only_added_to_is_not_written() -> None:
    k = Kernel("sum", ["a"])
    (a,) = k.arguments
    k.finish(((a + 5) * 2 - 10) * 1 + 0)
    assert instructions(k, "add", "sub") == 0 and instructions(k, "mul") == 1


def test_numbers_alone_need_no_instruction() -> None:
    k = Kernel("number", [])
    k.finish((k.integer(6) + 1) * 6 - k.integer(-1) * 0)
    assert "ret i64 42" in k.text() and instructions(k, "add", "sub", "mul") == 0


def test_what_a_branch_computes_is_not_used_behind_it(tmp_path: Path) -> None:
    """The same sum in two blocks, neither of which comes before the other one."""
    k = Kernel("branches", ["a"])
    (a,) = k.arguments
    total = k.variable(k.integer(0))
    with k.if_else(a > 0) as (then, otherwise):
        with then:
            total.set(a * 3 + 1)
        with otherwise:
            total.set(a * 3 + 2)
    k.finish(total.get() + (a * 3 + 1))
    assert run(k, tmp_path, 5) == 16 + 16
    assert run(k, tmp_path, -5) == -13 - 14
