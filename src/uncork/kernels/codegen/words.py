"""Sums, differences and products of 64-bit words, of which what is known is computed as the text is
written.

Places in memory are words and known numbers more: the numbers are added up here, and what is the
same in a block is written once. LLVM has passes for that; they take longer than all else that it
does before it chooses instructions.
"""

from __future__ import annotations

from typing import Protocol

from uncork.kernels.codegen.llvm_types import Constant, IntType, Ref

WORD = IntType(64)
#: The instructions.
FOLDED = frozenset(("add", "sub", "mul"))
#: Half of all words.
_HALF = 1 << 63


class Writer(Protocol):
    """Who writes instructions of two words."""

    def word(self, word: str, a: Ref, b: Ref) -> Ref:
        """An instruction of two words, or what it gave before in this block."""
        ...


class _Offset(Ref):
    """A word and a known number more. It is added where the sum is used, and not only added to."""

    __slots__ = ("_writer", "base", "number")

    def __init__(self, writer: Writer, base: Ref, number: int) -> None:
        self.type = base.type
        self._writer, self.base, self.number = writer, base, number

    @property
    def name(self) -> str:  # type: ignore[override]
        return self._writer.word("add", self.base, Constant(WORD, self.number)).name


def folded(writer: Writer, word: str, a: Ref, b: Ref) -> Ref:
    """`a` and `b` joined by one of `FOLDED`."""
    (base, number), (other, more) = _parts(a), _parts(b)
    if word == "mul":
        if base is None:
            base, number, other, more = other, more, base, number
        if other is not None:
            return writer.word(word, a, b)
        if base is None or more in (0, 1):
            return _offset(writer, base if more else None, number * more)
        return _offset(writer, writer.word(word, base, Constant(WORD, more)), number * more)
    sign = -1 if word == "sub" else 1
    if other is None:
        return _offset(writer, base, number + sign * more)
    if base is None:
        if word == "sub":
            return _offset(writer, writer.word(word, Constant(WORD, 0), other), number - more)
        return _offset(writer, other, number + more)
    return _offset(writer, writer.word(word, base, other), number + sign * more)


def _offset(writer: Writer, base: Ref | None, number: int) -> Ref:
    number = (number + _HALF) % (2 * _HALF) - _HALF  # words wrap
    if base is None:
        return Constant(WORD, number)
    return _Offset(writer, base, number) if number else base


def _parts(word: Ref) -> tuple[Ref | None, int]:
    """A word as another one, None where there is none, and a known number."""
    if isinstance(word, _Offset):
        return word.base, word.number
    name = word.name
    return (word, 0) if name[0] in "%@u" else (None, int(name))
