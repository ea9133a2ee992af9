"""Cases of VDPBF16PS: which numbers come out."""

from __future__ import annotations

import numpy as np

from tests.kernels.avx512_bf16.case import LETTERS, case, check, filled, pair, random
from tests.kernels.avx512_bf16.steps import USUAL, Registers, Step, execute

INFINITY = float("inf")


def integer_products(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of small integers, exact in any order: words as f32, as pairs, as pairs."""
    left, right = (
        (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(int) for x in (a, b)
    )
    products = (left * right).reshape(-1, 2).sum(1)
    return (total.view(np.float32).astype(int) + products).astype(np.float32)


def dots(*cases: tuple[int, int, int], control: int = USUAL) -> list[int]:
    """The bits of total + pair * pair, from the bits of all three."""
    results: list[int] = []
    for first in range(0, len(cases), 16):
        part = np.array(cases[first : first + 16], np.uint32)
        registers = Registers()
        registers.words[1:4, : len(part)] = part.T
        registers.control[0] = control
        after = execute([Step("vdpbf16ps %zmm3, %zmm2, %zmm1", registers)])[0]
        assert after.control[0] == control, "MXCSR is not written"
        results.extend(map(int, after.words[1, : len(part)]))
    return results


def f32(number: float) -> int:
    return int(np.float32(number).view(np.uint32))


def numbers(*cases: tuple[float, tuple[float, float], tuple[float, float]]) -> list[float]:
    """The same for numbers: the total, the even and the odd factors, their partners."""
    bits = dots(*((f32(total), pair(*a), pair(*b)) for total, a, b in cases))
    return np.array(bits, np.uint32).view(np.float32).tolist()


@case
def products_of_every_register() -> None:
    steps, places = [], []
    for size, letter in LETTERS.items():
        for n in range(32):
            total, a, b = n, (7 * n + 3) % 32, (13 * n + 16) % 32
            registers = filled()
            registers.f32[total] = random.integers(-8, 9, 16)
            text = f"vdpbf16ps %{letter}mm{b}, %{letter}mm{a}, %{letter}mm{total}"
            steps.append(Step(text, registers))
            places.append((size, total, a, b))
    for step, after, (size, total, a, b) in zip(steps, execute(steps), places, strict=True):
        words = step.before.words[:, : size // 4]
        expected = integer_products(words[total], words[a], words[b])
        check(after, step.before, total, expected, step.text)


@case
def the_order_of_sums() -> None:
    """The odd products come first, and each sum is rounded."""
    big = 2.0**24
    found = numbers(
        (big, (1, 1), (1, 1)),  # each 1 is a tie, to even
        (big, (2, 1), (1, 1)),  # the odd 1 is swallowed, the even 2 is not
        (big, (1, 2), (1, 1)),  # the odd 2 makes it 2^24 + 2; 1 more is a tie, to 2^24 + 4
        (1.0, (-big, big), (1, 1)),  # the odd product swallows the 1
        (-big, (1, big), (1, 1)),
    )
    assert found == [big, big + 2, big + 4, 0, 1]


@case
def products_are_not_rounded() -> None:
    huge, small = 2.0**127, 2.0**-126
    found = numbers(
        (-huge, (0, huge), (0, 2)),  # 2^128 alone is infinite
        (small, (0, 2.0**-100), (0, 2.0**-40)),  # 2^-140 alone is flushed
    )
    assert found == [huge, np.float32(small + 2.0**-140)]


@case
def denormals_are_zeros() -> None:
    small, denormal = 2.0**-126, 2.0**-130
    found = numbers(
        (0, (denormal, 0), (2.0**100, 0)),
        (0, (0, 2.0**100), (0, denormal)),
        (denormal, (0, 0), (0, 0)),
        (denormal, (1, 0), (1, 0)),
        (0, (2.0**-70, 0), (2.0**-60, 0)),  # a result
        (1.5 * small, (small, -small), (1, 1)),  # after the odd product: half of the smallest
        (0, (small, 0), (1, 0)),
    )
    assert found == [0, 0, 0, 1, 0, small, small]
    signs = dots(
        (f32(0), pair(-(2.0**-70), -0.0), pair(2.0**-60, 1)),  # 0 - 0, then a negative number
        (f32(-denormal), pair(-0.0, -0.0), pair(1, 1)),
        (f32(-0.0), pair(0, -0.0), pair(1, 1)),
    )
    assert signs == [0x80000000, 0x80000000, 0], "what is flushed keeps its sign"


@case
def infinities() -> None:
    found = numbers(
        (0, (INFINITY, 0), (2, 0)),
        (0, (0, INFINITY), (0, -2)),
        (-INFINITY, (1, 1), (1, 1)),
        (3.0e38, (2.0**127, 0), (1.5, 0)),
        (0, (-INFINITY, 2.0**127), (1, 2.0**127)),
    )
    assert found[:4] == [INFINITY, -INFINITY, -INFINITY, INFINITY]
    assert np.isnan(found[4]), "the odd product alone is infinite"
    default = 0xFFC00000
    assert (
        dots(
            (f32(0), pair(INFINITY, 0), pair(0, 0)),
            (f32(0), pair(0, INFINITY), pair(0, 2.0**-130)),
            (f32(INFINITY), pair(0, INFINITY), pair(0, -1)),
            (f32(INFINITY), pair(INFINITY, 0), pair(-1, 0)),
        )
        == [default] * 4
    )


@case
def which_nan_comes_out() -> None:
    """By the manual's table of priorities: the lower half of the first operand, of the second, the
    upper half of the first, of the second, the total. It becomes quiet.
    """
    low_a, low_b, high_a, high_b, total = 0x7F81, 0x7F82, 0xFF83, 0x7F84, 0x7F850001
    one = 0x3F80
    found = dots(
        (total, high_a << 16 | low_a, high_b << 16 | low_b),
        (total, high_a << 16 | one, high_b << 16 | low_b),
        (total, high_a << 16 | one, high_b << 16 | one),
        (total, one << 16 | one, high_b << 16 | one),
        (total, one << 16 | one, one << 16 | one),
        (total, pair(INFINITY, INFINITY), pair(0, 0)),
        (f32(1), pair(0, INFINITY) | low_a, pair(1, 0)),
    )
    quiet = 0x00400000
    assert [hex(x) for x in found] == [
        hex(x | quiet)
        for x in (
            low_a << 16,
            low_b << 16,
            high_a << 16,
            high_b << 16,
            total,
            total,
            low_a << 16,
        )
    ]


@case
def the_control_of_other_arithmetic_is_not_asked() -> None:
    """MXCSR: rounding up, nothing masked; it is not written to either."""
    upwards_unmasked, denormal = 0x4000, f32(2.0**-130)
    assert dots(
        (f32(2.0**24), pair(1, 0), pair(1, 0)),
        (denormal, pair(1, 0), pair(1, 0)),
        (f32(0), pair(INFINITY, 0), pair(0, 0)),
        control=upwards_unmasked,
    ) == [f32(2.0**24), f32(1), 0xFFC00000]
