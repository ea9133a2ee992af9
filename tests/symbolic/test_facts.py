"""What one inference may conclude from what it has demanded and supposed."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uncork.symbolic import Facts, Origin, Size, maximum, minimum


def symbols(facts: Facts, *names: str, low: int = 1, kind: str = "input") -> list[Size]:
    return [
        Size.of(facts.symbol(name, low, None, kind, Origin(0, 0, i)))
        for i, name in enumerate(names)
    ]


def test_an_equality_replaces_the_symbol_that_was_found_last() -> None:
    facts = Facts()
    (steps,) = symbols(facts, "steps")
    (found,) = symbols(facts, "found", kind="found", low=0)
    facts.at(3, "layer 'mask'")
    assert facts.require_equal(found, 2 * steps)
    assert facts.canonical(found * 3 + 1) == 6 * steps + 1
    assert facts.certainly_equal(found, steps * 2)
    assert [str(c) for c in facts.checks] == ["found == 2*steps"]
    assert (facts.checks[0].node, facts.checks[0].where) == (3, "layer 'mask'")
    assert facts.require_equal(2 * steps, found)
    assert len(facts.checks) == 1, "what is known is not demanded again"


def test_equalities_go_through_one_another() -> None:
    facts = Facts()
    a, b, c = symbols(facts, "a", "b", "c")
    assert facts.require_equal(b, c)
    assert facts.require_equal(a, b)
    assert facts.certainly_equal(a, c)
    assert facts.canonical(c // 2 + b) == a // 2 + a


def test_an_equality_of_multiples_is_one_of_the_sizes() -> None:
    """As many heads of as many batches."""
    facts = Facts()
    (batches,) = symbols(facts, "batches")
    (found,) = symbols(facts, "found", kind="found")
    assert facts.require_equal(4 * found, 4 * batches)
    assert facts.certainly_equal(found, batches)
    (half,) = symbols(facts, "half", kind="found")
    assert facts.require_equal(half * Fraction(3, 2), batches * 6)
    assert facts.canonical(half) == batches * 4


def test_the_bounds_of_a_replaced_symbol_still_hold() -> None:
    facts = Facts()
    (n,) = symbols(facts, "n", low=0)
    m = Size.of(facts.symbol("m", 3, 7, "found", Origin(1, 0, 0)))
    facts.require_equal(m, n)
    assert facts.certainly_at_least(n, 3)
    assert facts.certainly_at_least(7, n)
    assert not facts.certainly_at_least(n, 4)


def test_what_is_at_least_0_is_not_cut() -> None:
    facts = Facts()
    n, begin = symbols(facts, "n", "begin")
    assert facts.larger(n - begin, 0) == maximum([n - begin, Size.of(0)])
    assert facts.require_at_least(n, begin)
    assert facts.larger(n - begin, 0) == n - begin
    assert facts.smaller(n, begin) == begin
    assert facts.certainly_at_least(n + 2, begin + 1)


def test_a_smallest_that_equals_one_of_its_sizes() -> None:
    """A table of 256 positions: the steps are as many as min(256, steps)."""
    facts = Facts()
    (steps,) = symbols(facts, "steps")
    taken = minimum([Size.of(256), steps])
    assert facts.certainly_at_least(steps, taken)
    assert facts.certainly_at_least(256, taken)
    assert facts.suppose_equal(taken, steps)
    assert [str(g) for g in facts.guards] == ["min(256, steps) == steps"]
    assert facts.certainly_at_least(256, steps)
    assert facts.canonical(taken) == steps
    assert facts.suppose_equal(steps, taken)
    assert len(facts.guards) == 1, "a question is asked once"


def test_impossible_demands_are_told_apart() -> None:
    facts = Facts()
    (n,) = symbols(facts, "n")
    assert not facts.require_equal(n + 1, n)
    assert not facts.require_equal(n, 0)
    assert not facts.require_at_least(n, n + 1)
    assert facts.checks == []


def test_questions_are_answered_by_hints() -> None:
    hints = {Origin(0, 0, 0): 5, Origin(0, 0, 1): 1}
    facts = Facts(hints)
    n, m = symbols(facts, "n", "m")
    assert not facts.suppose_equal(n, m)
    assert facts.suppose_equal(m, 1)
    assert facts.suppose_at_least(n, 4)
    assert [str(g) for g in facts.guards] == ["n != m", "m == 1", "n >= 4"]
    assert facts.canonical(n * m) == n
    assert facts.certainly_at_least(n, 4)


def test_without_hints_the_usual_answer_is_taken_for_granted() -> None:
    facts = Facts()
    n, m = symbols(facts, "n", "m")
    assert facts.suppose_equal(n, m)
    assert not facts.suppose_equal(n, 1, usual=False)
    assert not facts.suppose_at_least(n, 10, usual=False)
    assert [str(g) for g in facts.guards] == ["n == m", "n != 1", "n < 10"]
    assert facts.certainly_at_least(9, n)


@pytest.mark.parametrize(
    ("values", "broken"),
    [
        ((4, 4, 8), []),
        ((4, 3, 8), ["a == b"]),
        ((2, 2, 8), ["a >= 3"]),
        ((4, 4, 6), ["c is a multiple of 4"]),
    ],
)
def test_relations_look_at_values(values: tuple[int, ...], broken: list[str]) -> None:
    facts = Facts()
    a, b, c = symbols(facts, "a", "b", "c")
    facts.require_at_least(a, 3)
    facts.suppose_equal(a, b)
    facts.require_multiple(c, 4)
    bound = dict(zip(facts.symbols, values, strict=True))
    assert [str(r) for r in (*facts.guards, *facts.checks) if not r.holds(bound)] == broken


def test_a_multiple_that_is_certain_is_not_demanded() -> None:
    facts = Facts()
    (n,) = symbols(facts, "n")
    facts.require_multiple(8 * n, 4)
    facts.require_multiple(n * (n + 1), n)
    assert facts.checks == []
    facts.require_multiple(n * Fraction(1, 2) + n, 3)
    assert [str(c) for c in facts.checks] == ["3*n/2 is a multiple of 3"]


def test_a_quotient_that_is_exact_cancels_with_its_divisor() -> None:
    """Of n * h * w elements in rows of a * b there are q; q * a * b elements are all of them."""
    facts = Facts()
    n, h, w = symbols(facts, "n", "h", "w")
    a, b = h // 8, w // 8
    quotient = (n * h * w) // (a * b)
    assert not facts.certainly_equal(quotient * a * b, n * h * w), "it may leave a rest"
    facts.require_multiple(n * h * w, a * b)
    assert [str(c) for c in facts.checks] == [
        "n*h*w is a multiple of floor(h / 8)*floor(w / 8)",
    ]
    assert facts.certainly_equal(quotient * a * b, n * h * w)
    assert facts.certainly_equal(6 * quotient * a * a * b, 6 * n * h * w * a)
    assert str(facts.canonical(quotient * a)) == f"floor(h / 8)*{quotient}", "b is missing"
    # 2 * 24 * 16 elements in rows of 3 * 2: 128 of them.
    values = dict(zip(facts.symbols, (2, 24, 16), strict=True))
    assert quotient.evaluate(values) == 128
    assert facts.canonical(quotient * a * b).evaluate(values) == 128 * 6


def test_a_quotient_by_a_sum_cancels_with_it() -> None:
    facts = Facts()
    n, m = symbols(facts, "n", "m")
    facts.require_multiple(n * m, n + 1)
    assert facts.certainly_equal((n * m) // (n + 1) * (n + 1) * 5, 5 * n * m)


def test_no_product_is_replaced_by_functions_of_itself() -> None:
    """A product of two symbols is shorter than one of three atoms, but it is in one of these."""
    facts = Facts()
    n, m = symbols(facts, "n", "m")
    a, b, c = n // 2, m // 2, m // 3
    facts.require_multiple(n * m, a * b * c)
    assert facts.canonical(n * m) == n * m
    quotient = (n * m) // (a * b * c)
    assert facts.canonical(quotient * a * b * c) == n * m


def test_what_is_demanded_of_a_branch_is_forgotten_with_it() -> None:
    facts = Facts()
    n, m = symbols(facts, "n", "m")
    with facts.tentative():
        assert facts.require_equal(n, m)
        assert facts.certainly_equal(n, m)
        assert facts.suppose_at_least(n, 5)
    assert facts.checks == []
    assert not facts.certainly_equal(n, m)
    assert [str(g) for g in facts.guards] == ["n >= 5"], "what a result may rest on stays"


def test_names_are_told_apart() -> None:
    facts = Facts()
    assert [str(s) for s in symbols(facts, "n", "n", "n_2")] == ["n", "n_2", "n_2_2"]


def test_what_is_rounded_up_is_not_less() -> None:
    """Pads up to a whole number of strides, also of a length that was divided before."""
    facts = Facts()
    n, m = symbols(facts, "n", "m")
    for stride in (2, 3, 8):
        assert facts.certainly_at_least((n + stride - 1) // stride * stride, n)
        assert facts.certainly_at_least(n, n // stride * stride)
        assert not facts.certainly_at_least(n // stride * stride, n)
        assert facts.certainly_at_least(stride - 1, n - n // stride * stride)
        assert not facts.certainly_at_least(stride - 2, n - n // stride * stride)
    halves = (n + 1) // 2
    assert facts.certainly_at_least((halves + 3) // 4 * 4, halves)
    assert not facts.certainly_at_least(halves // 4 * 4, halves)
    assert not facts.certainly_at_least((n + 1) // 2 * 2, m)
    assert facts.certainly_at_least((n + 1) // 2 + m, n // 2 + 1)


@given(
    st.lists(
        st.tuples(st.integers(-6, 6), st.integers(-5, 9), st.integers(1, 9)), min_size=1, max_size=3
    ),
    st.integers(-9, 9),
    st.integers(-3, 3),
)
def test_what_is_certain_of_floors_holds(
    floors: list[tuple[int, int, int]], constant: int, factor: int
) -> None:
    """Sums of floors against their values for every small n."""
    facts = Facts()
    (n,) = symbols(facts, "n")
    size = n * factor + constant
    for times, shift, divisor in floors:
        size = size + (n + shift) // divisor * times
    values = [
        n_ * factor + constant + sum(t * ((n_ + s) // d) for t, s, d in floors)
        for n_ in range(1, 1300)
    ]
    if facts.certainly_at_least(size, 0):
        assert min(values) >= 0
    if facts.certainly_at_least(0, size):
        assert max(values) <= 0


def test_equal_products_are_one_size() -> None:
    """Batches and beams, flattened in several inputs."""
    facts = Facts()
    a, b, c, d = symbols(facts, "a", "b", "c", "d")
    assert facts.suppose_equal(c * d, a * b)
    assert [str(g) for g in facts.guards] == ["c*d == a*b"]
    assert facts.certainly_equal(3 * c * d + 1, 3 * a * b + 1)
    assert facts.canonical((7 * c * d) // (a * b)) == 7
    assert not facts.certainly_equal(c, a)
    assert facts.suppose_equal(c, a), "and one of them beside"
    assert facts.certainly_equal(d, b), "where the one is at least 1, the other follows"
    assert len(facts.guards) == 2


def test_a_product_may_be_a_number() -> None:
    """Patches of an image, to which as many positions are added."""
    facts = Facts()
    a, b, c = symbols(facts, "a", "b", "c")
    patches = (a // 16) * (b // 16)
    assert facts.suppose_equal(patches + 1, 17)
    assert len(facts.guards) == 1
    assert facts.canonical(3 * patches * c + 1) == 48 * c + 1
    assert not facts.certainly_equal(a // 16, 4)
    assert facts.suppose_equal(a // 16, 2)
    assert facts.certainly_equal(b // 16, 8)
    assert facts.suppose_equal(2 * a * c, 7), "of which no division is made"
    assert not facts.certainly_equal(a * c, 3)


def test_a_product_may_be_what_other_terms_are() -> None:
    """Patches that overlap, (a - 1) * (b - 2) of them, to which 20 positions are added."""
    facts = Facts()
    a, b = symbols(facts, "a", "b")
    patches = (a - 1) * (b - 2)
    assert facts.suppose_equal(patches, 20)
    assert facts.canonical(3 * patches + 1) == Size.of(61)
    assert facts.canonical(a * b) == 2 * a + b + 18
    assert facts.suppose_equal(a, 5)
    assert facts.certainly_equal(b, 7)


def test_products_that_are_found_are_replaced_by_what_is_known_before() -> None:
    """n is of the call, rows and columns are found: n stays as it is."""
    facts = Facts()
    rows, columns = (
        Size.of(facts.symbol(name, 0, None, "found", Origin(1, 0, place)))
        for place, name in enumerate(("rows", "columns"))
    )
    n = Size.of(facts.symbol("n", 0, None, "input", Origin(0, 0, 0)))
    assert facts.require_equal(n, rows * columns)
    assert facts.canonical(n) == n
    assert facts.canonical(rows * columns + 1) == n + 1
    assert facts.require_equal(rows * columns, 6)
    assert facts.certainly_equal(n, 6)


def test_nothing_is_replaced_by_what_is_found_later() -> None:
    """The side of a square of patches is found twice: once as a number, once by halving it."""
    facts = Facts()
    rows, columns = (
        Size.of(facts.symbol(name, 1, None, "input", Origin(0, 0, place)))
        for place, name in enumerate(("rows", "columns"))
    )
    side, again = (
        Size.of(facts.symbol(name, 0, None, "number", Origin(node, 0, 0, True)))
        for node, name in enumerate(("side", "again"), 1)
    )
    half = (again + 1) // 2
    assert facts.require_equal(rows * columns, side * side)
    assert facts.suppose_equal(2 * half, again)
    assert facts.certainly_equal(2 * half, again)
    assert facts.suppose_equal(4 * half * half, rows * columns)
    assert facts.suppose_equal(2 * half, side)
    for known_before in (rows * columns, side):
        assert facts.canonical(known_before) == known_before
    assert facts.certainly_equal(side * side, rows * columns)
    assert facts.certainly_equal(again, side)
    assert facts.certainly_equal((side + 1) // 2 * 2, side), "as of what is equal to it"
    assert len(facts.guards) == 3


def test_part_of_a_size_is_in_the_place_of_what_is_found_only_where_it_may_be_whole() -> None:
    facts = Facts()
    (n,) = symbols(facts, "n")
    found = Size.of(facts.symbol("found", 0, None, "found", Origin(1, 0, 0)))
    assert facts.require_equal(3 * found, n)
    assert facts.certainly_equal(6 * found, 2 * n)
    assert facts.canonical(n) == n
    assert facts.certainly_equal((n + 3) // 3, found + 1), "a third of n is a whole number"
    other = Facts()
    (m,) = symbols(other, "m")
    other.require_equal(2 * m, 5)  # no call keeps it
    assert other.canonical(m) == m


def test_a_factor_of_both_sides_says_nothing_where_it_may_be_0() -> None:
    facts = Facts()
    (n,) = symbols(facts, "n", low=0)
    a, b, m = symbols(facts, "a", "b", "m")
    assert facts.require_equal(m * a, m * b)
    assert facts.certainly_equal(a, b)
    other = Facts()
    (n,) = symbols(other, "n", low=0)
    a, b = symbols(other, "a", "b")
    assert other.require_equal(n * a, n * b)
    assert not other.certainly_equal(a, b)
    assert other.certainly_equal(n * a, n * b)


def test_equal_products_of_a_branch_are_forgotten_with_it() -> None:
    facts = Facts()
    a, b, c, d = symbols(facts, "a", "b", "c", "d")
    with facts.tentative():
        assert facts.require_equal(a * b, c * d)
        assert facts.certainly_equal(a * b, c * d)
    assert not facts.certainly_equal(a * b, c * d)


def test_floors_of_what_is_in_order_are_in_order() -> None:
    facts = Facts()
    (x,) = symbols(facts, "x")
    assert facts.certainly_at_least(x // 4, x // 8)
    assert facts.certainly_at_least(2 * (x // 4), 2 * (x // 8))
    assert facts.certainly_at_least((x + 3) // 4 * 5, (x // 8) * 3)
    assert not facts.certainly_at_least(x // 8, x // 4)
    assert not facts.certainly_at_least(x // 4, x // 3)
    assert not facts.certainly_at_least(x // 4, 2 * (x // 8) + 1)


def test_a_product_of_what_is_at_least_0_is() -> None:
    """Windows of an image whose sides are computed: a divisor, as long as none is 0."""
    facts = Facts()
    x, y = symbols(facts, "x", "y")
    sides = [(side - 4 * (side // 8) + 28) // 32 for side in (x, y)]
    assert all(
        (n - 4 * (n // 8) + 28) // 32 >= 0 for n in range(1, 400)
    )  # though no bound says so: the rest is at least half of the side
    assert sides[0].bounds[0] < 0
    assert facts.certainly_at_least(sides[0] * sides[1], 0)
    assert not facts.certainly_at_least(sides[0] * sides[1], 1)
    assert not facts.certainly_at_least(sides[0] * (sides[1] - 1), 0)
