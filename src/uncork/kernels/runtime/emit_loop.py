"""The native function that makes the turns of a loop as a step of a segment.

One function serves all loops: it walks tables (see `loop_layout`). A long loop lets other Python
threads run, and looks at signals from time to time.
"""

from __future__ import annotations

from uncork.kernels.codegen.copies import copy_open
from uncork.kernels.codegen.emit import I32, I64, U8, Kernel, Value, Variable
from uncork.kernels.runtime.emit_resize import Tables
from uncork.kernels.runtime.emit_rooms import Room
from uncork.kernels.runtime.emit_words import WordsAndRows, tell_size
from uncork.kernels.runtime.layout import OK
from uncork.kernels.runtime.loop_layout import (
    COPY,
    END,
    GROWN,
    KEPT,
    LOOK,
    LOOP,
    PAIR,
    PARTS,
    RELEASE,
)
from uncork.kernels.runtime.turns_layout import (
    INTERRUPTED,
    NEVER,
    REACHED,
    STOPPED,
    TURNS_HEAD,
    UNFIT,
)

_ROWS = {
    "pairs": PAIR, "parts": PARTS, "inward": COPY, "outward": COPY, "ends": END, "kept": KEPT,
    "grown": GROWN,
}  # fmt: skip
#: The bits of a result of C's `int`.
_INT = 0xFFFFFFFF


class _LoopWords(WordsAndRows):
    """The words of a loop, read inside the function."""

    def __init__(self) -> None:
        k = Kernel("loop", ["words"], direct=True)
        super().__init__(k, k.arguments[0], LOOP, _ROWS)
        self.count = k.variable(self.head("count"))
        #: The turn before which somebody has to look whether the loop may go on.
        self.limit = k.variable(self.head("limit"))
        #: Turns that were made.
        self.made = k.variable(k.integer(0))
        #: Why the loop cannot go on, or OK.
        self.failed = k.variable(k.integer(OK))

    def control(self, name: str) -> Value:
        """The address of a word of the body's table."""
        return self.head("control") + 8 * TURNS_HEAD.index(name)

    def python(self, name: str, *arguments: Value) -> Value:
        return self.k.call_address(self.head(name), arguments)


def emit_loop() -> str:
    """The LLVM text of `i64 loop(i64 words)`: 0, or 1 where it was not run to its end; the table of
    the body then says why.
    """
    loop = _LoopWords()
    k = loop.k
    _begin(loop)
    _make_turns(loop)
    with k.if_(loop.failed.get().equals(OK)):
        _end(loop)
    with k.if_else(loop.failed.get().equals(OK), likely=True) as (well, ill):
        with well:
            _tell_sizes(loop)
        with ill, loop.following("grown") as (_, _, room, _, _, _, _):
            Room(k, room).leave(loop.head("free"))
    k.store(loop.failed.get(), loop.control("status"))
    k.finish(k.select(loop.failed.get().equals(OK), k.integer(0), k.integer(1)))
    return k.text()


def _begin(loop: _LoopWords) -> None:
    """Set the table of the body, and find how many turns there are at most."""
    k, count = loop.k, loop.count
    with loop.following("pairs") as (address, value):
        k.store(value, address)
    with k.if_(loop.head("count_width").equals(8)):
        count.set(loop.word(loop.head("count_at")))
    with k.if_(loop.head("count_width").equals(4)):
        count.set(k.load(loop.head("count_at"), I32).to(I64))
    with k.if_(count.get() < 0):
        count.set(k.integer(NEVER))
    asked = count.get()
    with k.if_(loop.head("condition").equals(0).equals(0)):
        begins = k.load(loop.head("condition"), U8).to(I64).equals(0).equals(0)
        count.set(k.select(begins, count.get(), k.integer(0)))
    unlike = count.get().equals(asked).equals(0) & loop.head("whole").equals(1)
    loop.failed.set(k.select(unlike, k.integer(UNFIT), loop.failed.get()))
    with loop.following("parts") as (parts,):
        loop.limit.set(k.minimum(loop.limit.get(), parts))
    with loop.following("ends") as (pointer, other, _, _, _, _, direct):
        # The last turn writes the output itself where that can be known.
        swaps = direct.equals(1) & (count.get() & 1).equals(0)
        with k.if_(swaps):
            now = loop.word(pointer)
            k.store(loop.word(other), pointer)
            k.store(now, other)
    k.store(k.integer(0), loop.control("turn"))


