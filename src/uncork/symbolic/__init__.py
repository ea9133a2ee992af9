"""Sizes as expressions over symbols: one inference, and one plan, for every size."""

from uncork.symbolic.atoms import Origin, Symbol
from uncork.symbolic.facts import Check, Facts, Guard, Relation, facts_of
from uncork.symbolic.size import (
    Size,
    SizeLike,
    ceil,
    floor,
    maximum,
    minimum,
    plain,
    quotient,
)
from uncork.symbolic.substitution import substitute

__all__ = [
    "Check",
    "Facts",
    "Guard",
    "Origin",
    "Relation",
    "Size",
    "SizeLike",
    "Symbol",
    "ceil",
    "facts_of",
    "floor",
    "maximum",
    "minimum",
    "plain",
    "quotient",
    "substitute",
]
