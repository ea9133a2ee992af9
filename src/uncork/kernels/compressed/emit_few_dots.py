"""Products of few rows of digits with stored weights: a vector of codes is read as it is stored,
and its products with digits are summed in whole numbers, lane by lane.

Column after column is multiplied, so that codes are read in the order in which they lie. Two
columns at once would be two streams within a page where columns are short, which memory gives a
third slower. Sums of some columns wait until their lanes can be added up together.

A row with numbers that have no digits (NaN, infinity, very large or small ones) is multiplied as
f32 by a loop for such rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from uncork.kernels.codegen.emit import F32, I8, I16, I32, U8, Kernel, Value, Variable, emitter
from uncork.kernels.compressed.emit_dots import Book, rows_without_digits
from uncork.kernels.compressed.emit_few import AHEAD, across, store_columns
from uncork.kernels.compressed.emit_stored import Column, arguments_of, bytes_of, column_at
from uncork.kernels.compressed.form import code_added
from uncork.kernels.compressed.spec_dots import COLUMNS, DotFew
from uncork.kernels.elementwise.emit_planes import block_at, words_at
from uncork.kernels.elementwise.emit_steps import Operand
from uncork.kernels.gemm.dots import FOUR_MIXED, FOUR_SMALL, flipped
from uncork.kernels.gemm.microkernel_dots import (
    SMALL_SUMS,
    Adder,
)

#: Sums by row and place.
_Sums = list[list[Variable]]
#: Columns ahead of what is read, of zero points and scales.
_COLUMNS_AHEAD = 64
#: Bytes of digits that meet some columns before those behind them do, so that they come from the
#: first cache.
_PART = 20480


@emitter
def emit_few_dots(k: Kernel, spec: DotFew) -> None:
    """The LLVM text of the kernel."""
    a = arguments_of(k, spec)
    last, end = a["rows"] - 1, a["first"] + a["count"]
    blocks, book = spec.blocks, None
    if spec.stored.book:
        book = Book(k, a["numbers"], blocks.lanes, blocks.large, blocks.how == FOUR_MIXED)
    tile = _Tile(k, spec, a, book)
    with k.loop(a["first"], end, COLUMNS) as column:
        tile.ask_ahead(column)

        def multiply(*rows: Value, column: Value = column) -> None:
            tile.multiply(rows, column, k.minimum(end - column, k.integer(COLUMNS)))

        if spec.rows == 1:
            multiply(k.integer(0))
        else:
            with k.loop(0, a["rows"], 2) as row:
                k.either(row < last, partial(multiply, row, row + 1), partial(multiply, row))
    rows_without_digits(k, spec.stored, spec.end, a)


class _Place(Struct, frozen=True):
    """Where a step begins: its codes, and the digits of each row. Addresses are counted on, so that
    what is read has the constant distances that instructions hold.
    """

    codes: Value
    lines: Sequence[Value]


class _Tile:
    """The product of some rows with some columns, which are multiplied one after the other."""

    def __init__(self, k: Kernel, spec: DotFew, a: dict[str, Value], book: Book | None) -> None:
        self.k, self.spec, self.a, self.blocks, self.book = k, spec, a, spec.blocks, book
        blocks, group, inner = spec.blocks, spec.stored.group, a["inner"]
        self.vector = 4 * blocks.lanes
        #: What a vector of codes is counted on by: bytes, or of bit planes vectors.
        self.code_step = 1 if spec.stored.planes else self.vector
        #: Sums of columns, lane by lane, `[row, column]`.
        self.sums = k.stack_bytes(spec.rows * COLUMNS * self.vector)
        #: Blocks all of whose numbers exist; all blocks; and steps likewise.
        self.whole = inner // blocks.numbers
        self.count = (inner + (blocks.numbers - 1)) // blocks.numbers
        self.full = self.whole // blocks.of_step
        self.steps = (inner + (blocks.length - 1)) // blocks.length
        self.groups = (inner + (group - 1)) // group if group else k.integer(1)
        #: Steps whose scales are read together, and the groups of so many.
        self.turns = self.full // blocks.together
        self.left = self.full - self.turns * blocks.together
        self.of_turn = blocks.together * blocks.length // group if group else 0
        #: The scales that are there of those read together last.
        self.mask = None
        if self.of_turn > 1 and blocks.together > 1:
            self.mask = k.lanes_below(self.groups - self.turns * self.of_turn, self.of_turn)
        #: Blocks whose products are added up in 16 bits.
        self.added = 1
        if blocks.how == FOUR_SMALL:
            most = SMALL_SUMS // blocks.halves
            self.added = next(n for n in range(most, 0, -1) if blocks.of_step % n == 0)
        row_units = (self.steps + (blocks.together - 1)) // blocks.together
        self.row_units = row_units * blocks.units(1)
        #: Bytes of a number of a table that are multiplied each for itself, the highest first.
        self.planes = 2 if blocks.how == FOUR_MIXED and blocks.large else 1
        #: Sums of products by what they are multiples of: those of a digit and a byte of the number
        #: go with those of the next digit and the byte before.
        self.weights = len(blocks.places) + self.planes - 1 - blocks.leaves_least_out
        self.numbers: Sequence[Value] = ()
        self.column = Column(inner, Operand(inner, ""), Operand(inner, ""))
        self.totals: list[Variable] = []

    def ask_ahead(self, column: Value) -> None:
        """Ask for the zero points and scales of columns that come later."""
        k, stored = self.k, self.spec.stored
        found = column_at(self.a, column + _COLUMNS_AHEAD, stored)
        for operand in (found.zeros, found.scales):
            if operand and stored.group:
                size = self.a["groups"] * (operand.type_.bytes * COLUMNS)
                with k.loop(0, size, 64) as at:
                    k.prefetch(operand.begin + at)

    def multiply(self, rows: Sequence[Value], first: Value, count: Value) -> None:
        """Multiply these rows with so many columns, and store the results."""
        k, lanes = self.k, self.blocks.lanes
        self.numbers = rows
        for row in range(len(rows)):
            for c in range(COLUMNS):
                k.store(k.constant(0.0, F32, lanes), self._sum(row, c))
        size = len(rows) * self.blocks.together * self.blocks.step
        part = max(1, _PART // size)
        with k.loop(0, self.turns, part) as turn:
            stop = k.minimum(turn + part, self.turns)
            with self._each_column(first, count):
                self._turns(turn, stop)
        with self._each_column(first, count):
            self._last()

        def together() -> None:
            for row, number in enumerate(rows):
                sums = [k.load(self._sum(row, c), F32, lanes) for c in range(COLUMNS)]
                self._store(number, across(k, sums), first)

        def alone() -> None:
            with k.loop(0, count) as c:
                for row, number in enumerate(rows):
                    total = k.load(self._sum(row, c), F32, lanes)
                    self._store(number, across(k, [total]), first + c)

        k.either(count >= COLUMNS, together, alone, likely=True)

    @contextmanager
    def _each_column(self, first: Value, count: Value) -> Iterator[None]:
        """A loop over columns, with their totals."""
        k, rows = self.k, range(len(self.numbers))
        with k.loop(0, count) as c:
            self.column = column_at(self.a, first + c, self.spec.stored)
            sums = [k.load(self._sum(row, c), F32, self.blocks.lanes) for row in rows]
            self.totals = [k.variable(value) for value in sums]
            yield
            for row, total in enumerate(self.totals):
                k.store(total.get(), self._sum(row, c))

    def _sum(self, row: int, column: Value | int) -> Value:
        place = self.sums + row * COLUMNS * self.vector
        return place + column * self.vector

    @property
    def _begin(self) -> _Place:
        """The first step of the column."""
        row_digits = self.steps * self.blocks.step
        lines = [self.a["digits"] + number * row_digits for number in self.numbers]
        codes = self.k.integer(0) if self.spec.stored.planes else self.column.codes
        return _Place(codes, lines)

    def _turns(self, begin: Value, end: Value) -> None:
        """Add some turns of steps whose scales are read together, or of a step each."""
        together = self.blocks.together
        with self._over_turns(begin, end) as (turn, place):
            if together == 1:
                self._step(place, self._scales(turn, None))
            else:
                scales = self._scales_together(turn, None)
                for index in range(together):
                    self._step(self._behind(place, index), self._picked(scales, index))

    def _last(self) -> None:
        """Add the steps behind the turns, and take zero points off."""
        k, blocks, stored = self.k, self.blocks, self.spec.stored
        if blocks.together > 1:
            with k.if_(self.left > 0):
                self._last_steps(self._behind(self._begin, self.turns * blocks.together))
        with k.if_(self.full < self.steps, likely=False):
            place = self._behind(self._begin, self.full)
            self._step(place, self._scales(self.full, self.count), partly=True)
        if stored.zeros and stored.group:
            for row, number in enumerate(self.numbers):
                self._zeros(row, self.a["sums"] + number * self.groups * 4)

    @contextmanager
    def _over_turns(self, begin: Value, end: Value) -> Iterator[tuple[Value, _Place]]:
        """A loop over turns: the number of each, and its place."""
        k, together = self.k, self.blocks.together
        first = self._behind(self._begin, begin * together)
        codes = k.variable(first.codes)
        lines = [k.variable(line) for line in first.lines]
        with k.loop(begin, end) as turn:
            place = _Place(codes.get(), [line.get() for line in lines])
            yield turn, place
            after = self._behind(place, together)
            codes.set(after.codes)
            for line, value in zip(lines, after.lines, strict=True):
                line.set(value)

    def _behind(self, place: _Place, steps: Value | int) -> _Place:
        """The place so many steps later."""
        blocks = self.blocks
        codes = place.codes + steps * (blocks.of_step * self.code_step)
        return _Place(codes, [line + steps * blocks.step for line in place.lines])

    def _last_steps(self, place: _Place) -> None:
        """Add up steps that are fewer than those whose scales are read together."""
        scales = self._scales_together(self.turns, self.mask)

        def from_step(index: int) -> None:
            self._step(self._behind(place, index), self._picked(scales, index))
            if index + 2 < self.blocks.together:
                with self.k.if_(self.left > index + 1):
                    from_step(index + 1)

        from_step(0)

    def _step(self, place: _Place, scales: Sequence[Value], partly: bool = False) -> None:
        """Sum a step in whole numbers, and add what they are to the totals."""
        k, blocks, lanes = self.k, self.blocks, self.blocks.lanes
        sums: _Sums = []
        for line in place.lines:
            first = [
                k.load(line + index * self.vector, I32, lanes)
                if blocks.middle and index < len(blocks.places)
                else k.constant(0, I32, lanes)
                for index in range(self.weights)
            ]
            sums.append([k.variable(value) for value in first])
        if partly:
            begin = self.full * blocks.of_step
            with self._over_blocks(place, self.whole - begin) as block:
                self._blocks(sums, [block], None)
            with k.if_(self.whole < self.count):
                left = self.a["inner"] - self.whole * blocks.numbers
                self._blocks(sums, [self._block_of(place, self.whole - begin)], left)
        else:
            for index in range(0, blocks.of_step, self.added):
                some = [self._block_of(place, index + n) for n in range(self.added)]
                self._blocks(sums, some, None)
        for row, scale in enumerate(scales):
            total = self.totals[row]
            value = self._joined([variable.get() for variable in sums[row]])
            total.set(k.fma(value, scale, total.get()))

    def _block_of(self, place: _Place, number: Value | int) -> _Place:
        """A block of a step: its codes, and the digits of each row."""
        blocks = self.blocks
        lines = [line + number * blocks.size + blocks.start for line in place.lines]
        return _Place(place.codes + number * self.code_step, lines)

    @contextmanager
    def _over_blocks(self, place: _Place, count: Value) -> Iterator[_Place]:
        """A loop over the first blocks of a step."""
        with self.k.loop(0, count) as number:
            yield self._block_of(place, number)

    def _scales(self, step: Value, partly: Value | None) -> list[Value]:
        """What a step's sums of each row are multiples of, lane by lane."""
        k, blocks, lanes = self.k, self.blocks, self.blocks.lanes
        scale, found = self._scale(step, partly is not None), []
        for number in self.numbers:
            line = self._units(number)
            if blocks.unit_lanes > 1:
                unit = k.load(line + step * (4 * lanes), F32, lanes)
            else:
                count = blocks.runs
                unit = self._spread(k.load(line + step * (4 * count), F32, count), 0, count)
            found.append(unit if scale is None else unit * scale)
        return found

    def _units(self, number: Value) -> Value:
        """Where the units of a row begin."""
        return self.a["units"] + number * self.row_units

    def _scales_together(self, turn: Value, mask: Value | None) -> list[Value]:
        """What the sums of runs of several steps are multiples of, for each row."""
        k, blocks, stored = self.k, self.blocks, self.spec.stored
        count, scale = blocks.together * blocks.runs, None
        if stored.scales and stored.group:
            of_turn, scales = self.of_turn, self.column.scales
            if of_turn <= 1:
                group = turn * (blocks.together * blocks.length) // stored.group
                scale = k.splat(scales.at(k, group), count)
            else:
                some = scales.at(k, turn * of_turn, of_turn)
                if mask is not None:
                    some = scales.some(k, turn * of_turn, mask)
                picks = [run * of_turn // count for run in range(count)]
                scale = k.picked(some, some, picks)
        found = []
        for number in self.numbers:
            unit = k.load(self._units(number) + turn * (4 * count), F32, count)
            found.append(unit if scale is None else unit * scale)
        return found

    def _picked(self, scales: Sequence[Value], index: int) -> list[Value]:
        """Those of a step, lane by lane."""
        runs = self.blocks.runs
        return [self._spread(scale, index * runs, runs) for scale in scales]

    def _spread(self, numbers: Value, first: int, count: int) -> Value:
        """So many numbers, each in as many lanes as the others."""
        lanes = self.blocks.lanes
        if numbers.lanes == 1:
            return self.k.splat(numbers, lanes)
        return self.k.picked(
            numbers, numbers, [first + lane * count // lanes for lane in range(lanes)]
        )

    def _joined(self, places: list[Value]) -> Value:
        """The numbers whose digits are summed. Two sums of products of bytes together are still
        whole numbers of 32 bits.
        """
        k, lanes = self.k, self.blocks.lanes
        value, rest = places[0], places[1:]
        if rest and not self.blocks.wide:
            value, rest = (value << 8) + rest[0], rest[1:]
        result = value.to(F32)
        for place in rest:
            result = k.fma(result, k.constant(256.0, F32, lanes), place.to(F32))
        return result

    def _blocks(self, sums: _Sums, some: Sequence[_Place], left: Value | None) -> None:
        """Add the products of blocks, whose numbers are all there or so many, to the sums."""
        adder = Adder(self.k, self.blocks.how)
        for block in some:
            self._block(block, left, lambda r, p, x, y: adder.add(sums[r][p], x, y))
        adder.finish()

    def _block(
        self,
        block: _Place,
        left: Value | None,
        add: Callable[[int, int, Value, Value], None],
    ) -> None:
        """Read a block, and add its products by `add(row, place, codes, digits)`."""
        k, blocks, lanes = self.k, self.blocks, self.blocks.lanes
        codes = self._codes(block.codes, left)
        for row, line in enumerate(block.lines):
            for place in range(len(blocks.places)):
                for index, some in enumerate(codes):
                    half, plane = divmod(index, self.planes)
                    at = place * blocks.place + half * self.vector
                    if place + plane < self.weights:
                        add(row, place + plane, some, k.load(line + at, I32, lanes))

    def _codes(self, address: Value, left: Value | None) -> list[Value]:
        """The codes of a block, of which there may be so many `left`, as they are multiplied."""
        k, blocks, lanes = self.k, self.blocks, self.blocks.lanes
        form = self.spec.stored.form
        if left is None:
            begin = address
            if form is not None:
                begin = block_at(form, self.column.codes, address, lanes)
            k.prefetch(begin + AHEAD)
        if blocks.wide and self.book is None:
            return self._widened(address, left)
        if form is not None:
            word = words_at(k, form, self.column.codes, address, lanes)
        else:
            mask = None if left is None else k.lanes_below((left * blocks.bits) >> 5, lanes)
            word = k.load(address, I32, lanes, mask)
        flip, _ = flipped(blocks.how, self.spec.stored.element_type)
        word = word ^ flip if flip else word
        halves = [word]
        if blocks.bits == 4:
            halves = [word & 0x0F0F0F0F, (word >> 4) & 0x0F0F0F0F]
        if self.book is not None:
            halves = [part for half in halves for part in self.book.numbers(half)]
        return halves

    def _widened(self, address: Value, left: Value | None) -> list[Value]:
        """The codes of a block in 16 bits."""
        k, blocks, form = self.k, self.blocks, self.spec.stored.form
        if form is not None:
            word = words_at(k, form, self.column.codes, address, blocks.lanes)
            codes, size = bytes_of(k, word), 2 * blocks.lanes
            return [codes.part(half * size, size).to(I16) for half in range(blocks.halves)]
        lanes, type_ = 2 * blocks.lanes, I8 if self.spec.stored.element_type == "i8" else U8
        found = []
        for half in range(blocks.halves):
            place = address + half * lanes
            mask = None if left is None else k.lanes_below(left - half * lanes, lanes)
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
        return self._spread(some, 0, count)

    def _store(self, number: Value, result: Value, first: Value) -> None:
        """Store the results of some columns of a row."""
        k, stored, a, lanes = self.k, self.spec.stored, self.a, result.lanes
        if self.book is not None:
            unit = self.book.unit * 256.0 if self.blocks.leaves_least_out else self.book.unit
            result = result * k.splat(unit, lanes)
        if not stored.group:
            column = column_at(a, first, stored)
            if stored.zeros:
                zero = column.zeros.at(k, 0, lanes) + self._off()
                total = k.load(a["sums"] + number * 4, F32)
                result = k.fma(zero, k.splat(total, lanes), result)
            if stored.scales:
                result = result * column.scales.at(k, 0, lanes)
        store_columns(k, self.spec.end, a, result, number, first)

    def _off(self) -> float:
        """What is added to zero points, as it is to codes."""
        more = code_added(self.blocks.how, self.spec.stored.element_type, self.spec.stored.book)
        return float(more - self.blocks.middle)

    def _zeros(self, row: int, sums: Value) -> None:
        """Take the zero points of groups off the totals of a row, a vector of groups at a time."""
        k, stored, lanes = self.k, self.spec.stored, self.blocks.lanes
        groups, off = self.groups, self._off()

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
