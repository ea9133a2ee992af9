"""Sizes as numbers, as far as what is known of a call tells them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from uncork.symbolic import Origin, Size, SizeLike, Symbol, substitute
from uncork.symbolic.atoms import Atom

#: Sizes and numbers of a call, by what they are of.
Hints = Mapping[Origin, int]


def known_values(symbols: Collection[Symbol], hints: Hints) -> dict[Symbol, int] | None:
    """The numbers of the symbols; None where one is not known."""
    if any(symbol.origin not in hints for symbol in symbols):
        return None
    return {symbol: hints[symbol.origin] for symbol in symbols}


def known_size(size: SizeLike, hints: Hints) -> SizeLike:
    """The size with numbers for the symbols that are known: a number where all are."""
    if not isinstance(size, Size):
        return size
    values = known_values(size.symbols, hints)
    if values is not None:
        value = size.exact_value(values)
        return value if isinstance(value, int) else Size.of(value)
    table: dict[Atom, Size] = {
        symbol: Size.of(hints[symbol.origin]) for symbol in size.symbols if symbol.origin in hints
    }
    return substitute(size, table)
