"""Products of few rows of digits with stored weights: a vector of codes is read as it is stored,
and its products with digits are summed in whole numbers, lane by lane.

Column after column is multiplied, so that codes are read in the order in which they lie: two
columns at once would be two streams within a page where columns are short, which memory gives a
third slower. Sums of some columns wait until their lanes can be added up together. Where columns
have one scale each, a vector holds blocks of several that lie side by side (`DotFew.side`), which
up to four rows meet; codes further on are asked for in their order.

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
from uncork.kernels.runtime.target import LINE

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
    end = a["first"] + a["count"]
    blocks, book = spec.blocks, None
    if spec.stored.book:
        book = Book(k, a["numbers"], spec.lanes, blocks.large, blocks.how == FOUR_MIXED)
    tile = _Tile(k, spec, a, book)
    with k.loop(a["first"], end, COLUMNS) as column:
        tile.ask_ahead(column)
        count = k.minimum(end - column, k.integer(COLUMNS))
        with k.loop(0, a["rows"], blocks.rows) as row:
            _by_tiles(k, spec.tiles, a["rows"] - row, partial(tile.multiply, row, column, count))
    rows_without_digits(k, spec.stored, spec.end, a)


def _by_tiles(
    k: Kernel, tiles: Sequence[int], left: Value, multiply: Callable[[int], None]
) -> None:
    """Multiply by the smallest tile of as many rows as are left, or the largest."""
    if len(tiles) == 1:
        multiply(tiles[0])
        return
    k.either(
        left > tiles[1],
        partial(multiply, tiles[0]),
        partial(_by_tiles, k, tiles[1:], left, multiply),
    )


class _Place(Struct, frozen=True):
    """Where a step begins: its codes, and the digits of the first row. Addresses are counted on, so
    that what is read has the constant distances that instructions hold.
    """

    codes: Value
    digits: Value


class _Tile:
    """The product of some rows with some columns, one vector of codes after the other."""

    def __init__(self, k: Kernel, spec: DotFew, a: dict[str, Value], book: Book | None) -> None:
        self.k, self.spec, self.a, self.blocks, self.book = k, spec, a, spec.blocks, book
        blocks, group, inner = spec.blocks, spec.stored.group, a["inner"]
        self.vector = 4 * blocks.lanes
        #: Lanes of vectors of codes, which are blocks of some columns side by side.
        self.lanes = spec.lanes
        #: What a vector of codes is counted on by: bytes, or of bit planes vectors.
        self.code_step = (1 if spec.stored.planes else self.vector) * (2 if blocks.paired else 1)
        #: Sums of columns, lane by lane, `[row, column]`.
        self.sums = k.stack_bytes(blocks.rows * COLUMNS * self.vector)
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
        #: Bytes of the digits, and of the units, of a row.
        self.row_digits = self.steps * blocks.step
        self.row_units = (self.steps + (blocks.together - 1)) // blocks.together * blocks.units
        #: Bytes of a number of a table that are multiplied each for itself, the highest first.
        self.planes = 2 if blocks.how == FOUR_MIXED and blocks.large else 1
        #: Sums of products by what they are multiples of: those of a digit and a byte of the number
        #: go with those of the next digit and the byte before.
        self.weights = len(blocks.places) + self.planes - 1 - blocks.leaves_least_out
        #: The first row that is multiplied, and how many are.
        self.row, self.rows = k.integer(0), 1
        self.columns: Sequence[Column] = ()
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

    def multiply(self, row: Value, first: Value, count: Value, rows: int) -> None:
        """Multiply rows from one on with so many columns, and store the results."""
        k, blocks = self.k, self.blocks
        self.row, self.rows = row, rows
        for n in range(rows):
            for c in range(0, COLUMNS, self.spec.side):
                k.store(k.constant(0.0, F32, self.lanes), self._sum(n, c))
        part = max(1, _PART // (rows * blocks.together * blocks.step))
        with k.loop(0, self.turns, part) as turn:
            stop = k.minimum(turn + part, self.turns)
            with self._each_column(first, count):
                self._turns(turn, stop)
        with self._each_column(first, count):
            self._last()

        def total(n: int, column: Value | int) -> Value:
            return k.load(self._sum(n, column), F32, blocks.lanes)

        def together() -> None:
            for n in range(rows):
                self._store(n, across(k, [total(n, c) for c in range(COLUMNS)]), first)

        def alone() -> None:
            with k.loop(0, count) as c:
                for n in range(rows):
                    self._store(n, across(k, [total(n, c)]), first + c)

        k.either(count >= COLUMNS, together, alone, likely=True)

    @contextmanager
    def _each_column(self, first: Value, count: Value) -> Iterator[None]:
        """A loop over columns, with their totals."""
        k, rows = self.k, range(self.rows)
        with k.loop(0, count, self.spec.side) as c:
            numbers = [first + c]
            for n in range(1, self.spec.side):
                numbers.append(k.minimum(first + (c + n), self.a["columns"] - 1))
            self.columns = [column_at(self.a, number, self.spec.stored) for number in numbers]
            sums = [k.load(self._sum(row, c), F32, self.lanes) for row in rows]
            self.totals = [k.variable(value) for value in sums]
            yield
            for row, total in enumerate(self.totals):
                k.store(total.get(), self._sum(row, c))

    def _sum(self, row: int, column: Value | int) -> Value:
        place = self.sums + row * COLUMNS * self.vector
        return place + column * self.vector

    @property
    def _begin(self) -> _Place:
        """The first step of the columns. Of a single one its address is counted on."""
        alone = self.spec.side == 1 and not self.spec.stored.planes
        codes = self.columns[0].codes if alone else self.k.integer(0)
        return _Place(codes, self.a["digits"] + self.row * self.row_digits)

    def _turns(self, begin: Value, end: Value) -> None:
        """Add some turns of steps whose scales are read together, or of a step each."""
        together = self.blocks.together
        with self._over_turns(begin, end) as (turn, place):
            if together == 1:
                self._step(place, partial(self._scales, turn, None))
            else:
                scales = self._scales_together(turn, None)
                for index in range(together):
                    some = partial(self._picked, scales, index)
                    self._step(self._behind(place, index), some)

    def _last(self) -> None:
        """Add the steps behind the turns, and take zero points off."""
        k, blocks, stored = self.k, self.blocks, self.spec.stored
        if blocks.together > 1:
            with k.if_(self.left > 0):
                self._last_steps(self._behind(self._begin, self.turns * blocks.together))
        with k.if_(self.full < self.steps, likely=False):
            place = self._behind(self._begin, self.full)
            self._step(place, partial(self._scales, self.full, self.count), partly=True)
        if stored.zeros and stored.group:
            for n in range(self.rows):
                self._zeros(n, self.a["sums"] + (self.row + n) * self.groups * 4)

    @contextmanager
    def _over_turns(self, begin: Value, end: Value) -> Iterator[tuple[Value, _Place]]:
        """A loop over turns: the number of each, and its place."""
        k, together = self.k, self.blocks.together
        first = self._behind(self._begin, begin * together)
        codes, digits = k.variable(first.codes), k.variable(first.digits)
        with k.loop(begin, end) as turn:
            place = _Place(codes.get(), digits.get())
            yield turn, place
            after = self._behind(place, together)
            codes.set(after.codes)
            digits.set(after.digits)

    def _behind(self, place: _Place, steps: Value | int) -> _Place:
        """The place so many steps later."""
        blocks = self.blocks
        codes = place.codes + steps * (blocks.of_step * self.code_step)
        return _Place(codes, place.digits + steps * (blocks.rows * blocks.step))

    def _last_steps(self, place: _Place) -> None:
        """Add up steps that are fewer than those whose scales are read together."""
        scales = self._scales_together(self.turns, self.mask)

        def from_step(index: int) -> None:
            self._step(self._behind(place, index), partial(self._picked, scales, index))
            if index + 2 < self.blocks.together:
                with self.k.if_(self.left > index + 1):
                    from_step(index + 1)

        from_step(0)

    def _step(
        self, place: _Place, scales: Callable[[], Sequence[Value]], partly: bool = False
    ) -> None:
        """Sum a step in whole numbers, and add what they are to the totals. Scales are read last,
        as operands of the products.
        """
        k, blocks, lanes = self.k, self.blocks, self.lanes
        sums: _Sums = []
        for n in range(self.rows):
            line = place.digits + n * blocks.step
            first = [
                self._repeated(k.load(line + index * self.vector, I32, blocks.lanes))
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
        for row, scale in enumerate(scales()):
            total = self.totals[row]
            value = self._joined([variable.get() for variable in sums[row]])
            total.set(k.fma(value, scale, total.get()))

    def _block_of(self, place: _Place, number: Value | int) -> _Place:
        """A block of a step: its codes, and the digits of each row."""
        blocks = self.blocks
        digits = place.digits + number * blocks.size + blocks.start
        return _Place(place.codes + number * self.code_step, digits)

    @contextmanager
    def _over_blocks(self, place: _Place, count: Value) -> Iterator[_Place]:
        """A loop over the first blocks of a step."""
        with self.k.loop(0, count) as number:
            yield self._block_of(place, number)

    def _scales(self, step: Value, partly: Value | None) -> list[Value]:
        """What a step's sums of each row are multiples of, lane by lane."""
        k, blocks, lanes = self.k, self.blocks, self.blocks.lanes
        scale, found = self._scale(step, partly is not None), []
        for n in range(self.rows):
            turn = step // blocks.together
            within = (step - turn * blocks.together) * (blocks.units // blocks.together)
            line = self._units(n, turn) + within
            if blocks.unit_lanes > 1:
                unit = self._repeated(k.load(line, F32, lanes))
            else:
                unit = self._spread(k.load(line, F32, blocks.runs), 0, blocks.runs)
            found.append(unit if scale is None else unit * scale)
        return found

    def _units(self, n: int, turn: Value) -> Value:
        """Where the units of a turn of steps lie."""
        before = self.a["units"] + self.row * self.row_units
        return before + turn * (self.blocks.rows * self.blocks.units) + n * self.blocks.units

    def _scales_together(self, turn: Value, mask: Value | None) -> list[Value]:
        """What the sums of runs of several steps are multiples of, for each row."""
        k, blocks, stored = self.k, self.blocks, self.spec.stored
        count, scale = blocks.together * blocks.runs, None
        if stored.scales and stored.group:
            of_turn, scales = self.of_turn, self.columns[0].scales
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
        for n in range(self.rows):
            unit = k.load(self._units(n, turn), F32, count)
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
            return self.k.splat(numbers, self.lanes)
        picks = [first + lane * count // lanes for lane in range(lanes)] * self.spec.side
        return self.k.picked(numbers, numbers, picks)

    def _repeated(self, block: Value) -> Value:
        """What all columns of a vector meet."""
        if self.spec.side == 1:
            return block
        return self.k.picked(block, block, [*range(block.lanes)] * self.spec.side)

    def _of_columns(self, load: Callable[[Column], Value]) -> Value:
        """What each column of a vector has, as many lanes of each."""
        return self.k.side_by_side([load(column) for column in self.columns])

    def _joined(self, places: list[Value]) -> Value:
        """The numbers whose digits are summed. Two sums of products of bytes together are still
        whole numbers of 32 bits.
        """
        k, lanes = self.k, self.lanes
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
        for row in range(self.rows):
            line = block.digits + row * blocks.step
            for place in range(len(blocks.places)):
                for index, some in enumerate(codes):
                    half, plane = divmod(index, self.planes)
                    at = place * blocks.place + half * self.vector
                    if place + plane < self.weights:
                        digits = k.load(line + at, I32, lanes)
                        add(row, place + plane, some, self._repeated(digits))

    def _codes(self, address: Value, left: Value | None) -> list[Value]:
        """The codes of a block, of which there may be so many `left`, as they are multiplied."""
        k, blocks, lanes = self.k, self.blocks, self.blocks.lanes
        form = self.spec.stored.form
        begin = self.columns[0].codes
        if left is None:
            if form is not None:
                begin = block_at(form, begin, address, lanes)
            else:
                begin = address if self.spec.side == 1 else begin + address * self.spec.side
            for byte in range(0, self.vector * (1 + blocks.paired), LINE):
                k.prefetch(begin + AHEAD + byte)
        if blocks.wide and self.book is None:
            return self._widened(address, left)
        words = [self._words(address, left, number) for number in range(1 + blocks.paired)]
        flip, _ = flipped(blocks.how, self.spec.stored.element_type)
        halves = [word ^ flip if flip else word for word in words]
        if blocks.paired:
            first, second = halves
            halves = [k.picked(first, second, range(odd, 2 * lanes, 2)) for odd in (0, 1)]
        if blocks.bits == 4:
            (word,) = halves
            halves = [word & 0x0F0F0F0F, (word >> 4) & 0x0F0F0F0F]
        if self.book is not None:
            halves = [part for half in halves for part in self.book.numbers(half)]
        return halves

    def _words(self, address: Value, left: Value | None, number: int) -> Value:
        """A vector of a block, of which there may be so many numbers `left`, by its number."""
        k, blocks, lanes = self.k, self.blocks, self.blocks.lanes
        form, mask = self.spec.stored.form, None
        if form is not None:
            place = address + number
            return self._of_columns(lambda column: words_at(k, form, column.codes, place, lanes))
        if left is not None:
            mask = k.lanes_below(((left * blocks.bits) >> 5) - number * lanes, lanes)
        if self.spec.side == 1:
            return k.load(address + number * self.vector, I32, lanes, mask)
        return self._of_columns(lambda column: k.load(column.codes + address, I32, lanes, mask))

    def _widened(self, address: Value, left: Value | None) -> list[Value]:
        """The codes of a block in 16 bits."""
        k, blocks, form = self.k, self.blocks, self.spec.stored.form
        if form is not None:
            word = words_at(k, form, self.columns[0].codes, address, blocks.lanes)
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
        stored, blocks, k = self.spec.stored, self.blocks, self.k
        if not stored.scales or not stored.group:
            return None
        lanes, numbers = blocks.lanes, blocks.length
        if stored.group >= numbers:
            group = step * numbers // stored.group
            return self._of_columns(lambda column: k.splat(column.scales.at(k, group), lanes))
        count = numbers // stored.group
        picks = [lane * count // lanes for lane in range(lanes)]
        mask = None
        if partly:
            left = self.a["inner"] - step * numbers + (stored.group - 1)
            mask = k.lanes_below(left // stored.group, count)

        def spread(column: Column) -> Value:
            if mask is not None:
                some = column.scales.some(k, step * count, mask)
            else:
                some = column.scales.at(k, step * count, count)
            return k.picked(some, some, picks)

        return self._of_columns(spread)

    def _store(self, n: int, result: Value, first: Value) -> None:
        """Store the results of some columns of a row. Where rows are filled up with the last one it
        is stored again.
        """
        k, stored, a, lanes = self.k, self.spec.stored, self.a, result.lanes
        if self.book is not None:
            unit = self.book.unit * 256.0 if self.blocks.leaves_least_out else self.book.unit
            result = result * k.splat(unit, lanes)
        if not stored.group:
            column = column_at(a, first, stored)
            if stored.zeros:
                zero = column.zeros.at(k, 0, lanes) + self._off()
                total = k.load(a["sums"] + (self.row + n) * 4, F32)
                result = k.fma(zero, k.splat(total, lanes), result)
            if stored.scales:
                result = result * column.scales.at(k, 0, lanes)
        store_columns(k, self.spec.end, a, result, k.minimum(self.row + n, a["rows"] - 1), first)

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
            line = self._repeated(line)
            value = self._of_columns(lambda column: load(column.zeros))
            if off:
                value = value + off
            if stored.scales:
                value = value * self._of_columns(lambda column: load(column.scales))
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
