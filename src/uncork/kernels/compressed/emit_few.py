"""Products of few rows with stored weights: every weight is decoded in registers, for a tile of
rows; of more rows it is decoded once, parts of some columns at a time, into lines that stay in the
first cache. Pairs of bf16 are multiplied as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from uncork.kernels.codegen.emit import F32, I32, Kernel, Value, emitter
from uncork.kernels.codegen.epilogue import apply_epilogue
from uncork.kernels.compressed.emit_halves import over_halves
from uncork.kernels.compressed.emit_stored import Column, Decoder, arguments_of, column_at
from uncork.kernels.compressed.spec import FewRows
from uncork.kernels.epilogue import ELEMENT, NUMBER, Epilogue
from uncork.kernels.movement.emit_transpose import columns_of
from uncork.kernels.register_tiles import FEW_REGISTERS, rows_of_tiles
from uncork.kernels.stored_form import PER_WORD

#: Sums in turn: each waits for the addition before it.
_ACCUMULATORS = 8
#: Sums of a block's products that are added up before they are scaled.
_CHAINS = 2
#: Bytes ahead of what is read, of codes that are read in order.
AHEAD = 8192


@emitter
def emit_few_rows(k: Kernel, spec: FewRows) -> None:
    """The LLVM text of the kernel."""
    a = arguments_of(k, spec)
    stored = spec.stored
    data, row_bytes = a["data"], a["inner"] * (2 if spec.pairs else 4)
    memory = a["scratch"]
    if spec.ordered:
        row_bytes = (a["inner"] + (spec.block - 1)) // spec.block * (spec.block * 4)
        with k.loop(0, a["rows"]) as row:
            in_order_of_words(k, spec, a, data + row * a["inner"] * 4, memory + row * row_bytes)
        data, memory = memory, memory + a["rows"] * row_bytes
    halves = memory if spec.halves else None
    decoder = Decoder(k, stored, a["inner"], a["numbers"], halves)
    last, end = a["rows"] - 1, a["first"] + a["count"]

    def rows(first: Value, count: int, columns: Sequence[Value]) -> None:
        numbers = [k.minimum(first + r, last) for r in range(count)]
        lines = [data + number * row_bytes for number in numbers]
        multiply_rows(k, spec, a, decoder, lines, numbers, columns)

    def one() -> None:
        with _columns(k, a, max(1, spec.halves), end) as columns:
            rows(k.integer(0), 1, columns)

    def two() -> None:
        with _columns(k, a, spec.columns, end) as columns:
            rows(k.integer(0), 2, columns)

    def some() -> None:
        with (
            _columns(k, a, spec.columns, end) as columns,
            k.loop(0, a["rows"], spec.rows) as row,
        ):
            rows(row, spec.rows, columns)

    def several() -> None:
        k.either(a["rows"] <= 2, two, some)

    def many() -> None:
        with k.loop(a["first"], end, spec.lines) as some:
            column = k.minimum(some, a["columns"] - spec.lines)
            lines = memory + spec.bytes_of_halves
            _Lines(k, spec, a, decoder, data, row_bytes, lines).multiply(column)

    def few() -> None:
        if spec.rows == 1:
            one()
        else:
            k.either(a["rows"].equals(1), one, several)

    if spec.lines:
        k.either(a["rows"] <= spec.rows, few, many)
    else:
        few()


@contextmanager
def _columns(k: Kernel, a: dict[str, Value], count: int, end: Value) -> Iterator[list[Value]]:
    """A loop over so many columns at a time; the last ones come again where there are not so many,
    so that the same is written twice.
    """
    with k.loop(a["first"], end, count) as some:
        column = k.minimum(some, a["columns"] - count) if count > 1 else some
        yield [column + c for c in range(count)]


def in_order_of_words(
    k: Kernel, spec: FewRows, a: dict[str, Value], source: Value, target: Value
) -> None:
    """A row of the data in the order in which weights are decoded, with zeros behind it."""
    stored, lanes = spec.stored, spec.stored.lanes
    side = min(PER_WORD, lanes)

    def loaded(begin: Value, count: int, partly: bool) -> Value:
        mask = k.lanes_below(a["inner"] - begin, count) if partly else None
        return k.load(source + begin * 4, F32, count, mask)

    for position, partly in k.blocks(a["inner"], spec.block):
        if stored.by_bytes or spec.halves:
            for vector in range(0, spec.block // lanes, 2):
                begin = position + vector * lanes
                low, high = (loaded(begin + at, lanes, partly) for at in (0, lanes))
                for odd in (0, 1):
                    some = k.picked(low, high, range(odd, 2 * lanes, 2))
                    k.store(some, target + (begin + odd * lanes) * 4)
            continue
        for d in range(0, lanes, side):
            for j in range(0, PER_WORD, side):
                lines = [
                    loaded(position + ((d + i) * PER_WORD + j), side, partly) for i in range(side)
                ]
                for i, line in enumerate(columns_of(lines)):
                    k.store(line, target + (position + ((j + i) * lanes + d)) * 4)


def multiply_rows(
    k: Kernel,
    spec: FewRows,
    a: dict[str, Value],
    decoder: Decoder,
    data: Sequence[Value],
    numbers: Sequence[Value],
    places: Sequence[Value],
) -> None:
    """Multiply some rows by some columns, which follow each other."""
    stored, lanes = spec.stored, spec.stored.lanes
    columns = [decoder.loaded(column_at(a, place, stored)) for place in places]
    accumulators = max(1, min(4, _ACCUMULATORS // (len(data) * len(columns))))
    sums = [
        [[k.variable(k.constant(0.0, F32, lanes)) for _ in range(accumulators)] for _ in columns]
        for _ in data
    ]
    # Of several columns that are read at once the same place of those that come next.
    at_once = len(columns) > 1 and not spec.halves
    ahead = a["code_row"] * len(columns) if at_once else k.integer(AHEAD)
    turn = [0]

    def pairs(position: Value, partly: bool) -> None:
        there = k.lanes_below((a["inner"] - position) >> 1, lanes) if partly else None

        def loaded(place: Value) -> Value:
            place = place + position * 2
            return k.load(place, I32, lanes, there)

        chain, turn[0] = turn[0] % accumulators, turn[0] + 1
        words = [loaded(column.codes) for column in columns]
        for row, line in enumerate(data):
            x = loaded(line)
            for c, word in enumerate(words):
                total = sums[row][c][chain]
                total.set(k.dot_pairs(total.get(), x, word))

    of_block = stored.factored and stored.group > 0 and len(data) * len(columns) == 1
    of_column = stored.factored and not stored.group

    def scaled_sum(column: Column, position: Value, partly: bool) -> None:
        vectors, scale = decoder.unscaled(column, position, partly)
        found: list[Value] = []
        for j, vector in enumerate(vectors):
            x = k.load(data[0] + (position + j * lanes) * 4, F32, lanes)
            if j < _CHAINS:
                found.append(x * vector)
            else:
                found[j % _CHAINS] = k.fma(x, vector, found[j % _CHAINS])
        chain, turn[0] = turn[0] % accumulators, turn[0] + 1
        total = sums[0][0][chain]
        total.set(k.fma(_joined(found), scale, total.get()))

    def block(columns: Sequence[Column], position: Value, partly: bool) -> None:
        if spec.pairs:
            pairs(position, partly)
            return
        if of_block:
            scaled_sum(columns[0], position, partly)
            return
        if of_column:
            columns = [replace(column, whole=(None, None, [])) for column in columns]
        decoded = [] if spec.halves else [decoder.block(c, position, partly) for c in columns]
        for j in range(spec.block // lanes):
            if spec.halves:  # one vector after the other, as registers hold no more
                vectors = [decoder.half(c, position, partly, j) for c in columns]
            else:
                vectors = [some[j] for some in decoded]
            chain, turn[0] = turn[0] % accumulators, turn[0] + 1
            for row, line in enumerate(data):
                address = line + (position + j * lanes) * 4
                mask = None
                if partly and not spec.ordered:
                    mask = k.lanes_below(a["inner"] - (position + j * lanes), lanes)
                x = k.load(address, F32, lanes, mask)
                for c, vector in enumerate(vectors):
                    total = sums[row][c][chain]
                    total.set(k.fma(x, vector, total.get()))

    _over_blocks(k, spec, decoder, (k.integer(0), a["inner"]), columns, ahead, block)
    for row, number in zip(sums, numbers, strict=True):
        totals = [_joined([variable.get() for variable in accumulators]) for accumulators in row]
        result = across(k, totals)
        if of_column:
            scales = column_at(a, places[0], stored).scales.at(k, 0, result.lanes)
            result = result * (scales * decoder.unit)
        store_columns(k, spec.end, a, result, number, places[0])


def _over_blocks(
    k: Kernel,
    spec: FewRows,
    decoder: Decoder,
    part: tuple[Value, Value],
    columns: Sequence[Column],
    ahead: Value,
    block: Callable[[Sequence[Column], Value, bool], None],
) -> None:
    """Call `block(columns, position, partly)` for the blocks of a part of the inner dimension,
    which begins with one; codes so many bytes ahead are asked for.
    """
    if decoder.halves is not None:
        over_halves(k, decoder, decoder.halves, part, columns, ahead, block)
        return
    stored, (begin, end) = spec.stored, part
    size = stored.block * (2 if spec.pairs else 1)
    step = size if decoder.four_bits else size * 4
    whole, turns = (begin + (end - begin) // n * n for n in (size, step))
    with k.loop(begin, turns, step) as position:
        for column in columns:
            k.prefetch(column.codes + ahead + (position * stored.bits_in_memory >> 3))
        here = [decoder.loaded(column, position, step) for column in columns]
        for first in range(0, step, size):
            block(here, position + first, False)
    if step > size:
        with k.loop(turns, whole, size) as position:
            block(columns, position, False)
    with k.if_(whole < end):
        block(columns, whole, True)


class _Lines:
    """The product of many rows with some columns, whose weights are decoded into lines of working
    memory: a part of the inner dimension after the other, so that they stay in the first cache.
    Behind the lines lie the sums of all rows, lane by lane.
    """

    def __init__(
        self,
        k: Kernel,
        spec: FewRows,
        a: dict[str, Value],
        decoder: Decoder,
        data: Value,
        row_bytes: Value,
        lines: Value,
    ) -> None:
        self.k, self.spec, self.a, self.decoder, self.lines = k, spec, a, decoder, lines
        self.data, self.row_bytes = data, row_bytes
        self.vector = spec.stored.lanes * 4
        self.line = spec.line * 4
        self.sums = lines + spec.lines * self.line

    def multiply(self, column: Value) -> None:
        """Multiply all rows with the columns from this one on, and store the results."""
        k, spec, a, lanes = self.k, self.spec, self.a, self.spec.stored.lanes
        size = self.vector * spec.lines
        with k.loop(0, a["rows"] * size, self.vector) as place:
            k.store(k.constant(0.0, F32, lanes), self.sums + place)
        registers = FEW_REGISTERS if k.target is None else k.target.vector_registers
        with k.loop(0, a["inner"], spec.line) as begin:
            end = k.minimum(begin + spec.line, a["inner"])
            self._decode(column, begin, end)
            done = k.variable(k.integer(0))
            for rows in rows_of_tiles(registers, spec.lines):
                with k.loop(done.get(), a["rows"] - (rows - 1), rows) as row:
                    self._tile(row, rows, begin, end)
                    done.set(row + rows)
        with k.loop(0, a["rows"]) as row:
            place = self.sums + row * size
            sums = [k.load(place + c * self.vector, F32, lanes) for c in range(spec.lines)]
            store_columns(k, spec.end, a, across(k, sums), row, column)

    def _decode(self, column: Value, begin: Value, end: Value) -> None:
        """Decode a part of the columns into their lines."""
        k, a, stored = self.k, self.a, self.spec.stored
        ahead = a["code_row"] * self.spec.lines
        with k.loop(0, self.spec.lines) as c:
            found = self.decoder.loaded(column_at(a, column + c, stored))
            line = self.lines + c * self.line

            def block(columns: Sequence[Column], position: Value, partly: bool) -> None:
                for j, vector in enumerate(self.decoder.block(columns[0], position, partly)):
                    k.store(vector, line + (position - begin) * 4 + j * self.vector)

            _over_blocks(k, self.spec, self.decoder, (begin, end), [found], ahead, block)

    def _tile(self, first: Value, rows: int, begin: Value, end: Value) -> None:
        """Add the products of some rows, and of a part of the columns, to their sums."""
        k, spec, lanes = self.k, self.spec, self.spec.stored.lanes
        data = [self.data + (first + r) * self.row_bytes for r in range(rows)]
        places = [
            [self.sums + ((first + r) * spec.lines + c) * self.vector for c in range(spec.lines)]
            for r in range(rows)
        ]
        sums = [[k.variable(k.load(place, F32, lanes)) for place in row] for row in places]

        def step(position: Value, mask: Value | None = None) -> None:
            some = [k.load(line + position * 4, F32, lanes, mask) for line in data]
            for c in range(spec.lines):
                weights = k.load(self.lines + c * self.line + (position - begin) * 4, F32, lanes)
                for row, x in zip(sums, some, strict=True):
                    row[c].set(k.fma(x, weights, row[c].get()))

        whole = begin + (end - begin) // lanes * lanes
        if spec.ordered:  # lines and data are whole blocks
            whole = begin + (end - begin + (spec.block - 1)) // spec.block * spec.block
        with k.loop(begin, whole, lanes) as position:
            step(position)
        if not spec.ordered:
            with k.if_(whole < end):
                step(whole, k.lanes_below(end - whole, lanes))
        for of_row, to in zip(sums, places, strict=True):
            for total, place in zip(of_row, to, strict=True):
                k.store(total.get(), place)


def store_columns(
    k: Kernel, end: Epilogue, a: dict[str, Value], result: Value, row: Value, column: Value
) -> None:
    """Store the results of some columns of a row, with what ends them."""
    place = (row * a["columns"] + column) * 4

    def operand(name: str, kind: str) -> Value:
        if kind == NUMBER:
            return k.load(a[name], F32)
        return k.load(a[name] + (place if kind == ELEMENT else column * 4), F32, result.lanes)

    k.store(apply_epilogue(k, end, result, operand), a["output"] + place)


def _joined(values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def across(k: Kernel, vectors: Sequence[Value]) -> Value:
    """The sum of the lanes of each vector."""
    halved = []
    for vector in vectors:
        while vector.lanes > len(vectors):
            half = vector.lanes // 2
            vector = vector.part(0, half) + vector.part(half, half)
        halved.append(vector)
    return _joined(columns_of(halved) if len(halved) > 1 else halved)
