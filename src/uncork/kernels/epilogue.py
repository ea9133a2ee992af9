"""What ends a product before its sums are stored: an expression of words, as kernels are specialised for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

#: How an operand lies on the result: one number for each channel (or column), one for each element, or one number for all.
CHANNEL, ELEMENT, NUMBER = "channel", "element", "number"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of `codegen.scalar_ops`, and what it is said of: 0 is the sum, then come the operands, then words before it."""

    word: str
    arguments: tuple[int, ...]
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The words, of which the last one is stored, and the kind of each operand. Without words the sum itself is stored."""

    operands: tuple[str, ...] = ()
    words: tuple[Word, ...] = ()

    @property
    def name(self) -> str:
        """The part of a kernel's name that says it; nothing without words."""
        if not self.words:
            return ""
        told = "_".join(word.word for word in self.words)[:40]
        return f"_{told}_{hashlib.sha256(repr(self).encode()).hexdigest()[:8]}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments for it: the address of each operand."""
        return tuple(f"end_{number}" for number in range(len(self.operands)))


#: Nothing comes after the sums.
PLAIN = Epilogue()
