"""`LowerBounds`: sizes that are known to be at least 0, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from uncork.symbolic.atoms import Atom, Function
from uncork.symbolic.intervals import Exact
from uncork.symbolic.size import Size
from uncork.symbolic.substitution import substitute

#: How many largest-of and floors are looked into, one within the other, to see that a size is not
#: negative; of more of them than so many none is.
_DEPTH, _FEW = 2, 4


class LowerBounds:
    """Sizes that are known to be at least 0 although their bounds do not say so."""

    def __init__(self, sizes: Iterable[Size] = ()) -> None:
        self._sizes = list(sizes)
        #: What was found of sizes and how deep was looked, as long as no size is new.
        self._found: dict[tuple[Size, int], bool] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[Size]:
        return iter(self._sizes)

    def copy(self) -> LowerBounds:
        """The same sizes, to which others may be added."""
        return LowerBounds(self._sizes)

    def substituted(self, table: Mapping[Atom, Size]) -> LowerBounds:
        """The sizes with others in the place of some atoms."""
        return LowerBounds(substitute(size, table) for size in self._sizes)

    def add(self, size: Size) -> None:
        """Have a size known to be at least 0."""
        if size.constant is None and size.bounds[0] < 0:
            # Those that follow from it are left out: a long chain of windows keeps the last demand
            # alone.
            self._sizes = [
                fact
                for fact in self._sizes
                if fact.symbols != size.symbols or (fact - size).bounds[0] < 0
            ]
            self._sizes.append(size)
            self._found.clear()

    def certainly(self, size: Size) -> bool:
        """Whether a size is certainly at least 0: by its bounds, by one of the sizes, by the
        arguments of a maximum in it, by its factors, or by what lies in its floors.
        """
        return self._certainly(size, _DEPTH)

    def _certainly(self, size: Size, depth: int) -> bool:
        if size.bounds[0] >= 0:
            return True
        known = self._found.get((size, depth))
        if known is None:
            known = self._follows(size, depth)
            self._found[size, depth] = known
        return known

    def _follows(self, size: Size, depth: int) -> bool:
        """Whether it follows from more than its bounds that a size is at least 0."""
        if any(
            not fact.symbols.isdisjoint(size.symbols) and (size - fact).bounds[0] >= 0
            for fact in self._sizes
        ):
            return True
        largest = _functions(size, "max")
        for atom, factor in largest if depth and len(largest) <= _FEW else ():
            rest = size - Size.of(atom) * factor
            # A largest is at least each of its arguments; less of it, at least less of all of them.
            each = (
                self._certainly(rest + argument * factor, depth - 1) for argument in atom.arguments
            )
            if any(each) if factor > 0 else all(each):
                return True
        return self._by_factors(size, depth) or (
            depth > 0 and (self._by_order(size, depth - 1) or self._without_floors(size, depth - 1))
        )

    def _by_factors(self, size: Size, depth: int) -> bool:
        """Whether a size with products in it is certainly at least 0 because all factors are."""
        return any(len(monomial) > 1 for monomial in size.terms) and all(
            factor >= 0 and all(self._certainly(Size.of(atom), depth) for atom in monomial)
            for monomial, factor in size.terms.items()
        )

    def _by_order(self, size: Size, depth: int) -> bool:
        """Whether a size is certainly at least 0 without the pairs of floors in it of which one is
        certainly no less than the other, because what lies in it is.
        """
        floors = _functions(size, "floor")
        if not 1 < len(floors) <= _FEW:
            return False
        rest = size
        for more, factor in floors:
            for less, other in floors:
                if factor <= 0 or other >= 0:
                    continue
                (x,), (y,) = more.arguments, less.arguments
                if self._certainly(x - y, depth):
                    both = min(factor, -other)
                    rest = rest - (Size.of(more) - Size.of(less)) * both
        return rest is not size and self._certainly(rest, depth)

    def _without_floors(self, size: Size, depth: int) -> bool:
        """Whether a size is certainly at least 0 with the least that its floors can be in their
        place: of whole numbers over n, floor(x) lies between x - (n - 1) / n and x.
        """
        least = size
        for atom, factor in _functions(size, "floor"):
            (x,) = atom.arguments
            n = math.lcm(*(Fraction(f).denominator for f in x.terms.values()))
            below = Fraction(n - 1, n) if (x * n).is_whole else 1
            lowest = x - below if factor > 0 else x
            least = least + (lowest - Size.of(atom)) * factor
        if least is size:
            return False
        if size.is_whole:
            # What is whole and above -1 is at least 0.
            parts = math.lcm(*(Fraction(f).denominator for f in least.terms.values()))
            least = least + Fraction(parts - 1, parts)
        return self._certainly(least, depth)


def _functions(size: Size, name: str) -> list[tuple[Function, Exact]]:
    """The terms of a size that are a number times a function of this name: functions and
    numbers.
    """
    return [
        (monomial[0], factor)
        for monomial, factor in size.terms.items()
        if len(monomial) == 1 and isinstance(monomial[0], Function) and monomial[0].name == name
    ]
