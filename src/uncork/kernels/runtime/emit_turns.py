"""The native function that makes the turns of a loop: it binds the sizes of a turn, runs the segment of the body and carries on.

One function serves all loops: it walks tables (see `turns_layout`). What it adds to a turn is some tens of nanoseconds.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import I32, I64, U8, Kernel, Value, Variable
from uncork.kernels.runtime.emit_entry import run_steps
from uncork.kernels.runtime.emit_resize import Tables
from uncork.kernels.runtime.layout import ADDRESS, BIND_I64, BIND_SHAPE, OK
from uncork.kernels.runtime.turns_layout import (
    EDGE,
    FIXED,
    OTHER_SIZES,
    REACHED,
    ROOM,
    SLICE,
    STOPPED,
    TURN_BIND,
    TURN_ROOM,
    TURNS_HEAD,
)


class _Loop:
    """The tables of a loop, read inside the function."""

    def __init__(self) -> None:
        self.k = Kernel("turns", ["control"], direct=True)
        (self._control,) = self.k.arguments
        self.segment = Tables(self.k, self.head("block"))

    def address(self, name: str) -> Value:
        return self._control + 8 * TURNS_HEAD.index(name)

    def head(self, name: str) -> Value:
        return self.word(self.address(name))

    def word(self, address: Value) -> Value:
        return self.k.load(address, I64)

    def row(self, table: Value, number: Value, names: tuple[str, ...]) -> list[Value]:
        first = table + number * (8 * len(names))
        return [self.word(first + 8 * i) for i in range(len(names))]


def emit_turns() -> str:
    """The LLVM text of `i64 turns(i64 control)`: why it returned, with the number of the next turn in the head."""
    loop = _Loop()
    k = loop.k
    #: Sizes are new, at least to the tables of results.
    new = k.variable(k.integer(1))
    with k.during(lambda: loop.head("turn") < loop.head("stop")):
        _count(loop)
        _bind(loop, new)
        _look_at_room(loop, new)
        new.set(k.integer(0))
        with k.loop(0, loop.segment.head("addresses")) as i:
            argument, offset, more, target = loop.segment.entry("address_table", i, ADDRESS)
            k.store(loop.word(loop.head("pointers") + argument * 8) + offset + loop.word(more), target)
        done, status = run_steps(k, loop.segment)
        with k.when(status.equals(0).equals(0), likely=False):
            k.leave(done - 1)
        _carry(loop)
    k.finish(k.integer(REACHED))
    return k.text()


def _count(loop: _Loop) -> None:
    """The body takes the number of the turn."""
    k, counter, turn = loop.k, loop.head("counter"), loop.head("turn")
    with k.when(counter.equals(0).equals(0)), k.either(loop.head("counter_width").equals(8)) as (long, short):
        with long:
            k.store(turn, counter)
        with short:
            k.store(turn.to(I32), counter)


def _bind(loop: _Loop, new: Variable) -> None:
    """As the entry of a segment does, from sizes and addresses in place of arrays."""
    k, segment = loop.k, loop.segment
    changed = k.variable(k.integer(0))
    table = loop.head("bind_table")
    with k.loop(0, loop.head("binds")) as i:
        kind, place, offset, slot = loop.row(table, i, TURN_BIND)
        size = k.variable(loop.word(place))
        with k.when(kind.equals(BIND_SHAPE).equals(0)), k.either(kind.equals(BIND_I64)) as (long, short):
            with long:
                size.set(loop.word(size.get() + offset))
            with short:
                size.set(k.load(size.get() + offset, I32).to(I64))
        with k.when(loop.word(slot).equals(size.get()).equals(0)):
            k.store(size.get(), slot)
            changed.set(k.integer(1))
    version = segment.context("version")
    with k.when(changed.get().equals(1)):
        k.store(loop.word(version) + 1, version)
    with k.when(loop.word(version).equals(segment.head("stamp")).equals(0)):
        status = k.call_address(segment.head("resize"), [segment.address("busy")])
        with k.when(status < OK, likely=False):
            k.leave(status)
        new.set(k.integer(1))


def _look_at_room(loop: _Loop, new: Variable) -> None:
    """Parameters have the sizes that are numbers, and what the turn gives has room. Turns that lie behind each other are of one size."""
    k = loop.k
    with k.when(new.get().equals(1)):
        table = loop.head("fixed_table")
        with k.loop(0, loop.head("fixed")) as i:
            place, number = loop.row(table, i, FIXED)
            with k.when(loop.word(place).equals(number).equals(0), likely=False):
                k.leave(k.integer(OTHER_SIZES))
        table = loop.head("room_table")
        with k.loop(0, loop.head("rooms")) as i:
            _, other, room, width, rank, sizes, _ = loop.row(table, i, TURN_ROOM)
            needed = k.variable(width)
            with k.loop(0, rank) as axis:
                needed.set(needed.get() * loop.word(loop.word(sizes + axis * 8)))
            there = loop.word(room)
            fits = k.select(other.equals(0), _as_number(k, needed.get().equals(there)), _as_number(k, needed.get() <= there))
            with k.when(fits.equals(0), likely=False):
                k.leave(k.integer(ROOM))


def _as_number(k: Kernel, condition: Value) -> Value:
    return k.select(condition, k.integer(1), k.integer(0))


def _carry(loop: _Loop) -> None:
    """What the turn gave goes to the next one, to where it is kept, and says whether there is another one."""
    k = loop.k
    rooms = loop.head("room_table")
    with k.loop(0, loop.head("rooms")) as i:
        _, _, _, _, rank, sizes, kept = loop.row(rooms, i, TURN_ROOM)
        with k.loop(0, rank) as axis:
            k.store(loop.word(loop.word(sizes + axis * 8)), kept + axis * 8)
    table = loop.head("edge_table")
    with k.loop(0, loop.head("edges")) as i:
        result, parameter, rank, kept, sizes = loop.row(table, i, EDGE)
        k.store(loop.word(result), parameter)
        with k.loop(0, rank) as axis:
            k.store(loop.word(kept + axis * 8), sizes + axis * 8)
    goes_on = k.variable(k.integer(1))
    decides = loop.head("decides")
    with k.when(decides.equals(0).equals(0)):
        goes_on.set(k.load(loop.word(decides), U8).to(I64))
    with k.loop(0, loop.head("rooms")) as i:
        pointer, other, room, _, _, _, _ = loop.row(rooms, i, TURN_ROOM)
        now = loop.word(pointer)
        with k.either(other.equals(0)) as (behind, instead):
            with behind:
                k.store(now + loop.word(room), pointer)
            with instead:
                k.store(loop.word(other), pointer)
                k.store(now, other)
    table = loop.head("slice_table")
    with k.loop(0, loop.head("slices")) as i:
        pointer, step = loop.row(table, i, SLICE)
        k.store(loop.word(pointer) + step, pointer)
    k.store(loop.head("turn") + 1, loop.address("turn"))
    with k.when(goes_on.get().equals(0)):
        k.leave(k.integer(STOPPED))
