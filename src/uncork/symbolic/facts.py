"""`Facts`: what one inference knows of its sizes: equalities, guards that are taken for granted,
and checks that calls must pass.

A rule of an operation that meets open sizes either demands (`require_equal`: a `Check`; broken, the
call is wrong and is refused) or asks (`suppose_equal`: a `Guard`; broken, the call needs another
plan). What is certain by bounds and earlier answers is neither. Every answer is a fact for the
questions behind it: of two equal sizes one symbol is replaced by the other side.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Literal

from msgspec import Struct

from uncork.symbolic.atoms import (
    Atom,
    Function,
    Monomial,
    Origin,
    Symbol,
    monomial_order,
)
from uncork.symbolic.intervals import exact
from uncork.symbolic.lower_bounds import LowerBounds
from uncork.symbolic.size import Size, SizeLike, floor, maximum, without
from uncork.symbolic.substitution import substitute

RelationKind = Literal["==", "!=", ">=", "<", "is a multiple of"]
#: Which symbol an equality replaces: the last of these kinds.
_KINDS = ("input", "state", "found", "number")
#: How often equalities are put into what equalities have changed.
_ROUNDS = 3


class Relation(Struct, frozen=True):
    """Two sizes and how they relate, with the layer that looks at them: its node's id and its label
    for messages.
    """

    left: Size
    kind: RelationKind
    right: Size
    node: int
    where: str

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The symbols whose numbers are needed to test the relation."""
        return self.left.symbols | self.right.symbols

    def holds(self, values: Mapping[Symbol, int]) -> bool:
        """Whether the relation holds for these values of symbols. Raises KeyError where one is
        missing.
        """
        left, right = self.left.exact_value(values), self.right.exact_value(values)
        if self.kind == "is a multiple of":
            return left == 0 if not right else Fraction(left) % right == 0
        return {"==": left == right, "!=": left != right, ">=": left >= right, "<": left < right}[
            self.kind
        ]

    def __str__(self) -> str:
        return f"{self.left} {self.kind} {self.right}"


class Guard(Relation, frozen=True):
    """A relation that a plan takes for granted. A call that breaks it is right, but needs another
    plan.
    """


class Check(Relation, frozen=True):
    """A relation that every call has to keep. One that breaks it is refused, in the words of the
    layer's reference.
    """


