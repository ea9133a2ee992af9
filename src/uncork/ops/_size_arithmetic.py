"""Arithmetic of elements that are expressions, where it agrees with the arithmetic of their element
types.

Whole numbers are those of mathematics: no tensor is so large that a size in i32 or i64 wraps, and
one that does is refused where it is used. Unsigned differences must be known not to be below 0.
Floats are exact while factors are small dyadic fractions (n * 0.5, n * 2.25) and numbers stay below
a limit, which a guard holds where a float becomes a whole number again.
"""

from __future__ import annotations

import math
from fractions import Fraction

from uncork.symbolic import Facts, Size, ceil, facts_of, floor, maximum, plain
from uncork.types import Element, ElementType

#: Factors of floats have numerators and denominators up to the first, and what they make whole
#: again stays below the second: in between all is exact in the 24 bits of f32.
_FACTOR, LIMIT = 2**8, 2**16


def computed(output: ElementType, result: Size, *inputs: Size) -> Element:
    """The sum, difference or product of sizes as an element of its type; None when that type may
    not hold it.
    """
    if output.kind == "unsigned" and not certainly_at_least(result, 0):
        return None
    if output.is_float and not all(is_exact(output, size) for size in (result, *inputs)):
        return None
    return plain(result)


def fits(element_type: ElementType, size: Size) -> bool:
    """Whether no value is wrapped or rounded where it is converted to this type: by its bounds or,
    for 32 bits, as the size of a tensor.
    """
    if not element_type.is_integer:
        return True
    span = 2**element_type.bits
    low, high = (0, span - 1) if element_type.kind == "unsigned" else (-span // 2, span // 2 - 1)
    if low <= size.bounds[0] and size.bounds[1] <= high:
        return True
    return element_type.bits >= 32 and all(symbol.kind != "number" for symbol in size.symbols)


def larger(a: Size, b: Size) -> Size:
    """The larger of two sizes: one of them where their facts say so."""
    facts = facts_of([a, b])
    return maximum([a, b]) if facts is None else facts.larger(a, b)


def is_exact(element_type: ElementType, size: Size) -> bool:
    """Whether a float of this type holds the size with all that was computed on the way."""
    if element_type not in (ElementType.f32, ElementType.f64):
        return False
    factors = [Fraction(factor) for factor in size.terms.values()]
    return size.constant is not None or all(
        _is_small(f) and f.denominator & (f.denominator - 1) == 0 for f in factors
    )


def _is_small(factor: Fraction) -> bool:
    return max(abs(factor.numerator), factor.denominator) <= _FACTOR


def certainly_at_least(size: Size, least: int) -> bool:
    """Whether a size is at least a number, by its facts; a number by itself."""
    facts = size.facts
    return size.bounds[0] >= least if facts is None else facts.certainly_at_least(size, least)


def divided(output: ElementType, a: Size, b: Size, cut: bool) -> Element:
    """a / b; of integers the floor, or with `cut` the quotient cut towards zero."""
    if output.is_float:
        # A quotient that is no dyadic fraction is rounded: what rounds it again gives the right
        # whole number, other steps may not.
        is_rounded_once = (
            b.constant is not None and _is_small(Fraction(b.constant)) and is_exact(output, a)
        )
        ratio = a.over(b) if is_rounded_once else None
        return None if ratio is None else plain(ratio)
    if (cut or output.kind == "unsigned") and not certainly_at_least(a, 0):
        return None
    return plain(a // b) if _is_divisor(b) else None


def rest(output: ElementType, a: Size, b: Size, cut: bool) -> Element:
    """The remainder a modulo b of integers, with the sign of b, or with `cut` that of a; None where
    it is not known.
    """
    if output.is_float or ((cut or output.kind == "unsigned") and not certainly_at_least(a, 0)):
        return None
    return plain(a % b) if _is_divisor(b) else None


def _is_divisor(b: Size) -> bool:
    """Whether b is at least 1, if need be because every call with another one is refused."""
    if b.constant is not None:
        return b.constant > 0
    facts = b.facts
    return facts is not None and facts.certainly_at_least(b, 0) and facts.require_at_least(b, 1)


def whole(source: ElementType, size: Size, upwards: bool = False) -> Element:
    """The floor, or with `upwards` the ceiling, of a number of this type; None when the type may
    give another one.
    """
    if source.is_float and size.constant is None and not _is_below_limit(source, size):
        return None
    return plain(ceil(size) if upwards else floor(size))


def _is_below_limit(source: ElementType, size: Size) -> bool:
    facts = size.facts
    scale = math.lcm(*(Fraction(f).denominator for f in size.terms.values()))
    if facts is None or source is ElementType.f64:
        return facts is not None
    return facts.certainly_at_least(size, 0) and facts.suppose_at_least(LIMIT, size * scale)


def equal(source: ElementType, a: Size, b: Size) -> Element:
    """Whether a = b: 1 or 0; None when only a number of the call tells."""
    facts = None if source.is_float else _asked(a - b)
    if facts is None:
        return None
    return int(facts.suppose_equal(a, b, usual=b.constant is None and a.constant is None))


def at_least(source: ElementType, a: Size, b: Size) -> Element:
    """Whether a >= b: 1 or 0; None when only a number of the call tells."""
    facts = None if source.is_float else _asked(a - b)
    return None if facts is None else int(facts.suppose_at_least(a, b))


def negated(truth: Element) -> Element:
    """The negation of a truth value: 1 for 0 and 0 for 1; None where it is no number."""
    return 1 - truth if isinstance(truth, int) else None


def _asked(difference: Size) -> Facts | None:
    """The facts that a question about this is put to; None when no plan should depend on the
    answer: it is one about numbers of the call.
    """
    facts = facts_of([difference])
    if facts is None or (difference := facts.canonical(difference)).constant is not None:
        return facts
    is_certain = certainly_at_least(difference, 1) or certainly_at_least(-difference, 1)
    return (
        facts
        if is_certain or all(symbol.kind != "number" for symbol in difference.symbols)
        else None
    )