def _make_turns(loop: _LoopWords) -> None:
    k, made, failed, count = loop.k, loop.made, loop.failed, loop.count
    limit = k.minimum(loop.limit.get(), count.get())
    singly = (loop.head("inward") + loop.head("outward") + loop.head("grown")) > 0
    thread, looked = k.variable(k.integer(0)), k.variable(k.integer(0))
    chunk, goes_on = k.variable(k.integer(1)), k.variable(k.integer(1))
    with k.while_(lambda: failed.get().equals(OK) & goes_on.get().equals(1) & (made.get() < limit)):
        with loop.following("inward") as (part, whole, step, runs, size, stride):
            _copy(loop, whole + made.get() * step, stride, part, size, runs, size)
        stop = k.select(singly, made.get() + 1, k.minimum(made.get() + chunk.get(), limit))
        k.store(stop, loop.control("stop"))
        status = k.call_address(loop.head("turns"), [loop.head("control")])
        with k.if_else(status.equals(REACHED) | status.equals(STOPPED), likely=True) as (well, ill):
            with well:
                with loop.following("outward") as (part, whole, step, runs, size, stride):
                    target = whole + made.get() * step
                    _copy(loop, loop.word(part), size, target, stride, runs, size)
                with loop.following("grown") as (part, size, room, _, _, _, _):
                    fits = Room(k, room).add(
                        loop.word(part), made.get(), size, loop.head("realloc")
                    )
                    failed.set(k.select(fits.equals(1), failed.get(), k.integer(UNFIT)))
                goes_on.set(k.select(status.equals(STOPPED), k.integer(0), k.integer(1)))
            with ill:
                failed.set(status)
        with k.if_(made.get().equals(0)):
            _look_at_cost(loop, limit, chunk, thread)
        made.set(loop.word(loop.control("turn")))
        with k.if_((made.get() - looked.get()) >= chunk.get()):
            looked.set(made.get())
            _look_at_signals(loop, limit)
    with k.if_(thread.get().equals(0).equals(0)):
        loop.python("restore", thread.get())
    ended = goes_on.get().equals(0) | (made.get() >= count.get())
    unlike = made.get().equals(count.get()).equals(0) & loop.head("whole").equals(1)
    unfit = failed.get().equals(OK) & (ended.equals(0) | unlike)
    failed.set(k.select(unfit, k.integer(UNFIT), failed.get()))


def _copy(
    loop: _LoopWords,
    source: Value,
    source_step: Value,
    target: Value,
    target_step: Value,
    runs: Value,
    size: Value,
) -> None:
    with loop.k.loop(0, runs) as i:
        copy_open(loop.k, source + i * source_step, target + i * target_step, size)


def _look_at_cost(loop: _LoopWords, limit: Value, chunk: Variable, thread: Variable) -> None:
    """After the first turn: how long turns take is known, and whether other threads shall run."""
    k = loop.k
    tables = Tables(k, loop.word(loop.control("block")))
    cost = k.load(tables.head("cost"), I64) + 100
    chunk.set(k.maximum(k.integer(LOOK) // cost, k.integer(1)))
    many = (limit > 1) & (limit > k.integer(RELEASE) // cost)
    with k.if_(many & loop.failed.get().equals(OK), likely=False):
        held = (loop.python("held") & _INT).equals(0).equals(0)
        with k.if_(held):
            thread.set(loop.python("save"))


def _look_at_signals(loop: _LoopWords, limit: Value) -> None:
    """Let handlers of signals run. One may raise: the entry of the call finds the exception."""
    k, failed = loop.k, loop.failed
    with k.if_(failed.get().equals(OK) & (loop.made.get() < limit), likely=False):
        visit = loop.python("enter")
        raised = (loop.python("signals") & _INT).equals(0).equals(0)
        loop.python("leave", visit)
        failed.set(k.select(raised, k.integer(INTERRUPTED), failed.get()))


def _end(loop: _LoopWords) -> None:
    """Copy to the outputs what the last turn gave, which must have the sizes that the plan
    knows.
    """
    k = loop.k
    with k.if_else(loop.made.get() > 0, likely=True) as (some, none):
        with some, loop.following("kept") as (address, size):
            unlike = loop.word(address).equals(size).equals(0)
            loop.failed.set(k.select(unlike, k.integer(UNFIT), loop.failed.get()))
        with none, loop.following("ends") as (_, _, _, _, _, initial, _):
            loop.failed.set(k.select(initial.equals(0), k.integer(UNFIT), loop.failed.get()))
    well = loop.failed.get().equals(OK)
    with (
        k.if_(well, likely=True),
        loop.following("ends") as (pointer, other, delta, output, size, initial, _),
    ):
        source = k.variable(initial)
        with k.if_(loop.made.get() > 0, likely=True):
            at = k.select(other.equals(0), pointer, other)
            source.set(loop.word(at) + delta)
        with k.if_(source.get().equals(output).equals(0)):
            copy_open(k, source.get(), output, size)


def _tell_sizes(loop: _LoopWords) -> None:
    """Say how large the outputs are that have a part of each turn, and where their parts lie."""
    k = loop.k
    with loop.following("grown") as (_, _, room, elements, slot, version, found):
        k.store(room, found)
        tell_size(k, loop.made.get() * elements, slot, version)