class Facts:
    """Symbols, equalities, guards and checks of one inference."""

    def __init__(self, hints: Mapping[Origin, int] | None = None) -> None:
        """`hints` are values of symbols that questions are answered by; without them the usual
        answer is taken.
        """
        self.symbols: list[Symbol] = []
        #: Symbols, and functions of them, that are no longer needed, and what they equal.
        self.equal: dict[Atom, Size] = {}
        #: The same of products of several symbols, of which none stands alone.
        self.equal_products: dict[Monomial, Size] = {}
        #: Sizes that are known to be at least 0.
        self.at_least_0 = LowerBounds()
        self.guards: list[Guard] = []
        self.checks: list[Check] = []
        #: Numbers of the call from whose bounds something was concluded.
        self.rested: set[Symbol] = set()
        self._hints = dict(hints or {})
        self._node, self._where = -1, ""
        #: What bodies of layers were found to give, by whatever their describer asks by: see
        #: `tentative`.
        self.described: dict[Hashable, Any] = {}
        self._names: set[str] = set()
        self._checked: set[tuple[Size, RelationKind, Size]] = set()
        self._canonical: dict[Size, Size] = {}

    def at(self, node: int, where: str) -> None:
        """Have this layer demand and ask from here on."""
        self._node, self._where = node, where

    def symbol(self, name: str, low: int, high: int | None, kind: str, origin: Origin) -> Symbol:
        """A new symbol; another one of its name makes it `name_2`."""
        unique, number = name, 1
        while unique in self._names:
            number += 1
            unique = f"{name}_{number}"
        self._names.add(unique)
        symbol = Symbol(unique, low, high, kind, origin, self, len(self.symbols))
        self.symbols.append(symbol)
        return symbol

    # ---- what is known

    @property
    def has_equalities(self) -> bool:
        """Whether anything is known to equal something else."""
        return bool(self.equal or self.equal_products)

    def equalities(self) -> Iterator[tuple[Size, Size]]:
        """Sizes that are replaced, each with what is in its place."""
        for product in (*((atom,) for atom in self.equal), *self.equal_products):
            replaced = Size({product: 1})
            yield replaced, self.canonical(replaced)

    def changes(self, size: Size) -> bool:
        """Whether an equality may be put into a size."""
        return not size.atoms.isdisjoint(self.equal) or any(
            map(size.atoms.issuperset, self.equal_products)
        )

    def canonical(self, size: SizeLike) -> Size:
        """The size with all equalities put in."""
        size = Size.of(size)
        if not self.changes(size):
            return size
        known = self._canonical.get(size)
        if known is None:
            known = size
            for _ in range(
                _ROUNDS
            ):  # what is put in may make a function that is replaced in its turn
                known = substitute(known, self.equal, self.equal_products)
            self._canonical[size] = known
        return known

    def certainly_equal(self, a: SizeLike, b: SizeLike) -> bool:
        """Whether both are the same number in every call that keeps the guards and checks."""
        return not self._difference(a, b).terms

    def certainly_different(self, a: SizeLike, b: SizeLike) -> bool:
        """Whether there is no such call in which both are the same number."""
        return self.certainly_at_least(a, b + 1) or self.certainly_at_least(b, a + 1)

    def certainly_at_least(self, a: SizeLike, b: SizeLike) -> bool:
        """a >= b in every such call."""
        difference = self._difference(a, b)
        certain = self.at_least_0.certainly(difference)
        if certain:
            self.rest_on(difference)
        return certain

    def rest_on(self, size: Size) -> None:
        """Note that something was concluded from the bounds of these symbols: a number of the call
        that lies outside of them needs the references.
        """
        self.rested |= {symbol for symbol in size.symbols if symbol.origin.is_element}

    def smaller(self, a: SizeLike, b: SizeLike) -> Size:
        """The smaller of two sizes: one of them where that is certain."""
        return -self.larger(-Size.of(a), -Size.of(b))

    def larger(self, a: SizeLike, b: SizeLike) -> Size:
        """The larger of two sizes: one of them where that is certain."""
        a, b = self.canonical(a), self.canonical(b)
        return (
            a
            if self.certainly_at_least(a, b)
            else b
            if self.certainly_at_least(b, a)
            else maximum([a, b])
        )

    # ---- what is demanded

    def require_equal(self, a: SizeLike, b: SizeLike) -> bool:
        """Demand that a == b. False when that is never so."""
        if self.certainly_equal(a, b):
            return True
        if self.certainly_different(a, b):
            return False
        self._check(a, "==", b)
        self._equate(self._difference(a, b))
        return True

    def require_at_least(self, a: SizeLike, b: SizeLike) -> bool:
        """Demand that a >= b. False when that is never so."""
        if self.certainly_at_least(a, b):
            return True
        if self.certainly_at_least(b, a + 1):
            return False
        self._check(a, ">=", b)
        self.at_least_0.add(self._difference(a, b))
        return True

    def require_multiple(self, a: SizeLike, b: SizeLike) -> None:
        """Demand that b divides a: then b times their quotient is a again."""
        a, b = self.canonical(a), self.canonical(b)
        ratio = a.over(b)
        if ratio is not None and ratio.is_whole:
            return
        self._check(a, "is a multiple of", b)
        if ratio is None and b.constant is None:
            self._equate(self._difference(b * (a // b), a))

    # ---- what is asked

    def suppose_equal(self, a: SizeLike, b: SizeLike, usual: bool = True) -> bool:
        """Whether a == b: what is certain, else what the hints say, else the usual answer, which is
        then taken for granted.
        """
        if self.certainly_equal(a, b):
            return True
        if self.certainly_different(a, b):
            return False
        difference = self._difference(a, b)
        hinted = self._hinted(difference)
        answer = usual if hinted is None else hinted == 0
        self._guard(a, "==" if answer else "!=", b)
        if answer:
            self._equate(difference)
        return answer

    def suppose_at_least(self, a: SizeLike, b: SizeLike, usual: bool = True) -> bool:
        """Whether a >= b: what is certain, else what the hints say, else the usual answer, which is
        then taken for granted.
        """
        if self.certainly_at_least(a, b):
            return True
        if self.certainly_at_least(b, a + 1):
            return False
        difference = self._difference(a, b)
        hinted = self._hinted(difference)
        answer = usual if hinted is None else hinted >= 0
        self._guard(a, ">=" if answer else "<", b)
        self.at_least_0.add(difference if answer else -difference - int(difference.is_whole))
        return answer

    @contextmanager
    def tentative(self) -> Iterator[None]:
        """A context for demands that may not come to pass (a branch that is not taken): they are
        forgotten at its end, guards are not.
        """
        kept = (
            dict(self.equal),
            dict(self.equal_products),
            self.at_least_0.copy(),
            list(self.checks),
            set(self._checked),
            dict(self.described),
        )
        try:
            yield
        finally:
            self.equal, self.equal_products, self.at_least_0 = kept[:3]
            self.checks, self._checked, self.described = kept[3:]
            self._canonical.clear()

    # ---- inner workings

    def _difference(self, a: SizeLike, b: SizeLike) -> Size:
        return self.canonical(Size.of(a) - b)

    def _guard(self, a: SizeLike, kind: RelationKind, b: SizeLike) -> None:
        self.guards.append(Guard(*self._sides(a, b, kind), self._node, self._where))

    def _check(self, a: SizeLike, kind: RelationKind, b: SizeLike) -> None:
        sides = self._sides(a, b, kind)
        if sides not in self._checked:
            self._checked.add(sides)
            self.checks.append(Check(*sides, self._node, self._where))

    def _sides(
        self, a: SizeLike, b: SizeLike, kind: RelationKind
    ) -> tuple[Size, RelationKind, Size]:
        """A relation without the terms that both its sides have."""
        left, right = self.canonical(a), self.canonical(b)
        if kind == "is a multiple of":
            return left, kind, right
        shared = Size({m: f for m, f in left.terms.items() if m and right.terms.get(m) == f})
        return left - shared, kind, right - shared

    def usual(self, size: SizeLike) -> int | Fraction | None:
        """The value of a size in calls like those of the hints; None when they leave it open."""
        return self._hinted(size) if isinstance(size, Size) else size

    def _hinted(self, size: Size) -> int | Fraction | None:
        """The value of a size by the hints; None when they do not tell it."""
        values = {s: self._hints[s.origin] for s in size.symbols if s.origin in self._hints}
        return size.exact_value(values) if len(values) == len(size.symbols) else None

    def _equate(self, difference: Size) -> None:
        """Record that a difference is 0: a product that is known later than what it equals is
        replaced by that, else an atom that occurs alone in one term by the rest; the last found
        symbol is preferred, then a function. Nothing is replaced by what is found later: steps
        between both could not know how large their tensors are.
        """
        if difference.constant is not None:
            return
        difference = _without_common_factor(difference)
        last = max(map(_found, difference.terms))
        fit = [
            monomial[0]
            for monomial in difference.terms
            if len(monomial) == 1
            and monomial[0].is_whole
            and _found(monomial) == last
            and monomial[0] not in Size({m: 1 for m in difference.terms if m != monomial}).atoms
        ]
        # By parts of the rest only where there is no other: they do not look like whole numbers.
        fit = [atom for atom in fit if abs(difference.terms[(atom,)]) == 1] or fit
        if self._equate_products(difference, bool(fit)) or not fit:
            return
        replaced = max(
            fit, key=lambda a: (_KINDS.index(a.kind) if isinstance(a, Symbol) else -1, a.order)
        )
        factor = difference.terms[(replaced,)]
        by = Size.of(replaced) - difference * Fraction(1, factor)
        if isinstance(by.constant, Fraction):
            return  # no call keeps it
        table: dict[Atom, Size] = {replaced: by}
        self.equal = {atom: substitute(value, table) for atom, value in self.equal.items()} | table
        self._canonical.clear()
        self.at_least_0 = self.at_least_0.substituted(table)
        products, self.equal_products = self.equal_products, {}
        for product, equal in products.items():
            self._equate(self.canonical(Size({product: 1}) - equal))
        for atom, equal in list(self.equal.items()):  # functions of what is replaced
            if replaced is not atom and replaced in atom.atoms:
                self._equate(self._difference(substitute(Size.of(atom), table), equal))
        # What was known of the atom that is gone still holds.
        low, high = replaced.bounds
        if not isinstance(low, float):
            self.at_least_0.add(by - low)
        if not isinstance(high, float):
            self.at_least_0.add(high - by)
        if isinstance(replaced, Function) and replaced.name == "max":
            for argument in replaced.arguments:
                self.at_least_0.add(by - argument)
        if not by.is_whole:  # by its form, but it is
            self._equate(self._difference(floor(by), by))

    def _equate_products(self, difference: Size, if_later: bool) -> bool:
        """Record that a difference is 0: the product in it that is found last is replaced by the
        rest; `if_later`: only where it is found later than all of that. False where none is.
        """
        terms = difference.terms
        last = max(map(_found, terms))
        products = [product for product in terms if len(product) > 1 and _found(product) == last]
        for product in sorted(products, key=monomial_order, reverse=True):
            rest = {m: exact(Fraction(-f) / terms[product]) for m, f in terms.items()}
            del rest[product]
            if (
                all(without(monomial, product) is None for monomial in rest)
                and not _is_within_a_function(product, rest)
                and not (if_later and max(map(_found, rest)) >= last)
            ):
                self.equal_products[product] = Size(rest)
                self._canonical.clear()
                return True
        return False


def _found(monomial: Monomial) -> int:
    """Which of the symbols in it a step finds last, by their order; -1 where none is found."""
    found = (s for atom in monomial for s in atom.symbols if _KINDS.index(s.kind) > 1)
    return max((symbol.order[1] for symbol in found), default=-1)


def _is_within_a_function(product: Monomial, terms: Iterable[Monomial]) -> bool:
    """Whether some of these terms have a function of all atoms of a product, which would become
    longer with each time that they are put in its place.
    """
    atoms = {atom for monomial in terms for atom in monomial}
    return any((atom.atoms - {atom}).issuperset(product) for atom in atoms)


def _without_common_factor(size: Size) -> Size:
    """The size divided by what all its factors are multiples of: 4 * a - 4 * b is 0 where a - b is,
    and so is n * a - n * b for an n of at least 1.
    """
    for atom in next(iter(size.terms), ()):
        if atom.bounds[0] >= 1 and all(atom in monomial for monomial in size.terms):
            quotient = size.over(Size.of(atom))
            assert quotient is not None
            size = quotient
    factors = [Fraction(factor) for factor in size.terms.values()]
    shared = math.gcd(*(factor.numerator for factor in factors))
    parts = math.lcm(*(factor.denominator for factor in factors))
    return size * Fraction(parts, shared) if shared else size


def facts_of(sizes: Iterable[SizeLike | None]) -> Facts | None:
    """The facts of the inference that some of these sizes are open in; None when none is open."""
    return next(
        (facts for size in sizes if isinstance(size, Size) and (facts := size.facts) is not None),
        None,
    )
