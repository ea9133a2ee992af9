"""Sizes with other sizes in place of some of their symbols and functions."""

from __future__ import annotations

from collections.abc import Mapping

from uncork.symbolic.atoms import Atom, Symbol
from uncork.symbolic.size import Size, floor, maximum, quotient


def substitute(size: Size, table: Mapping[Atom, Size]) -> Size:
    """The size with other sizes in place of some atoms, in normal form again."""
    if size.atoms.isdisjoint(table):
        return size
    total = Size({})
    for monomial, factor in size.terms.items():
        product = Size({(): factor})
        for atom in monomial:
            product = product * _substituted(atom, table)
        total = total + product
    return total


def _substituted(atom: Atom, table: Mapping[Atom, Size]) -> Size:
    if atom in table:
        return table[atom]
    if isinstance(atom, Symbol):
        return Size.of(atom)
    arguments = [substitute(argument, table) for argument in atom.arguments]
    if atom.name == "floor":
        return floor(arguments[0])
    if atom.name == "max":
        return maximum(arguments)
    return (
        quotient(*arguments) if arguments[1].terms else arguments[0]
    )  # by 0 is by 1, as `evaluate` has it
