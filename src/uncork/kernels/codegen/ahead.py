"""Asking for memory ahead of its use: for a range of it, while something else is computed position
by position.

A position that asks by itself costs one instruction. But many positions may share a line, and a
processor that is asked for a line again while it comes from memory waits for it; so where more than
two share one, some positions ask together, for each line once.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import Kernel, Value
from uncork.kernels.runtime.target import LINE

#: A pace counts in so many parts of a byte.
_PARTS_BITS = 6
_PARTS = 1 << _PARTS_BITS


def pace_of(k: Kernel, size: Value, positions: Value, most: int) -> Value:
    """How far each of so many positions goes on in a range of `size` bytes, at most so many bytes:
    lines of what lies between are left out.
    """
    return k.minimum(size * _PARTS // positions, k.integer(most * _PARTS))


class Ahead:
    """What positions ask for: a range from an address on, each position `pace` further."""

    def __init__(self, k: Kernel, begin: Value, pace: Value) -> None:
        self.k, self.begin = k, begin
        self._alone, none = pace >= LINE // 2 * _PARTS, k.integer(0)
        self._together = k.select(self._alone, none, pace)
        self._step = k.select(self._alone, pace >> _PARTS_BITS, none)

    def ask(self, position: Value, count: Value | int, here: Value) -> Callable[[Value], Value]:
        """Ask for the lines of so many positions from one on, if they ask together. Returns what
        each of them asks for: a line that is `here`, in the nearest cache, if they do.
        """
        whole, pace = LINE * _PARTS, self._together
        first, end = position * pace, (position + count) * pace
        with self.k.loop((first + (whole - 1)) & -whole, end, whole) as line:
            self.k.prefetch(self.begin + (line >> _PARTS_BITS), near=False)
        start = self.k.select(self._alone, self.begin, here)
        return lambda position: start + position * self._step
