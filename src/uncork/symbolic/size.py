"""`Size`: tensor sizes as expressions with one normal form.

A size is a polynomial with rational factors over symbols and atoms floor(x), max(x, ..) and
quotient(x, y) = floor(x / y). Others follow: ceil(x) = -floor(-x), min(x, y) = -max(-x, -y), x mod
n = x - n * floor(x / n). Equal sizes nearly always have one normal form, so that `==` and `hash`
compare what they mean; two forms of one meaning are possible and only cost a question.

Nothing can decide by an open size without asking: `bool(size)`, `size < 3`, `int(size)` and `size
== 3` raise TypeError. What is certain, or taken for granted, is asked of the `Facts` of its
inference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar, Union

from uncork.symbolic import intervals
from uncork.symbolic.atoms import (
    Atom,
    Function,
    Monomial,
    Symbol,
    monomial_order,
    order_of,
    term_text,
)
from uncork.symbolic.intervals import Exact, Interval, exact

if TYPE_CHECKING:
    from uncork.symbolic.facts import Facts


class Size:
    """A size as an expression in normal form. Made by `Size.of` and by arithmetic; never
    changed.
    """

    #: Behind `terms` what is found of them when it is first asked for.
    __slots__ = (
        "_atoms",
        "_bounds",
        "_hash",
        "_is_whole",
        "_leading",
        "_symbols",
        "_text",
        "terms",
    )

    def __init__(self, terms: dict[Monomial, Exact]) -> None:
        """A size of these terms, none of which has a factor of 0."""
        self.terms = terms
        self._symbols: frozenset[Symbol] | None = None
        self._atoms: frozenset[Atom] | None = None
        self._is_whole: bool | None = None
        self._bounds: Interval | None = None
        self._leading: Monomial | None = None
        self._hash: int | None = None
        self._text: str | None = None

    @staticmethod
    def of(value: SizeLike | Symbol | Function | Fraction) -> Size:
        """The size that is this number, symbol or atom."""
        if isinstance(value, Size):
            return value
        if isinstance(value, (Symbol, Function)):
            return Size({(value,): 1})
        return Size(
            {(): exact(value if isinstance(value, Fraction) else int(value))} if value else {}
        )

    @property
    def constant(self) -> Exact | None:
        """The number that this size is; None when it is open."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The symbols in it, those inside its atoms included."""
        if self._symbols is None:
            self._symbols = _union(atom.symbols for monomial in self.terms for atom in monomial)
        return self._symbols

    @property
    def atoms(self) -> frozenset[Atom]:
        """Symbols and functions in it, those inside its functions included."""
        if self._atoms is None:
            self._atoms = _union(atom.atoms for monomial in self.terms for atom in monomial)
        return self._atoms

    @property
    def facts(self) -> Facts | None:
        """The facts of the inference that its symbols belong to; None of a number."""
        return next((symbol.facts for symbol in self.symbols), None)

    @property
    def is_whole(self) -> bool:
        """Whether the form of the size shows that it is a whole number whatever its symbols are."""
        if self._is_whole is None:
            self._is_whole = all(
                isinstance(f, int) and all(a.is_whole for a in m) for m, f in self.terms.items()
            )
        return self._is_whole

    @property
    def bounds(self) -> Interval:
        """An interval that holds it, by the bounds of its symbols alone."""
        if self._bounds is None:
            total: Interval = (0, 0)
            for monomial, factor in self.terms.items():
                product: Interval = (factor, factor)
                for atom in monomial:
                    product = intervals.multiply(product, atom.bounds)
                total = intervals.add(total, product)
            self._bounds = total
        return self._bounds

    # ---- arithmetic

    def __add__(self, other: SizeLike | Fraction) -> Size:
        terms = dict(self.terms)
        for monomial, factor in Size.of(other).terms.items():
            _accumulate(terms, monomial, factor)
        return Size(terms)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return Size({monomial: -factor for monomial, factor in self.terms.items()})

    def __sub__(self, other: SizeLike | Fraction) -> Size:
        return self + -Size.of(other)

    def __rsub__(self, other: SizeLike | Fraction) -> Size:
        return Size.of(other) - self

    def __mul__(self, other: SizeLike | Fraction) -> Size:
        terms: dict[Monomial, Exact] = {}
        right = Size.of(other).terms
        for a, f in self.terms.items():
            for b, g in right.items():
                _accumulate(
                    terms, tuple(sorted((*a, *b), key=order_of)) if a and b else a or b, f * g
                )
        return Size(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: SizeLike) -> Size:
        return quotient(self, Size.of(other))

    def __rfloordiv__(self, other: SizeLike) -> Size:
        return quotient(Size.of(other), self)

    def __mod__(self, other: SizeLike) -> Size:
        return self - Size.of(other) * (self // other)

    def __rmod__(self, other: SizeLike) -> Size:
        return Size.of(other) % self

    def over(self, other: SizeLike | Fraction) -> Size | None:
        """self / other as a polynomial; None when that leaves a rest."""
        divisor = Size.of(other)
        if not divisor.terms:
            return None
        leading = divisor.leading
        result, rest = Size({}), self
        while rest.terms:
            monomial = without(rest.leading, leading)
            if monomial is None:
                return None
            factor = Fraction(rest.terms[rest.leading]) / divisor.terms[leading]
            piece = Size({monomial: exact(factor)})
            result, rest = result + piece, rest - piece * divisor
        return result

    @property
    def leading(self) -> Monomial:
        """The first monomial by degree, then by the order of its atoms: an order that products
        keep.
        """
        if self._leading is None:
            self._leading = min(self.terms, key=monomial_order)
        return self._leading

    # ---- values

    @property
    def weight(self) -> int:
        """How much there is to an expression: its atoms, functions by the letters of theirs."""
        return sum(1 + len(atom.order[2]) for monomial in self.terms for atom in monomial)

    def evaluate(self, values: Mapping[Symbol, int]) -> int:
        """The number that it is with these values of its symbols. Raises KeyError without one,
        ValueError when it is not whole.

        Exact, of any magnitude. A quotient by a divisor below 1 is one by 1.
        """
        value = self.exact_value(values)
        if not isinstance(value, int):
            raise ValueError(f"the size {self} is {value}, which is no whole number")
        return value

    def exact_value(self, values: Mapping[Symbol, int]) -> Exact:
        """The value as `evaluate` gives it, also where that is no whole number."""
        total: Exact = 0
        for monomial, factor in self.terms.items():
            for atom in monomial:
                factor *= values[atom] if isinstance(atom, Symbol) else _value_of(atom, values)
            total += factor
        return exact(total)

    # ---- what is refused

    def __eq__(self, other: object) -> bool:
        """Equality of normal forms. An open size is never compared with a number: ask its facts."""
        if isinstance(other, Size):
            return self.terms == other.terms
        if isinstance(other, (int, Fraction)):
            if self.constant is None:
                raise TypeError(
                    f"the open size {self} is compared with {other}: ask certainly_equal of its "
                    "facts"
                )
            return self.constant == other
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(
                frozenset(self.terms.items()) if self.constant is None else self.constant
            )
        return self._hash

    def __bool__(self) -> bool:
        if self.constant is None:
            raise TypeError(f"the open size {self} is used as a truth value: ask its facts")
        return bool(self.constant)

    # ---- text

    def __str__(self) -> str:
        if self._text is None:
            terms = [
                term_text(monomial, self.terms[monomial])
                for monomial in sorted(self.terms, key=monomial_order)
            ]
            first = next((i for i, term in enumerate(terms) if not term.startswith("-")), 0)
            if first:  # "b - a" rather than "-a + b"
                terms.insert(0, terms.pop(first))
            self._text = " + ".join(terms).replace("+ -", "- ") or "0"
        return self._text

    def __repr__(self) -> str:
        return f"Size({self})"


SizeLike = Union[int, Size]


# ---- functions


def plain(size: Size) -> SizeLike:
    """A whole number as int, anything else as it is."""
    return constant if isinstance(constant := size.constant, int) else size


def floor(x: Size) -> Size:
    """The largest whole number that is not above x.

    Whole terms and whole parts of factors come out of it, a floor inside a floor is one, and the
    first factor inside is positive: floor(floor(n / 2) / 2) and floor(n / 4), or ceil(n / 3) and
    floor((n + 2) / 3), have one form.
    """
    if x.is_whole:
        return x
    outside: dict[Monomial, Exact] = {}
    inside: dict[Monomial, Exact] = {}
    for monomial, factor in x.terms.items():
        if monomial and not all(atom.is_whole for atom in monomial):
            inside[monomial] = factor
            continue
        # The constant keeps a part in [0, 1), other factors one in [-1/2, 1/2].
        whole = _nearest(factor) if monomial else math.floor(factor)
        if whole:
            outside[monomial] = whole
        if factor != whole:
            inside[monomial] = exact(factor - whole)
    rest = Size(inside)
    if rest.constant is not None:
        return Size(outside)  # the constant part lies in [0, 1)
    return Size(outside) + _floor_of_fraction(rest)


def _nearest(factor: Exact) -> int:
    """The whole number that is nearest; of a half, the one nearer to 0."""
    cut = int(factor)
    return cut if abs(Fraction(factor) - cut) <= Fraction(1, 2) else round(factor)


def ceil(x: Size) -> Size:
    """The smallest whole number that is not below x."""
    return -floor(-x)


def _floor_of_fraction(rest: Size) -> Size:
    """The floor of a size without whole terms: an atom, or an equal size of another form."""
    if not all(atom.is_whole for monomial in rest.terms for atom in monomial):
        return Size.of(Function("floor", (rest,)))
    n = math.lcm(*(Fraction(f).denominator for m, f in rest.terms.items() if m))
    constant = Fraction(rest.terms.get((), 0))
    varying = rest - constant
    constant = Fraction(
        math.floor(constant * n), n
    )  # what lies between two multiples of 1/n changes nothing
    if varying.terms[varying.leading] < 0:
        return -floor(-varying - constant + Fraction(n - 1, n))
    for monomial, factor in varying.terms.items():
        if (
            factor == Fraction(1, n)
            and len(monomial) == 1
            and isinstance(atom := monomial[0], Function)
            and atom.name == "floor"
        ):
            # floor((floor(y) + w) / n) = floor((y + w) / n) for a whole w
            return floor(varying - Size.of(atom) * factor + atom.arguments[0] * factor + constant)
    return Size.of(Function("floor", (varying + constant,)))


def quotient(x: Size, y: Size) -> Size:
    """floor(x / y), for a y of at least 1; of numbers also for a negative y."""
    if not y.terms:
        raise ZeroDivisionError(f"{x} is divided by 0")
    if y.constant == 1:
        return floor(x)
    if y.constant is not None or (x.constant is None or not x.terms):
        ratio = x.over(y)
        if ratio is not None:
            return floor(ratio)
    x, y = _cancelled(x, y)
    ratio = x.over(y)
    return floor(ratio) if ratio is not None else Size.of(Function("quotient", (x, y)))


def _cancelled(x: Size, y: Size) -> tuple[Size, Size]:
    """The dividend and the divisor after cancelling the atoms and the number that divide every term
    of both; atoms that can be 0 stay.
    """
    monomials = [*x.terms, *y.terms]
    common: list[Atom] = []
    for atom in dict.fromkeys(monomials[0]):
        if atom.bounds[0] >= 1:
            common += [atom] * min(monomial.count(atom) for monomial in monomials)
    factors = [*x.terms.values(), *y.terms.values()]
    number = math.gcd(*factors) if all(isinstance(f, int) for f in factors) else 1  # type: ignore[arg-type]
    divisor = Size({tuple(common): number})
    over_x, over_y = x.over(divisor), y.over(divisor)
    assert over_x is not None and over_y is not None
    return over_x, over_y


def maximum(sizes: Iterable[Size]) -> Size:
    """The largest of some sizes. One that is never above another is left out; terms that all have
    come out of it.
    """
    flat: list[Size] = []
    for size in sizes:
        atom = _only_atom(size)
        flat += atom.arguments if isinstance(atom, Function) and atom.name == "max" else (size,)
    flat = list(dict.fromkeys(flat))
    kept: list[Size] = []
    for i, size in enumerate(flat):
        others = [*kept, *flat[i + 1 :]]
        if not any(_is_never_below(other, size) for other in others):
            kept.append(size)
    if len(kept) == 1:
        return kept[0]
    shared = {
        m: f for m, f in kept[0].terms.items() if all(other.terms.get(m) == f for other in kept[1:])
    }
    inner = [Size({m: f for m, f in size.terms.items() if m not in shared}) for size in kept]
    return Size(shared) + Size.of(Function("max", tuple(sorted(inner, key=str))))


def _is_never_below(a: Size, b: Size) -> bool:
    """Whether a >= b by the bounds of their symbols."""
    difference = a - b
    if difference.bounds[0] < 0:
        return False
    if (known := difference.facts) is not None:
        known.rest_on(difference)
    return True


def minimum(sizes: Iterable[Size]) -> Size:
    """The smallest of some sizes."""
    return -maximum(-size for size in sizes)


# ---- inner workings


_T = TypeVar("_T")


def _union(sets: Iterable[frozenset[_T]]) -> frozenset[_T]:
    return frozenset[_T]().union(*sets)


def _accumulate(terms: dict[Monomial, Exact], monomial: Monomial, factor: Exact) -> None:
    total = exact(terms.get(monomial, 0) + factor)
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """monomial / divisor; None when that is no monomial."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _only_atom(size: Size) -> Atom | None:
    """The atom that a size is, if it is just one."""
    if len(size.terms) != 1:
        return None
    ((monomial, factor),) = size.terms.items()
    return monomial[0] if len(monomial) == 1 and factor == 1 else None


def _value_of(atom: Function, values: Mapping[Symbol, int]) -> Exact:
    arguments = [a.exact_value(values) for a in atom.arguments]
    if atom.name == "max":
        return max(arguments)
    if atom.name == "floor":
        return math.floor(arguments[0])
    return arguments[0] // max(arguments[1], Fraction(1))
