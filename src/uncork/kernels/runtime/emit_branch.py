"""The native function that runs one of two bodies, by a condition that a step has computed."""

from __future__ import annotations

from uncork.kernels.codegen.emit import I64, U8, Kernel, Value
from uncork.kernels.runtime.branch_layout import ALIKE, BRANCH, COUNTS, PAIR, ROOM_OF, SIZE
from uncork.kernels.runtime.emit_rooms import Room
from uncork.kernels.runtime.emit_words import Words, WordsAndRows, tell_size
from uncork.kernels.runtime.turns_layout import (
    NO_BUFFER,
    REACHED,
    TURN_BUFFER,
    TURNS_HEAD,
    UNFIT,
)

_ROWS = {"pairs": PAIR, "rooms": ROOM_OF, "sizes": SIZE, "alike": ALIKE}


class _Branch(WordsAndRows):
    """The words of the body that is taken, read inside the function."""

    def __init__(self) -> None:
        k = Kernel("branch", ["words"], direct=True)
        (words,) = k.arguments
        self.common = Words(k, words, BRANCH).named()
        taken = k.load(self.common["condition"], U8).to(I64).equals(0).equals(0)
        body = k.select(taken, self.common["then"], self.common["other"])
        self.body = Words(k, body, TURNS_HEAD)
        more = k.select(taken, k.integer(0), self.common["then_words"] * 8)
        super().__init__(k, words + 8 * len(BRANCH) + more, COUNTS, _ROWS)

    def result(self, number: Value) -> dict[str, Value]:
        """The words of a result in the body's table."""
        row = self.body.head("buffer_table") + number * (8 * len(TURN_BUFFER))
        return Words(self.k, row, TURN_BUFFER).named()

    def enter_body(self) -> Value:
        """Run the body, whose results have the room that there is: why it ended."""
        k = self.k
        with self.following("rooms") as (number, row, _):
            result, room = self.result(number), Room(k, row)
            k.store(room.head("address"), result["pointer"])
            k.store(room.head("address"), result["other"])
            k.store(room.head("bytes"), result["buffer"])
        self.body.set("turn", k.integer(0))
        self.body.set("stop", k.integer(1))
        return k.call_address(self.common["turns"], [self.body.at])


def emit_branch() -> str:
    """The LLVM text of `i64 branch(i64 words)`: 0, or 1 where the body declines; see
    `branch_layout`.
    """
    branch = _Branch()
    k = branch.k
    with branch.following("pairs") as (address, value):
        k.store(value, address)
    status = k.variable(branch.enter_body())
    # A segment without room knows what it gives; a later one may find more.
    with (
        k.loop(0, branch.body.head("part_rows")),
        k.if_(status.get().equals(NO_BUFFER), likely=False),
    ):
        with branch.following("rooms") as (number, row, _):
            result = branch.result(number)
            needed = k.variable(result["width"])
            with k.loop(0, result["rank"]) as axis:
                needed.set(needed.get() * branch.word(branch.word(result["sizes"] + axis * 8)))
            Room(k, row).reserve(needed.get(), branch.common["realloc"])
        status.set(branch.enter_body())
    with branch.following("alike") as (kept, size):
        unlike = branch.word(kept).equals(size).equals(0) & status.get().equals(REACHED)
        status.set(k.select(unlike, k.integer(UNFIT), status.get()))
    with k.if_(status.get().equals(REACHED), likely=True):
        _tell_sizes(branch)
    branch.body.set("status", status.get())
    k.finish(k.select(status.get().equals(REACHED), k.integer(0), k.integer(1)))
    return k.text()


def _tell_sizes(branch: _Branch) -> None:
    """Say what sizes the results have, and where they lie."""
    k = branch.k
    with branch.following("rooms") as (_, room, found):
        k.store(room, found)
    with branch.following("sizes") as (kept, slot, version):
        tell_size(k, branch.word(kept), slot, version)
