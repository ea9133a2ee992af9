"""`Symbol` and `Function`: the atoms that sizes are polynomials of."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Union

from uncork.symbolic import intervals
from uncork.symbolic.intervals import Exact, Interval

if TYPE_CHECKING:
    from uncork.symbolic.facts import Facts
    from uncork.symbolic.size import Size

#: What sorts atoms: symbols in the order in which they were made, then functions by their text.
_Order = tuple[int, int, str]


class Origin(NamedTuple):
    """What a symbol stands for: a dimension of a layer's output or, where `is_element`, an element
    of it in C order.
    """

    node: int
    output: int
    position: int
    is_element: bool = False


class Symbol:
    """A whole number that a call, or a step of it, binds. All that is inferred holds for values in
    [low, high] (None: no bound).

    `kind` is "input" (an open dimension of a Parameter), "state" (a dimension of a variable),
    "found" (a size that a step finds out) or "number" (an element of a small integer tensor that
    shapes may read).
    """

    __slots__ = ("atoms", "facts", "high", "kind", "low", "name", "order", "origin", "symbols")

    def __init__(
        self,
        name: str,
        low: int,
        high: int | None,
        kind: str,
        origin: Origin,
        facts: Facts,
        number: int,
    ) -> None:
        self.name, self.low, self.high, self.kind = name, low, high, kind
        self.origin, self.facts = origin, facts
        self.order: _Order = (0, number, name)
        self.symbols: frozenset[Symbol] = frozenset((self,))
        self.atoms: frozenset[Atom] = frozenset((self,))

    @property
    def bounds(self) -> Interval:
        return self.low, intervals.INF if self.high is None else self.high

    @property
    def is_whole(self) -> bool:
        return True

    def __repr__(self) -> str:
        return self.name


class Function:
    """floor(x), max(x, ..) or quotient(x, y): an atom of a polynomial. Make it by the functions of
    this file.
    """

    __slots__ = ("_hash", "arguments", "atoms", "bounds", "is_whole", "name", "order", "symbols")

    def __init__(self, name: str, arguments: tuple[Size, ...]) -> None:
        self.name, self.arguments = name, arguments
        self.symbols = frozenset[Symbol]().union(*(a.symbols for a in arguments))
        self.is_whole = name != "max" or all(a.is_whole for a in arguments)
        self.bounds = bounds_of(name, arguments)
        self.order: _Order = (1, 0, self._text())
        self._hash = hash((name, arguments))
        self.atoms: frozenset[Atom] = frozenset((self,)).union(*(a.atoms for a in arguments))

    def __eq__(self, other: object) -> bool:
        # The text says what a function is, but for which symbols of such names: functions of
        # functions, as deep as models make them, are not gone through.
        return self is other or (
            isinstance(other, Function)
            and (self._hash, self.name, self.order) == (other._hash, other.name, other.order)
            and self.symbols == other.symbols
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.order[2]

    def _text(self) -> str:
        if self.name == "quotient":
            return "floor({} / {})".format(*map(_in_brackets, self.arguments))
        if self.name == "floor":
            (size,) = self.arguments
            divisor = math.lcm(*(Fraction(f).denominator for f in size.terms.values()))
            return f"floor({_in_brackets(size * divisor)} / {divisor})"
        return f"{self.name}({', '.join(map(str, self.arguments))})"


Atom = Union[Symbol, Function]
#: A product of atoms in their order, each as often as its power says; the empty one is 1.
Monomial = tuple[Atom, ...]


def order_of(atom: Atom) -> _Order:
    return atom.order


def monomial_order(monomial: Monomial) -> tuple[int, tuple[_Order, ...]]:
    return -len(monomial), tuple(map(order_of, monomial))


def bounds_of(name: str, arguments: tuple[Size, ...]) -> Interval:
    low, high = arguments[0].bounds
    if name == "max":
        return (
            intervals.largest(a.bounds[0] for a in arguments),
            intervals.largest(a.bounds[1] for a in arguments),
        )
    if name == "floor":
        return intervals.floor_end(low), intervals.floor_end(high)
    # A divisor of at least 1 brings x nearer to 0.
    return (0 if low >= 0 else intervals.floor_end(low)), (
        intervals.floor_end(high) if high >= 0 else -1
    )


def _in_brackets(size: Size) -> str:
    return f"({size})" if len(size.terms) > 1 else str(size)


def term_text(monomial: Monomial, factor: Exact) -> str:
    atoms = [str(atom) for atom in monomial]
    if (
        len(monomial) == 1
        and isinstance(monomial[0], Function)
        and monomial[0].name == "max"
        and factor < 0
    ):
        factor, atoms = -factor, [f"min({', '.join(str(-a) for a in monomial[0].arguments)})"]
    product = "*".join(f"{a}^{n}" if (n := atoms.count(a)) > 1 else a for a in dict.fromkeys(atoms))
    over = f"/{factor.denominator}" if isinstance(factor, Fraction) else ""
    if not product:
        return f"{factor.numerator}{over}"
    sign = {1: "", -1: "-"}.get(factor.numerator)
    return (f"{factor.numerator}*" if sign is None else sign) + product + over
