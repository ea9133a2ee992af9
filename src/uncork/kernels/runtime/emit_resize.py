"""The native function that binds new sizes: it computes them, checks them, places buffers and
patches the arguments of kernels.

One function serves all models: it walks tables (see `layout`). It costs about a nanosecond for each
operation and patch.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import I32, I64, U8, Kernel, Value
from uncork.kernels.runtime.emit_words import Words
from uncork.kernels.runtime.layout import (
    ALIGNMENT,
    BUFFER,
    CHECK,
    CHECK_AT_LEAST,
    CHECK_EQUAL,
    CHECK_FAILED,
    CONTEXT,
    GUARD_AT_LEAST,
    GUARD_EQUAL,
    GUARD_FAILED,
    GUARD_NOT_EQUAL,
    HEAD,
    NO_MEMORY,
    OK,
    OP,
    OPERATIONS,
    OVERFLOW,
    PATCH,
)

#: Words of an entry of the list of live buffers: where it begins, where it ends, the last step that
#: uses it.
LIVE = 3


class Tables(Words):
    """The head of a segment's block, read inside a kernel."""

    def __init__(self, k: Kernel, block: Value) -> None:
        super().__init__(k, block, HEAD)

    def context(self, name: str) -> Value:
        """The address of a word of the context."""
        return self.head("context") + 8 * CONTEXT.index(name)


def emit_resize() -> str:
    """The LLVM text of `i64 resize(i64 block)`: OK, or why the segment cannot run."""
    k = Kernel("resize", ["block"], direct=True)
    tables = Tables(k, k.arguments[0])
    _compute(k, tables)
    _check(k, tables)
    _place(k, tables)
    _patch(k, tables)
    cost = k.load(tables.head("cost"), I64)
    k.store(
        k.select(cost > tables.head("release_cost"), k.integer(1), k.integer(0)),
        tables.address("release"),
    )
    k.store(k.load(tables.context("version"), I64), tables.address("stamp"))
    k.finish(k.integer(OK))
    return k.text()


def _compute(k: Kernel, tables: Tables) -> None:
    """Run the size program, every operation in turn; overflow is looked at once, at the end."""
    overflow = k.variable(k.integer(0))

    def checked(name: str, a: Value, b: Value) -> Value:
        pair = k.builder.with_overflow(name, a.llvm, b.llvm)
        flag = k.builder.zext(k.builder.extract_value(pair, 1), I64.llvm)
        overflow.set(overflow.get() | Value(k, flag, I64))
        return Value(k, k.builder.extract_value(pair, 0), I64)

    def divided(a: Value, b: Value) -> Value:
        """The quotient rounded towards minus infinity; a divisor below 1 counts as 1, since a check
        on it may still be to come.
        """
        divisor = k.maximum(b, k.integer(1))
        quotient = a // divisor
        lower = (quotient * divisor) > a
        return k.select(lower, quotient - 1, quotient)

    one, zero = k.integer(1), k.integer(0)
    rules: dict[str, Callable[[Value, Value], Value]] = {
        "mul": lambda a, b: checked("smul", a, b),
        "add": lambda a, b: checked("sadd", a, b),
        "sub": lambda a, b: checked("ssub", a, b),
        "floordiv": divided,
        "max": k.maximum,
        "min": k.minimum,
        "greater_equal": lambda a, b: k.select(a >= b, one, zero),
        "equal": lambda a, b: k.select(a.equals(b), one, zero),
        "and": lambda a, b: a & b,
    }
    with tables.rows("op_table", OP) as (operation, a_at, b_at, result_at):
        a, b = k.load(a_at, I64), k.load(b_at, I64)
        for index, name in enumerate(OPERATIONS):
            with k.if_(operation.equals(index)):
                k.store(rules[name](a, b), result_at)
    with k.if_(overflow.get().equals(0).equals(0), likely=False):
        k.return_(k.integer(OVERFLOW))


