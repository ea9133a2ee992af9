"""The native entry of a segment: a function of CPython's calling convention that looks at its
arguments, binds sizes and runs.

It knows how CPython and NumPy lay out their objects (see `cpython_entry`; `entry_method` tries that
on real objects before it is used).
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import I32, I64, Kernel, Value
from uncork.kernels.runtime.cpython_entry import DATA, DTYPE, FLAGS, RANK, SHAPE, TYPE
from uncork.kernels.runtime.emit_resize import Tables
from uncork.kernels.runtime.layout import (
    ADDRESS,
    ANSWER,
    ARRAY_GUARD,
    BIND,
    BIND_I32,
    BIND_I64,
    BIND_SHAPE,
    BUSY,
    OK,
    OTHER_ARGUMENTS,
    RESULT,
    STEP,
)
from uncork.kernels.runtime.target import LINE

#: Bytes of a block: a block that no call has read for a while is asked for at
#: once, where each of its lines would be waited for. Many bound calls, each called now and then,
#: take a quarter less time (0.8 us -> 0.6), those of a call in a row 3 ns more.
_SOON = 768
#: Where a list keeps the address of its items.
_ITEMS = 24


class _Entry:
    """The entry under construction: the kernel, the tables, the arguments of the call."""

    def __init__(self) -> None:
        self.k = k = Kernel("segment_entry", ["self", "arguments", "count"], direct=True)
        self_, self.arguments, self.count = k.arguments
        #: The block of the first segment.
        self.block = k.load(self_ + DATA, I64)
        for byte in range(LINE, _SOON, LINE):
            k.prefetch(self.block + byte)
        #: The tables of the first segment, and of the one that runs.
        self.first = self.tables = Tables(k, self.block)
        self.made = k.variable(k.integer(0))  # the list of results, or the only one
        self.guards = self.first.head("array_guards")
        #: How many arguments come behind answers; below 0 where these are none.
        self.behind = self.count - (self.guards + 2)
        self.answers = self.first.head("made").equals(ANSWER) & (self.behind >= 0)

    def outcome(self, value: int | Value) -> Value:
        """What the call returns: a Python integer, or the answer that is given for it."""
        k = self.k
        status = k.integer(value) if isinstance(value, int) else value
        result = k.variable(k.integer(0))
        with k.if_else(self.answers) as (given, none):
            with given:
                if isinstance(value, int) and value == OK:
                    result.set(self.argument(self.guards))
                    k.call_address(self.first.head("take"), [result.get()])
                else:
                    otherwise = self.argument(self.guards + 1)
                    behind = self.arguments + (self.guards + 2) * 8
                    asked = [otherwise, behind, self.behind, k.integer(0)]
                    result.set(k.call_address(self.first.head("call"), asked))
            with none:
                result.set(k.call_address(self.first.head("long"), [status]))
        return result.get()

    def need(self, condition: Value) -> None:
        with self.k.if_(condition.equals(0), likely=False):
            self.k.return_(self.outcome(OTHER_ARGUMENTS))

    def give_up(self, what: Value) -> None:
        """Return `what` from a call that has begun."""
        k, first = self.k, self.first
        k.store(k.integer(0), first.address("busy"))
        with k.if_(self.made.get().equals(0).equals(0)):
            k.call_address(first.head("drop"), [self.made.get()])
        k.return_(what)

    def argument(self, number: Value) -> Value:
        return self.k.load(self.arguments + number * 8, I64)


def emit_entry() -> str:
    """The LLVM text of `PyObject *segment_entry(PyObject *block, PyObject **arguments, Py_ssize_t
    count)`.

    It returns a list of new results or the only one, where the segment has some, else a number, or
    an answer that is given for it: see `layout`.
    """
    e = _Entry()
    k = e.k
    _look_at_arguments(e)
    # Making objects may run other code, which may call this very segment: it is busy from here on.
    with k.if_(k.load(e.tables.address("busy"), I64).equals(1), likely=False):
        k.return_(e.outcome(BUSY))
    k.store(k.integer(1), e.first.address("busy"))
    _make_list(e)
    block = k.variable(e.block)
    with k.while_(lambda: block.get().equals(0).equals(0)):
        e.tables = Tables(k, block.get())
        _bind_sizes(e)
        _make_results(e)
        _patch_addresses(e)
        _run(e)
        block.set(e.tables.head("next"))
    k.store(k.integer(0), e.first.address("busy"))
    with k.if_(e.made.get().equals(0).equals(0)):
        k.return_(e.made.get())
    k.finish(e.outcome(OK))
    return k.text()


def _look_at_arguments(e: _Entry) -> None:
    k, tables = e.k, e.tables
    e.need(e.guards.equals(0) | e.guards.equals(e.count) | (e.answers & e.behind.equals(0)))
    with k.loop(0, e.guards) as i:
        argument = e.argument(i)
        kind, rank, flags, sizes = tables.entry("array_guard_table", i, ARRAY_GUARD)
        with k.if_else(rank >= 0) as (array, object_):
            with object_:
                e.need(argument.equals(kind))
            with array:
                e.need(k.load(argument + TYPE, I64).equals(tables.head("array_type")))
                e.need(k.load(argument + DTYPE, I64).equals(kind))
                e.need((k.load(argument + FLAGS, I32).to(I64) & flags).equals(flags))
                e.need(k.load(argument + RANK, I32).to(I64).equals(rank))
                shape = k.load(argument + SHAPE, I64)
                with k.loop(0, rank) as axis:
                    size = k.load(sizes + axis * 8, I64)
                    e.need(size.equals(-1) | size.equals(k.load(shape + axis * 8, I64)))


def _bind_sizes(e: _Entry) -> None:
    """Read the sizes of this call; when one has changed, here or in a segment before, bind them
    all.
    """
    k, tables = e.k, e.tables
    changed = k.variable(k.integer(0))
    with tables.rows("bind_table", BIND) as (kind, argument, detail, slot):
        size = k.variable(k.integer(0))
        with k.if_else(kind.equals(BIND_SHAPE), likely=True) as (shape, other):
            with shape:
                size.set(k.load(k.load(e.argument(argument) + SHAPE, I64) + detail * 8, I64))
            with other:
                with k.if_(kind.equals(BIND_I64)):
                    size.set(k.load(k.load(e.argument(argument) + DATA, I64) + detail, I64))
                with k.if_(kind.equals(BIND_I32)):
                    size.set(k.load(k.load(e.argument(argument) + DATA, I64) + detail, I32).to(I64))
        with k.if_(k.load(slot, I64).equals(size.get()).equals(0)):
            k.store(size.get(), slot)
            changed.set(k.integer(1))
    version = tables.context("version")
    with k.if_(changed.get().equals(1)):
        k.store(k.load(version, I64) + 1, version)
    with k.if_(k.load(version, I64).equals(tables.head("stamp")).equals(0)):
        status = k.call_address(tables.head("resize"), [tables.address("busy")])
        with k.if_(status < OK, likely=False):
            e.give_up(e.outcome(status))


def _make_list(e: _Entry) -> None:
    """The list of the results of all segments, where there is one. It holds None for those that
    later segments make: other threads may come between, and look at all objects that there are.
    """
    k, first = e.k, e.first
    made, none = first.head("made"), first.head("none")
    with k.if_(made > 0):
        e.made.set(k.call_address(first.head("list"), [made]))
        with k.if_(e.made.get().equals(0), likely=False):
            e.give_up(k.integer(0))
        with k.loop(first.head("results"), made) as i:
            k.call_address(first.head("take"), [none])
            k.call_address(first.head("set_item"), [e.made.get(), i, none])


def _make_results(e: _Entry) -> None:
    k, tables = e.k, e.tables
    with tables.rows("result_table", RESULT) as (dtype, rank, sizes, number):
        k.call_address(tables.head("take"), [dtype])
        array = k.call_address(tables.head("empty"), [rank, sizes, dtype, k.integer(0)])
        with k.if_(array.equals(0), likely=False):
            e.give_up(k.integer(0))
        k.either(
            e.first.head("made") > 0,
            lambda: k.call_address(tables.head("set_item"), [e.made.get(), number, array]),
            lambda: e.made.set(array),
        )


def _patch_addresses(e: _Entry) -> None:
    k, tables = e.k, e.tables
    items = k.variable(k.integer(0))
    listed = e.first.head("made") > 0
    with k.if_(listed):
        items.set(k.load(e.made.get() + _ITEMS, I64))
    with tables.rows("address_table", ADDRESS) as (position, offset, more, target):
        own = position < e.count
        array = k.variable(e.made.get())
        with k.if_(own | listed):
            first = k.select(own, e.arguments, items.get())
            array.set(k.load(first + k.select(own, position, position - e.count) * 8, I64))
        k.store(k.load(array.get() + DATA, I64) + offset + k.load(more, I64), target)


def _run(e: _Entry) -> None:
    k, tables = e.k, e.tables
    thread = k.variable(k.integer(0))
    release = tables.head("release")
    with k.if_(release.equals(1)):
        thread.set(k.call_address(tables.head("save"), []))
    done, status = run_steps(k, tables)
    with k.if_(release.equals(1)):
        k.call_address(tables.head("restore"), [thread.get()])
    with k.if_(status.equals(0).equals(0), likely=False):
        raised = k.call_address(tables.head("occurred"), []).equals(0).equals(0)
        with k.if_(raised):  # a handler of a signal, in the middle of a loop
            e.give_up(k.integer(0))
        e.give_up(e.outcome(done - 1))


def run_steps(k: Kernel, tables: Tables) -> tuple[Value, Value]:
    """Run the steps of a segment until one declines: how many were begun, and the status of the
    last one.
    """
    steps = tables.head("steps")
    done, status = k.variable(k.integer(0)), k.variable(k.integer(0))
    with k.while_(lambda: (done.get() < steps) & status.get().equals(0)):
        function, words, condition = tables.entry("step_table", done.get(), STEP)
        with k.if_(k.load(condition, I64).equals(0).equals(0), likely=True):
            status.set(k.call_address(function, [words]))
        done.set(done.get() + 1)
    return done.get(), status.get()
