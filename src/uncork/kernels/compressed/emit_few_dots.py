"""Products of few rows of digits with stored weights: a vector of codes is read as it is stored,
and its products with digits are summed in whole numbers, lane by lane.

Column after column is multiplied with all rows, so that codes are read in the order in which they
lie. Two columns at once would be two streams within a page where columns are short, which memory
gives a third slower.

A row with numbers that have no digits (NaN, infinity, very large or small ones) is multiplied as
f32 by a loop for such rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from uncork.kernels.codegen.emit import F32, I8, I16, I32, U8, Kernel, Value, Variable, emitter
from uncork.kernels.compressed.emit_dots import Book, rows_without_digits
from uncork.kernels.compressed.emit_few import AHEAD, across, store_columns
from uncork.kernels.compressed.emit_stored import Column, arguments_of, column_at
from uncork.kernels.compressed.form import code_added
from uncork.kernels.compressed.spec_dots import DotFew
from uncork.kernels.elementwise.emit_steps import Operand
from uncork.kernels.gemm.dots import FOUR_SMALL, flipped
from uncork.kernels.gemm.microkernel_dots import (
    SMALL_SUMS,
    Adder,
)

#: Sums by row and place.
_Sums = list[list[Variable]]
#: Columns ahead of what is read, of zero points and scales.
_COLUMNS_AHEAD = 64


@emitter
def emit_few_dots(k: Kernel, spec: DotFew) -> None:
    """The LLVM text of the kernel."""
    a = arguments_of(k, spec)
    last = a["rows"] - 1
    book = Book(k, a["numbers"], spec.blocks.lanes, spec.blocks.large) if spec.stored.book else None
    with k.loop(a["first"], a["first"] + a["count"]) as column:

        def multiply(*rows: Value) -> None:
            _Tile(k, spec, a, book, rows, column).multiply()

        if spec.rows == 1:
            multiply(k.integer(0))
        else:
            with k.loop(0, a["rows"], 2) as row:
                k.either(row < last, partial(multiply, row, row + 1), partial(multiply, row))
    rows_without_digits(k, spec.stored, spec.end, a)


class _Tile:
    """The product of some rows with a column."""

    def __init__(
        self,
        k: Kernel,
        spec: DotFew,
        a: dict[str, Value],
        book: Book | None,
        rows: Sequence[Value],
        column: Value,
    ) -> None:
        self.k, self.spec, self.a, self.blocks = k, spec, a, spec.blocks
        self.numbers, self.number_of_column, self.book = rows, column, book
        self.column: Column = column_at(a, column, spec.stored)
        blocks, inner = spec.blocks, a["inner"]
        self.count = (inner + (blocks.numbers - 1)) // blocks.numbers
        #: Blocks all of whose numbers exist.
        self.whole = inner // blocks.numbers
        self.steps = (inner + (blocks.length - 1)) // blocks.length
        self.of_step = blocks.length // blocks.numbers
        zero = k.constant(0.0, F32, blocks.lanes)
        self.totals = [k.variable(zero) for _ in rows]
        #: Blocks whose products are added up in 16 bits.
        self.together = 1
        if blocks.how == FOUR_SMALL:
            most = SMALL_SUMS // blocks.halves
            self.together = next(n for n in range(most, 0, -1) if self.of_step % n == 0)

    def multiply(self) -> None:
        """Multiply, and store the results."""
        k, blocks, a = self.k, self.blocks, self.a
        for operand in (self.column.zeros, self.column.scales):
            if operand and self.spec.stored.group:
                row = a["groups"] * operand.type_.bytes
                with k.loop(0, row, 64) as at:
                    k.prefetch(operand.begin + row * _COLUMNS_AHEAD + at)
        if blocks.mixes:
            with k.loop(0, self.whole) as block:

                def one_block(sums: _Sums, block: Value = block) -> None:
                    self._blocks(sums, [block], False)

                self._step(block, one_block, False)
            with k.if_(self.whole < self.count):
                self._step(self.whole, lambda sums: self._blocks(sums, [self.whole], True), True)
        else:
            full = self.whole // self.of_step
            with k.loop(0, full) as step:

                def all_blocks(sums: _Sums, step: Value = step) -> None:
                    for index in range(0, self.of_step, self.together):
                        first = step * self.of_step + index
                        self._blocks(sums, [first + n for n in range(self.together)], False)

                self._step(step, all_blocks, False)
            with k.if_(full < self.steps):

                def some_blocks(sums: _Sums) -> None:
                    with k.loop(full * self.of_step, self.whole) as block:
                        self._blocks(sums, [block], False)
                    with k.if_(self.whole < self.count):
                        self._blocks(sums, [self.whole], True)

                self._step(full, some_blocks, True)
        self._finish()

    def _step(self, step: Value, add: Callable[[_Sums], None], partly: bool) -> None:
        """Sum whole numbers by `add(sums)`, and add what they are to the totals."""
        k, blocks, a, lanes = self.k, self.blocks, self.a, self.blocks.lanes
        sums: _Sums = []
        for number in self.numbers:
            line = a["starts"] + (number * self.steps + step) * (4 * len(blocks.places) * lanes)
            first = [
                k.load(line + place * (4 * lanes), I32, lanes)
                if blocks.middle
                else k.constant(0, I32, lanes)
                for place in range(len(blocks.places))
            ]
            sums.append([k.variable(value) for value in first])
        add(sums)
        scale = self._scale(step, partly)
        for row, number in enumerate(self.numbers):
            place = number * self.steps + step
            if blocks.mixes:
                unit = k.load(a["units"] + place * (4 * lanes), F32, lanes)
            else:
                unit = k.splat(k.load(a["units"] + place * 4, F32), lanes)
            total = self.totals[row]
            value = self._joined([variable.get() for variable in sums[row]])
            total.set(k.fma(value, unit if scale is None else unit * scale, total.get()))

    def _joined(self, places: list[Value]) -> Value:
        """The numbers whose digits are summed. Two places of one byte together are still whole
        numbers of 32 bits.
        """
        k, lanes = self.k, self.blocks.lanes
        value, rest = places[0], places[1:]
        if rest and not self.blocks.wide:
            value, rest = (value << 8) + rest[0], rest[1:]
        result = value.to(F32)
        for place in rest:
            result = k.fma(result, k.constant(256.0, F32, lanes), place.to(F32))
        return result

    def _blocks(self, sums: _Sums, some: Sequence[Value], partly: bool) -> None:
        """Add the products of blocks to the sums."""
        adder = Adder(self.k, self.blocks.how)
        for block in some:
            self._block(block, partly, sums, adder)
        adder.finish()

    def _block(self, block: Value, partly: bool, sums: _Sums, adder: Adder) -> None:
        """Read a block, and add its products to the sums."""
        k, blocks, a, lanes = self.k, self.blocks, self.a, self.blocks.lanes
        codes = self._codes(block, partly)
        for row, number in enumerate(self.numbers):
            line = a["digits"] + (number * self.count + block) * blocks.size
            for place in range(len(blocks.places)):
                for half, some in enumerate(codes):
                    at = place * blocks.place + half * lanes * 4
                    adder.add(sums[row][place], some, k.load(line + at, I32, lanes))

    def _codes(self, block: Value, partly: bool) -> list[Value]:
        """The codes of a block, as they are multiplied."""
        k, blocks, a, lanes = self.k, self.blocks, self.a, self.blocks.lanes
        address = self.column.codes + block * (lanes * 4)
        if not partly:
            k.prefetch(address + AHEAD)
        if blocks.wide and self.book is None:
            return self._widened(address, block, partly)
        mask = None
        if partly:
            left = ((a["inner"] - block * blocks.numbers) * blocks.bits) >> 5
            mask = k.lanes_below(left, lanes)
        word = k.load(address, I32, lanes, mask)
        flip, _ = flipped(blocks.how, self.spec.stored.element_type)
        word = word ^ flip if flip else word
        halves = [word]
        if blocks.bits == 4:
            halves = [word & 0x0F0F0F0F, (word >> 4) & 0x0F0F0F0F]
        if self.book is not None:
            halves = [part for half in halves for part in self.book.numbers(half)]
        return halves

    def _widened(self, address: Value, block: Value, partly: bool) -> list[Value]:
        """The codes of a block in 16 bits."""
        k, blocks = self.k, self.blocks
        lanes, type_ = 2 * blocks.lanes, I8 if self.spec.stored.element_type == "i8" else U8
        left, found = self.a["inner"] - block * blocks.numbers, []
        for half in range(blocks.halves):
            place = address + half * lanes
            mask = k.lanes_below(left - half * lanes, lanes) if partly else None
            found.append(k.load(place, type_, lanes, mask).to(I16))
        return found

    def _scale(self, step: Value, partly: bool) -> Value | None:
        """The scales of a step, lane by lane; None where the column has one, or none."""
        stored, blocks, k, column = self.spec.stored, self.blocks, self.k, self.column
        if not stored.scales or not stored.group:
            return None
        lanes, numbers = blocks.lanes, blocks.length
        if stored.group >= numbers:
            return k.splat(column.scales.at(k, step * numbers // stored.group), lanes)
        count = numbers // stored.group
        if partly:
            left = self.a["inner"] - step * numbers + (stored.group - 1)
            mask = k.lanes_below(left // stored.group, count)
            some = column.scales.some(k, step * count, mask)
        else:
            some = column.scales.at(k, step * count, count)
        return k.picked(some, some, [lane * count // lanes for lane in range(lanes)])

    def _finish(self) -> None:
        """Take zero points off, and store the results."""
        k, stored, a = self.k, self.spec.stored, self.a
        more = code_added(self.blocks.how, stored.element_type)
        groups = (a["inner"] + (stored.group - 1)) // stored.group if stored.group else k.integer(1)
        for row, number in enumerate(self.numbers):
            sums = a["sums"] + number * groups * 4
            if stored.zeros and stored.group:
                self._zeros(row, sums, groups, float(more - self.blocks.middle))
            result = across(k, [self.totals[row].get()])
            if self.book is not None:
                result = result * self.book.unit
            if not stored.group:
                if stored.zeros:
                    zero = self.column.zeros.at(k) + float(more - self.blocks.middle)
                    result = k.fma(zero, k.load(sums, F32), result)
                if stored.scales:
                    result = result * self.column.scales.at(k)
            store_columns(k, self.spec.end, a, result, number, self.number_of_column)

    def _zeros(self, row: int, sums: Value, groups: Value, off: float) -> None:
        """Take the zero points of groups off the totals of a row, a vector of groups at a time."""
        k, stored, lanes = self.k, self.spec.stored, self.blocks.lanes

        def some(at: Value, mask: Value | None = None, seen: Value | None = None) -> None:
            def load(operand: Operand) -> Value:
                return operand.at(k, at, lanes) if mask is None else operand.some(k, at, mask)

            line = load(Operand(sums, "f32"))
            if seen is not None:
                line = k.select(seen, k.constant(0.0, F32, lanes), line)
            value = load(self.column.zeros) + off if off else load(self.column.zeros)
            if stored.scales:
                value = value * load(self.column.scales)
            total = self.totals[row]
            total.set(k.fma(value, line, total.get()))

        whole = groups // lanes * lanes
        with k.loop(0, whole, lanes) as at:
            some(at)
        with k.if_(whole < groups):
            if k.target is not None and k.target.has("avx512bw"):
                some(whole, k.lanes_below(groups - whole, lanes))
                return
            # No instruction loads some bytes: where there are enough groups the last ones again,
            # and what was added is 0.
            last = groups - lanes
            with k.if_else(last >= 0) as (enough, few):
                with enough:
                    some(last, seen=k.lanes_below(whole - last, lanes))
                with few:
                    some(whole, k.lanes_below(groups, lanes))