def _check(k: Kernel, tables: Tables) -> None:
    with tables.rows("check_table", CHECK) as (kind, a_at, b_at, number):
        a, b = k.load(a_at, I64), k.load(b_at, I64)
        equal = (kind.equals(CHECK_EQUAL) | kind.equals(GUARD_EQUAL)) & a.equals(b)
        at_least = (kind.equals(CHECK_AT_LEAST) | kind.equals(GUARD_AT_LEAST)) & (a >= b)
        differ = kind.equals(GUARD_NOT_EQUAL) & a.equals(b).equals(0)
        with k.if_((equal | at_least | differ).equals(0), likely=False):
            k.store(number, tables.context("failed"))
            k.return_(
                k.select(kind < GUARD_EQUAL, k.integer(CHECK_FAILED), k.integer(GUARD_FAILED))
            )


def _place(k: Kernel, tables: Tables) -> None:
    """Place buffers in the working memory by first fit, in the order in which they are first used.

    `live` is the list of live buffers, by where they begin; it goes on from that of the segment
    before (`live_before`).
    """
    live, before = tables.head("live"), tables.head("live_before")
    count = k.variable(k.integer(0))
    needed = k.variable(k.integer(0))
    first_entry = live + 8

    def entry(number: Value) -> Value:
        return first_entry + number * (8 * LIVE)

    def copy(source: Value, target: Value) -> None:
        for word in range(LIVE):
            k.store(k.load(source + 8 * word, I64), target + 8 * word)

    with k.if_(before.equals(0).equals(0)):
        count.set(k.load(before, I64))
        needed.set(k.load(tables.context("needed"), I64))
        with k.loop(0, count.get()) as u:
            copy(before + 8 + u * (8 * LIVE), entry(u))
    with tables.rows("buffer_table", BUFFER) as (bytes_at, first, last, offset_at):
        size = (k.maximum(k.load(bytes_at, I64), k.integer(1)) + (ALIGNMENT - 1)) & -ALIGNMENT
        kept, at, place = (
            k.variable(k.integer(0)),
            k.variable(k.integer(0)),
            k.variable(k.integer(-1)),
        )
        with k.loop(0, count.get()) as u, k.if_(k.load(entry(u) + 16, I64) >= first):
            with k.if_(kept.get().equals(u).equals(0)):
                copy(entry(u), entry(kept.get()))
            with (
                k.if_(place.get() < 0),
                k.if_else((k.load(entry(u), I64) - at.get()) >= size) as (fits, too_small),
            ):
                with fits:
                    place.set(kept.get())
                with too_small:
                    at.set(k.load(entry(u) + 8, I64))
            kept.set(kept.get() + 1)
        with k.if_(place.get() < 0):
            place.set(kept.get())
        behind = k.variable(kept.get())
        with k.while_(lambda behind=behind, place=place: behind.get() > place.get()):  # type: ignore[misc]
            copy(entry(behind.get() - 1), entry(behind.get()))
            behind.set(behind.get() - 1)
        end = at.get() + size
        for word, value in enumerate((at.get(), end, last)):
            k.store(value, entry(place.get()) + 8 * word)
        k.store(at.get(), offset_at)
        count.set(kept.get() + 1)
        needed.set(k.maximum(needed.get(), end))
    k.store(count.get(), live)
    k.store(needed.get(), tables.context("needed"))
    with k.if_(needed.get() > k.load(tables.context("capacity"), I64), likely=False):
        k.return_(k.integer(NO_MEMORY))


def _patch(k: Kernel, tables: Tables) -> None:
    """Write new values to words of arguments, of results' sizes and of small tensors that are made
    of sizes.
    """
    with tables.rows("patch_table", PATCH) as (target, width, constant, a, b, c):
        value = constant + k.load(a, I64) + k.load(b, I64) + k.load(c, I64)
        with k.if_else(width.equals(8), likely=True) as (whole, narrow):
            with whole:
                k.store(value, target)
            with narrow:
                with k.if_(width.equals(4)):
                    k.store(value.to(I32), target)
                with k.if_(width < 4):
                    k.store(value.to(U8), target)
