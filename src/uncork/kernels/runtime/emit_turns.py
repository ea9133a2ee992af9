"""The native function that makes the turns of a loop: it binds sizes, runs the body's segments,
carries on.

One function serves all loops: it walks tables (see `turns_layout`). It adds tens of nanoseconds to
a turn.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import I32, I64, U8, Kernel, Value, Variable
from uncork.kernels.runtime.emit_entry import run_steps
from uncork.kernels.runtime.emit_resize import Tables
from uncork.kernels.runtime.emit_words import Words
from uncork.kernels.runtime.layout import ADDRESS, BIND_I32, BIND_I64, OK
from uncork.kernels.runtime.turns_layout import (
    EDGE,
    FIXED,
    NO_BUFFER,
    OTHER_SIZES,
    REACHED,
    SLICE,
    STOPPED,
    TURN_BIND,
    TURN_BUFFER,
    TURN_PART,
    TURNS_HEAD,
)


class _TurnTables(Words):
    """The tables of a loop, read inside the function. `segment` is the one that runs."""

    def __init__(self) -> None:
        k = Kernel("turns", ["control"], direct=True)
        super().__init__(k, k.arguments[0], TURNS_HEAD)
        self.segment = Tables(k, self.head("block"))


def emit_turns() -> str:
    """The LLVM text of `i64 turns(i64 control)`: why it returned. The head has the next turn
    then.
    """
    loop = _TurnTables()
    k = loop.k
    #: Nobody has looked at the sizes of Parameters, nor at the tables of results.
    first = k.variable(k.integer(1))
    with k.while_(lambda: loop.head("turn") < loop.head("stop")):
        _count(loop)
        _bind(loop)
        with loop.rows("part_table", TURN_PART) as (block, begin, end):
            loop.segment = Tables(k, block)
            new = k.variable(first.get())
            _resize(loop, new)
            _check_buffers(loop, new, (begin, end))
            _run(loop)
        first.set(k.integer(0))
        _carry(loop)
    k.finish(k.integer(REACHED))
    return k.text()


def _run(loop: _TurnTables) -> None:
    """Run the steps of a segment on the addresses of this turn."""
    k = loop.k
    with loop.segment.rows("address_table", ADDRESS) as (argument, offset, more, target):
        address = loop.word(loop.head("pointers") + argument * 8) + offset + loop.word(more)
        k.store(address, target)
    done, status = run_steps(k, loop.segment)
    with k.if_(status.equals(0).equals(0), likely=False):
        k.return_(done - 1)


def _count(loop: _TurnTables) -> None:
    """Give the body the number of the turn."""
    k, counter, turn = loop.k, loop.head("counter"), loop.head("turn")
    width = loop.head("counter_width")
    with k.if_(width.equals(8)):
        k.store(turn, counter)
    with k.if_(width.equals(4)):
        k.store(turn.to(I32), counter)


def _bind(loop: _TurnTables) -> None:
    """Bind sizes and addresses of a turn, as the entry of a segment does for arrays."""
    k, segment = loop.k, loop.segment
    changed = k.variable(k.integer(0))
    with loop.rows("bind_table", TURN_BIND) as (kind, place, offset, slot):
        size = k.variable(loop.word(place))
        with k.if_(kind.equals(BIND_I64)):
            size.set(loop.word(size.get() + offset))
        with k.if_(kind.equals(BIND_I32)):
            size.set(k.load(size.get() + offset, I32).to(I64))
        with k.if_(loop.word(slot).equals(size.get()).equals(0)):
            k.store(size.get(), slot)
            changed.set(k.integer(1))
    version = segment.context("version")
    with k.if_(changed.get().equals(1)):
        k.store(loop.word(version) + 1, version)


def _resize(loop: _TurnTables, new: Variable) -> None:
    """Have a segment compute what depends on sizes, where one is `new` to it."""
    k, segment = loop.k, loop.segment
    with k.if_(loop.word(segment.context("version")).equals(segment.head("stamp")).equals(0)):
        status = k.call_address(segment.head("resize"), [segment.address("busy")])
        with k.if_(status < OK, likely=False):
            k.return_(status)
        new.set(k.integer(1))


def _check_buffers(loop: _TurnTables, new: Variable, results: tuple[Value, Value]) -> None:
    """Check that Parameters have the sizes that are numbers, and that there is room for the results
    of a segment, by their rows.
    """
    k = loop.k
    with k.if_(new.get().equals(1)):
        with loop.rows("fixed_table", FIXED) as (place, number):
            differs = loop.word(place).equals(number).equals(0)
            with k.if_(differs, likely=False):
                k.return_(k.integer(OTHER_SIZES))
        with loop.rows("buffer_table", TURN_BUFFER, results) as row:
            _, other, scratch, width, rank, sizes, kept = row
            needed, alike = k.variable(width), k.variable(k.integer(1))
            with k.loop(0, rank) as axis:
                size = loop.word(loop.word(sizes + axis * 8))
                needed.set(needed.get() * size)
                with k.if_(size.equals(loop.word(kept + axis * 8)).equals(0)):
                    alike.set(k.integer(0))
            there = loop.word(scratch)
            with k.if_else(other.equals(0)) as (behind, instead):
                with behind:
                    unlike = alike.get().equals(0) | needed.get().equals(there).equals(0)
                    with k.if_(unlike, likely=False):
                        k.return_(k.integer(NO_BUFFER))
                with instead, k.if_(needed.get() > there, likely=False):
                    k.return_(k.integer(NO_BUFFER))


def _carry(loop: _TurnTables) -> None:
    """Carry what the turn gave to the next one; return STOPPED when it says that there is none."""
    k = loop.k
    with (
        loop.rows("buffer_table", TURN_BUFFER) as (_, _, _, _, rank, sizes, kept),
        k.loop(0, rank) as axis,
    ):
        k.store(loop.word(loop.word(sizes + axis * 8)), kept + axis * 8)
    with loop.rows("edge_table", EDGE) as (result, parameter, rank, kept, sizes):
        k.store(loop.word(result), parameter)
        with k.loop(0, rank) as axis:
            k.store(loop.word(kept + axis * 8), sizes + axis * 8)
    goes_on = k.variable(k.integer(1))
    decides = loop.head("decides")
    with k.if_(decides.equals(0).equals(0)):
        goes_on.set(k.load(loop.word(decides), U8).to(I64))
    with loop.rows("buffer_table", TURN_BUFFER) as (pointer, other, scratch, _, _, _, _):
        now = loop.word(pointer)
        with k.if_else(other.equals(0)) as (behind, instead):
            with behind:
                k.store(now + loop.word(scratch), pointer)
            with instead:
                k.store(loop.word(other), pointer)
                k.store(now, other)
    with loop.rows("slice_table", SLICE) as (pointer, step):
        k.store(loop.word(pointer) + step, pointer)
    k.store(loop.head("turn") + 1, loop.address("turn"))
    with k.if_(goes_on.get().equals(0)):
        k.return_(k.integer(STOPPED))


def emit_released() -> str:
    """The LLVM text of `i64 released(i64 words)`: a call of a function with an argument, while
    other Python threads run. The words are these two, and what gives the lock of the interpreter
    back and takes it again.
    """
    k = Kernel("released", ["words"], direct=True)
    (words,) = k.arguments
    function, argument, save, restore = (k.load(words + 8 * i, I64) for i in range(4))
    thread = k.call_address(save, [])
    status = k.call_address(function, [argument])
    k.call_address(restore, [thread])
    k.finish(status)
    return k.text()
