"""The native function that runs one of two bodies, by a condition that a step has computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from uncork.kernels.codegen.emit import I64, U8, Kernel, Value
from uncork.kernels.runtime.branch_layout import ALIKE, BRANCH, COUNTS, PAIR, ROOM_OF, SIZE
from uncork.kernels.runtime.emit_rooms import Room
from uncork.kernels.runtime.turns_layout import (
    NO_BUFFER,
    REACHED,
    TURN_BUFFER,
    TURNS_HEAD,
    UNFIT,
)

_ROWS = {"pairs": PAIR, "rooms": ROOM_OF, "sizes": SIZE, "alike": ALIKE}


class _Branch:
    """The words of the body that is taken, read inside the function."""

    def __init__(self) -> None:
        self.k = k = Kernel("branch", ["words"], direct=True)
        (words,) = k.arguments
        self.head = {name: k.load(words + 8 * i, I64) for i, name in enumerate(BRANCH)}
        taken = k.load(self.head["condition"], U8).to(I64).equals(0).equals(0)
        self.body = k.select(taken, self.head["then"], self.head["other"])
        behind = words + 8 * len(BRANCH)
        at = behind + k.select(taken, k.integer(0), self.head["then_words"] * 8)
        self._counts = {name: k.load(at + 8 * i, I64) for i, name in enumerate(COUNTS)}
        self._tables: dict[str, Value] = {}
        first = at + 8 * len(COUNTS)
        for name in COUNTS:
            self._tables[name] = first
            first = first + self._counts[name] * (8 * len(_ROWS[name]))

    def word(self, address: Value) -> Value:
        return self.k.load(address, I64)

    def control(self, name: str) -> Value:
        """The address of a word of the body's table."""
        return self.body + 8 * TURNS_HEAD.index(name)

    @contextmanager
    def rows(self, name: str) -> Iterator[list[Value]]:
        """A loop over the rows of a table."""
        columns = len(_ROWS[name])
        with self.k.loop(0, self._counts[name]) as i:
            first = self._tables[name] + i * (8 * columns)
            yield [self.word(first + 8 * index) for index in range(columns)]

    def result(self, number: Value) -> dict[str, Value]:
        """The words of a result in the body's table."""
        row = self.word(self.control("buffer_table")) + number * (8 * len(TURN_BUFFER))
        return {name: self.word(row + 8 * index) for index, name in enumerate(TURN_BUFFER)}

    def enter_body(self) -> Value:
        """Run the body, whose results have the room that there is: why it ended."""
        k = self.k
        with self.rows("rooms") as (number, row, _):
            result, room = self.result(number), Room(k, row)
            k.store(room["address"], result["pointer"])
            k.store(room["address"], result["other"])
            k.store(room["bytes"], result["buffer"])
        k.store(k.integer(0), self.control("turn"))
        k.store(k.integer(1), self.control("stop"))
        return k.call_address(self.head["turns"], [self.body])


def emit_branch() -> str:
    """The LLVM text of `i64 branch(i64 words)`: 0, or 1 where the body declines; see
    `branch_layout`.
    """
    branch = _Branch()
    k = branch.k
    with branch.rows("pairs") as (address, value):
        k.store(value, address)
    status = k.variable(branch.enter_body())
    # A segment without room knows what it gives; a later one may find more.
    with (
        k.loop(0, branch.word(branch.control("part_rows"))),
        k.if_(status.get().equals(NO_BUFFER), likely=False),
    ):
        with branch.rows("rooms") as (number, row, _):
            result = branch.result(number)
            needed = k.variable(result["width"])
            with k.loop(0, result["rank"]) as axis:
                needed.set(needed.get() * branch.word(branch.word(result["sizes"] + axis * 8)))
            Room(k, row).reserve(needed.get(), branch.head["realloc"])
        status.set(branch.enter_body())
    with branch.rows("alike") as (kept, size):
        unlike = branch.word(kept).equals(size).equals(0) & status.get().equals(REACHED)
        status.set(k.select(unlike, k.integer(UNFIT), status.get()))
    with k.if_(status.get().equals(REACHED), likely=True):
        _tell_sizes(branch)
    k.store(status.get(), branch.control("status"))
    k.finish(k.select(status.get().equals(REACHED), k.integer(0), k.integer(1)))
    return k.text()


def _tell_sizes(branch: _Branch) -> None:
    """Say what sizes the results have, and where they lie."""
    k = branch.k
    with branch.rows("rooms") as (_, room, found):
        k.store(room, found)
    with branch.rows("sizes") as (kept, slot, version):
        size = branch.word(kept)
        with k.if_(branch.word(slot).equals(size).equals(0)):
            k.store(size, slot)
            k.store(branch.word(version) + 1, version)
