"""Rooms: memory in which a loop puts parts one behind the other while nobody knows how many there
will be, and the native function that makes an output of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.codegen.copies import copy_open
from uncork.kernels.codegen.emit import I64, Kernel, Value
from uncork.kernels.runtime.emit_words import Words
from uncork.kernels.runtime.loop_layout import FIRST_ROOM, JOIN, KEPT_ROOM, ROOM


class Room(Words):
    """A room, read inside a function."""

    def __init__(self, k: Kernel, address: Value) -> None:
        super().__init__(k, address, ROOM)

    def add(self, part: Value, number: Value, size: Value, realloc: Value) -> Value:
        """Put the part of a turn, by its number, behind those before it: 1, or 0 where there is no
        memory for it.
        """
        k = self.k
        fits = self.reserve((number + 1) * size, realloc)
        with k.if_(fits.equals(1), likely=True):
            copy_open(k, part, self.head("address") + number * size, size)
        return fits

    def reserve(self, needed: Value, realloc: Value) -> Value:
        """Have room for so many bytes, in which those that are there stay: 1, or 0 where there is
        no memory for them.
        """
        k, fits = self.k, self.k.variable(self.k.integer(1))
        with k.if_(needed > self.head("bytes"), likely=False):
            wanted = k.maximum(needed * 2, k.integer(FIRST_ROOM))
            wanted = k.minimum(wanted, self.head("most"))
            with k.if_else(needed > wanted) as (too_large, other):
                with too_large:
                    fits.set(k.integer(0))
                with other:
                    memory = k.call_address(realloc, [self.head("address"), wanted])
                    with k.if_else(memory.equals(0), likely=False) as (none, new):
                        with none:
                            fits.set(k.integer(0))
                        with new:
                            self.set("address", memory)
                            self.set("bytes", wanted)
        return fits.get()

    def leave(self, free: Value) -> None:
        """Give the memory of a large room back."""
        k = self.k
        with k.if_(self.head("bytes") > KEPT_ROOM, likely=False):
            k.call_address(free, [self.head("address")])
            self.set("address", k.integer(0))
            self.set("bytes", k.integer(0))


def emit_join() -> str:
    """The LLVM text of `i64 join(i64 words)`, which gives 0: see `loop_layout.JOIN`."""
    k = Kernel("join", ["words"], direct=True)
    (words,) = k.arguments
    row = Words(k, words, JOIN).named()
    room = Room(k, k.load(row["found"], I64))
    parts, runs, size = row["size"] // row["elements"], row["runs"], row["bytes"]
    behind = runs.equals(1) & row["step"].equals(size)
    k.either(
        behind,
        lambda: copy_open(k, room.head("address"), row["first"], parts * size),
        lambda: _copy_parts(k, room.head("address"), row["first"], (parts, runs, size), row),
        likely=True,
    )
    k.finish(k.integer(0))
    return k.text()


def _copy_parts(
    k: Kernel, source: Value, target: Value, counts: Sequence[Value], row: dict[str, Value]
) -> None:
    parts, runs, size = counts
    with k.loop(0, parts) as part, k.loop(0, runs) as run:
        at = target + part * row["step"] + run * row["stride"]
        copy_open(k, source + (part * runs + run) * size, at, size)
