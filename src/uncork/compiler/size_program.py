"""The size program of a plan: sizes as numbers in slots, and the operations that compute them when
a call binds its symbols.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from uncork.kernels.runtime.segment_plan import Op, SizeOperand, Slot
from uncork.symbolic.atoms import Function, Monomial, Symbol
from uncork.symbolic.size import Size, SizeLike

#: Numbers have 64 bits.
_LIMIT = 2**63


class Unbound(Exception):
    """Raised for a size that no number can be computed for: it needs a symbol that no step so far
    has bound, or does not fit 64 bits.
    """


class SizeProgram:
    """Compiles sizes into slots. Equal sizes share one; `ops` gives the list that takes the next
    operation.
    """

    def __init__(self, ops: Callable[[], list[Op]]) -> None:
        #: The value that each slot has before the first call: constants keep theirs.
        self.values: list[int] = []
        self.symbols: dict[Symbol, Slot] = {}
        self.ops = ops
        self._constants: dict[int, Slot] = {}
        self._known: dict[object, Slot] = {}

    def bind(self, symbol: Symbol) -> Slot:
        """The slot of a symbol, which is made here; from now on sizes may depend on the symbol."""
        if symbol not in self.symbols:
            self.symbols[symbol] = self._new()
        return self.symbols[symbol]

    def reserve(self) -> Slot:
        """A slot for a number that is compared with sizes and nothing else."""
        return self._new()

    def operand(self, size: SizeLike) -> SizeOperand:
        """A size as an operand: the number itself where it is known."""
        if isinstance(size, int):
            return size
        constant = size.constant
        return constant if isinstance(constant, int) else self.slot(size)

    def slot(self, size: SizeLike) -> Slot:
        """The slot that holds a size. Rounds towards minus infinity what is no whole number; raises
        Unbound.
        """
        if isinstance(size, int):
            return self._constant(size)
        known = self._known.get(size)
        if known is None:
            if missing := size.symbols - self.symbols.keys():
                raise Unbound(f"the size {size} needs {', '.join(sorted(s.name for s in missing))}")
            known = self._known[size] = self._lowered(size)
        return known

    def at_least(self, size: SizeLike, least: int) -> Slot:
        """The slot of a condition: 1 where a size is at least a number, else 0."""
        return self._apply("greater_equal", self.slot(size), self._constant(least))

    def below(self, size: SizeLike, limit: int) -> Slot:
        """The slot of a condition: 1 where a size is below a number, else 0."""
        return self._apply("greater_equal", self._constant(limit - 1), self.slot(size))

    def both(self, conditions: Sequence[Slot]) -> Slot | None:
        """The slot of a conjunction: 1 where all conditions hold, else 0; None for no condition."""
        result: Slot | None = None
        for condition in conditions:
            result = condition if result is None else self._apply("and", result, condition)
        return result

    # ---- lowering

    def _lowered(self, size: Size) -> Slot:
        divisor = _divisor(size)
        result = self._times(size, divisor)
        return result if divisor == 1 else self._apply("floordiv", result, self._constant(divisor))

    def _times(self, size: Size, number: int) -> Slot:
        """A size times a multiple of its divisor."""
        total: Slot | None = None
        for monomial, factor in size.terms.items():
            term = self._term(monomial, int(Fraction(factor * number, _divisor_of(monomial))))
            total = term if total is None else self._apply("add", total, term)
        return self._constant(0) if total is None else total

    def _term(self, monomial: Monomial, factor: int) -> Slot:
        product: Slot | None = None
        for atom in monomial:
            value = self.symbols[atom] if isinstance(atom, Symbol) else self._function(atom)
            product = value if product is None else self._apply("mul", product, value)
        if product is None:
            return self._constant(factor)
        return product if factor == 1 else self._apply("mul", product, self._constant(factor))

    def _function(self, atom: Function) -> Slot:
        """A function times its divisor."""
        if atom.name == "floor":
            return self.slot(atom.arguments[0])
        # Parts of numbers are compared, and divided, as so many times them.
        shared = math.lcm(*map(_divisor, atom.arguments))
        values = [self._times(argument, shared) for argument in atom.arguments]
        if atom.name == "quotient":
            return self._apply("floordiv", *values)
        largest = values[0]
        for value in values[1:]:
            largest = self._apply("max", largest, value)
        return largest

    def _apply(self, operation: str, a: Slot, b: Slot) -> Slot:
        key = (operation, a, b)
        if key not in self._known:
            ops = (
                self.ops()
            )  # where a segment begins, it computes sizes of its own first: maybe this one
            if key not in self._known:
                self._known[key] = self._new()
                ops.append(Op(operation, a, b, self._known[key]))
        return self._known[key]

    def _constant(self, value: int) -> Slot:
        if not -_LIMIT <= value < _LIMIT:
            raise Unbound(f"the number {value} does not fit 64 bits")
        if value not in self._constants:
            self._constants[value] = self._new(value)
        return self._constants[value]

    def _new(self, value: int = 0) -> Slot:
        self.values.append(value)
        return Slot(len(self.values) - 1)


def _divisor(size: Size) -> int:
    """The least number whose product with a size is a whole number by its form."""
    terms = size.terms.items()
    return math.lcm(*(Fraction(f, _divisor_of(monomial)).denominator for monomial, f in terms))


def _divisor_of(monomial: Monomial) -> int:
    """Such a number for a product: a largest of sizes has that of all of them."""
    of_atoms = (
        math.lcm(*map(_divisor, atom.arguments))
        for atom in monomial
        if isinstance(atom, Function) and atom.name == "max"
    )
    return math.prod(of_atoms)
