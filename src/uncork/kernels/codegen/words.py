"""Sums, differences and products of 64-bit words with constant folding: what is known is computed
as the text is written.

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
    """A writer of instructions with two words as operands."""

    def word(self, word: str, a: Ref, b: Ref) -> Ref:
        """The result of an instruction with two words as operands; a block has each such
        instruction once.
        """
        ...


class _Offset(Ref):
    """The sum of a word and a known number. The instruction is written where the sum is used, and
    not where it is only added to.
    """

    __slots__ = ("_writer", "base", "number")

    def __init__(self, writer: Writer, base: Ref, number: int) -> None:
        self.type = base.type
        self._writer, self.base, self.number = writer, base, number

    @property
    def name(self) -> str:  # type: ignore[override]
        return self._writer.word("add", self.base, Constant(WORD, self.number)).name


def folded(writer: Writer, word: str, a: Ref, b: Ref) -> Ref:
    """The result of one of the operations in `FOLDED` on `a` and `b`, with known numbers folded."""
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
    """A word as the sum of another word (None where there is none) and a known number."""
    if isinstance(word, _Offset):
        return word.base, word.number
    name = word.name
    return (word, 0) if name[0] in "%@u" else (None, int(name))
