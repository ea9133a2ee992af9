"""Sizes with other sizes in place of some of their symbols and functions."""

from __future__ import annotations

from collections.abc import Mapping

from uncork.symbolic.atoms import Atom, Monomial, Symbol
from uncork.symbolic.size import Size, floor, maximum, quotient, without

_NONE: Mapping[Monomial, Size] = {}


def substitute(
    size: Size, table: Mapping[Atom, Size], products: Mapping[Monomial, Size] = _NONE
) -> Size:
    """The size with other sizes in place of some atoms, and of some products of them, in normal
    form again.
    """
    if size.atoms.isdisjoint(table) and not any(map(size.atoms.issuperset, products)):
        return size
    total = Size({})
    for monomial, factor in size.terms.items():
        product = Size({(): factor})
        for several, by in products.items():
            while (rest := without(monomial, several)) is not None:
                monomial, product = rest, product * by
        for atom in monomial:
            product = product * _substituted(atom, table, products)
        total = total + product
    return total


def _substituted(atom: Atom, table: Mapping[Atom, Size], products: Mapping[Monomial, Size]) -> Size:
    if atom in table:
        return table[atom]
    if isinstance(atom, Symbol):
        return Size.of(atom)
    arguments = [substitute(argument, table, products) for argument in atom.arguments]
    if atom.name == "floor":
        return floor(arguments[0])
    if atom.name == "max":
        return maximum(arguments)
    return (
        quotient(*arguments) if arguments[1].terms else arguments[0]
    )  # by 0 is by 1, as `evaluate` has it
