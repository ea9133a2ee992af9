"""Products of rows of digits with stored weights: panel by panel, the codes of some columns are
turned, and all rows multiplied with them in whole numbers.

A row with numbers that have no digits (NaN, infinity, very large or small ones) is multiplied as
f32 by a loop for such rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.ahead import Ahead, pace_of
from uncork.kernels.codegen.emit import F32, I8, I16, I32, I64, Kernel, Value, Variable, emitter
from uncork.kernels.codegen.epilogue import advanced_operands, relative_operands
from uncork.kernels.compressed.emit_few import in_order_of_words, multiply_rows
from uncork.kernels.compressed.emit_stored import (
    Decoder,
    arguments_of,
    codes_of,
    turned_operands,
    turned_words,
)
from uncork.kernels.compressed.spec import FewRows
from uncork.kernels.compressed.spec_dots import FEW_ROWS, FLAG, DotRows, record
from uncork.kernels.epilogue import Epilogue
from uncork.kernels.gemm import microkernel_amx as amx
from uncork.kernels.gemm.dots import FOUR_MIXED, FOUR_SMALL, flipped
from uncork.kernels.gemm.emit_matmul import row_epilogue
from uncork.kernels.gemm.microkernel import AHEAD, Row
from uncork.kernels.gemm.microkernel_dots import (
    SMALL_SUMS,
    Adder,
)
from uncork.kernels.stored_form import Stored

#: Bytes of the next panel that a word of a row asks for at most: what few rows share is more than a
#: processor reads while it multiplies them.
_MOST = 16

#: Bytes of digits that lie in a second cache beside a panel.
_DIGITS = 512 << 10
#: Steps of a run that are written one after the other: so many are a whole one.
_STEPS = 8

_TILE_ARGUMENTS = (
    *("digits", "records", "panel", "begin", "end", "words", "totals", "scales", "zeros"),
    *("target", "target_row", "left", "rows_left", *AHEAD),
)


#: The instructions that look bytes up, by lanes of 32 bits.
_LOOK_UP = {
    16: "llvm.x86.avx512.pshuf.b.512",
    8: "llvm.x86.avx2.pshuf.b",
    4: "llvm.x86.ssse3.pshuf.b.128",
}
#: Of a table as `laid_out_book` has it: where bytes begin, and the unit.
_PLANES, UNIT_OF_BOOK = 64, 96


class Book:
    """A table of 16 whole numbers: bytes, or of 16 bits (`large`). Where products are of bytes
    without a sign (`four`) the highest byte has 128 added.
    """

    def __init__(self, k: Kernel, address: Value, lanes: int, large: bool, four: bool) -> None:
        self.k, self.large, self.four = k, large, four
        self.unit = k.load(address + UNIT_OF_BOOK, F32)
        picks = ir.Constant(ir.VectorType(ir.IntType(32), 4 * lanes), [*range(16)] * (lanes // 4))
        self._bytes = []
        for plane in range(2 if large else 1):
            line = k.load(address + (_PLANES + 16 * plane), I8, 16)
            if four and bool(plane) == large:
                line = line ^ -128
            self._bytes.append(k.builder.shuffle_vector(line.llvm, line.llvm, picks))

    def numbers(self, codes: Value) -> list[Value]:
        """What the codes below 16 in the bytes of words stand for, in 16 bits: those at even
        places, and those at odd ones; or their bytes, the highest first.
        """
        k, kind = self.k, codes.llvm.type
        name = _LOOK_UP[codes.lanes]
        bytes_ = ir.VectorType(ir.IntType(8), 4 * codes.lanes)
        function = k.declared(name, bytes_, [bytes_, bytes_])
        given = k.builder.bitcast(codes.llvm, bytes_)
        found = [
            Value(
                k,
                k.builder.bitcast(k.builder.call(function, [plane, given]), kind),
                I32,
                codes.lanes,
            )
            for plane in self._bytes
        ]
        if self.four:
            return found[::-1]
        if not self.large:
            return in_pairs(k, found[0])
        low, high = found
        even = (low & 0x00FF00FF) | ((high & 0x00FF00FF) << 8)
        odd = ((low >> 8) & 0x00FF00FF) | (high & -0x00FF0100)
        return [even, odd]


@emitter
def emit_dot_rows(k: Kernel, spec: DotRows) -> None:
    """The LLVM text of the kernel."""
    a = arguments_of(k, spec)
    tiles = [_tile_of_amx(k, spec)] if spec.by else [_tile(k, spec, n) for n in spec.tiles]
    book = None
    if spec.stored.book:
        book = Book(k, a["numbers"], spec.lanes, spec.large, spec.how == FOUR_MIXED)
    places = relative_operands(spec.end, a, a["output"])
    # Behind the table of f32: what a whole number of it is.
    unit = k.integer(0) if book is None else a["numbers"] + UNIT_OF_BOOK
    runs = (a["inner"] + (spec.unit - 1)) // spec.unit
    digit_row, record_row = runs * spec.run, runs * record(len(spec.places))
    words, beside = a["inner"] // spec.per_word, spec.beside
    row_bytes, end = a["columns"] * 4, a["first"] + a["count"]
    if spec.by:
        place = k.stack_bytes(amx.CONFIGURATION_BYTES)
        _registers(spec).write(k, place, k.integer(spec.rows))
        amx.configure(k, place)
    # Behind each panel, which is of whole blocks of words, lie its scales, then zero points; behind
    # all what few rows have added up.
    line, lanes = spec.width * 4, spec.lanes
    turned = (words + (lanes - 1)) // lanes * (lanes * spec.lines) + spec.more_lines
    operand = (a["groups"] + (lanes - 1)) // lanes * (lanes * line)
    scales, zeros = turned * line, turned * line + operand
    room = zeros + operand
    # Many rows meet a whole panel, which takes their totals from register to register, and those
    # whose digits the second cache does not hold one panel after the other, so that these are read
    # once for all of them.
    few = a["rows"] <= FEW_ROWS
    near = few | (a["rows"] * digit_row <= _DIGITS)
    block = k.maximum(k.select(few, k.integer(spec.block), words), k.integer(1))
    panels = k.select(near, k.integer(1), a["panels"])
    totals = a["panel"] + room
    # The bytes of the codes of a panel, and what a row asks for of them.
    code_bytes = a["code_row"] * spec.width
    share = code_bytes // k.maximum(a["rows"], k.integer(1))
    with (
        k.loop(a["first"], end, panels * spec.width) as begins,
        k.loop(0, words, block) as begin,
    ):
        count = k.minimum(panels, (end - begins + (spec.width - 1)) // spec.width)
        stop = k.minimum(begin + block, words)
        with k.loop(0, count) as number:
            panel, first = a["panel"] + number * room, begins + number * spec.width
            with k.if_(begin.equals(0)):
                _parameters(k, spec, a, first, panel + scales, panel + zeros)
            with k.loop(0, spec.width, lanes) as column:
                _turn(k, spec, a, book, first + column, (begin, stop), panel + column * 4)

        def multiply(
            tile: Kernel,
            row: Value,
            number: Value,
            asked: tuple[Value, Value],
            begins: Value = begins,
            begin: Value = begin,
            stop: Value = stop,
        ) -> None:
            panel, first = a["panel"] + number * room, begins + number * spec.width
            # Rows of a whole tile lie beside each other.
            tiled = row // beside * beside
            within = (row - tiled) * 4
            given = {
                "digits": a["digits"] + tiled * digit_row + within,
                "digit_row": digit_row,
                "records": a["records"] + tiled * record_row + within,
                "record_row": record_row,
                "panel": panel - begin * (spec.lines * line),
                "begin": begin * spec.lines,
                "end": stop * spec.lines,
                "words": words * spec.lines,
                "totals": totals + row * line,
                "scales": panel + scales,
                "zeros": panel + zeros,
                "target": a["output"] + row * row_bytes + first * 4,
                "target_row": row_bytes,
                "left": end - first,
                "rows_left": a["rows"] - row,
                "unit": unit,
                "ahead": k.select(
                    near,
                    a["codes"] + first * a["code_row"] + (code_bytes + share * row),
                    asked[0],
                ),
                "pace": asked[1],
                **advanced_operands(spec.end, places, first * 4),
            }
            k.call(tile, [given[name] for name in _tile_arguments(spec)])

        # Each tile asks for its share of the next panel's codes; or where that lies further away,
        # for the digits of the next tile, a part of them with each panel.
        steps, done = words * spec.lines, k.variable(k.integer(0))
        for rows, tile in zip(spec.tiles, tiles, strict=True):
            # The smallest tile takes what is left.
            most = a["rows"] - (0 if rows == spec.tiles[-1] else rows - 1)
            part = digit_row * rows // count
            asked = k.select(near, share * rows, part)
            pace = pace_of(k, asked, steps, _MOST * rows)
            with k.loop(done.get(), most, rows) as row:
                following = a["digits"] + (row + rows) * digit_row
                with k.loop(0, count) as number:
                    multiply(tile, row, number, (following + part * number, pace))
                done.set(row + rows)
    if spec.by:
        amx.release(k)
    rows_without_digits(k, spec.stored, spec.end, a)


def _turn(
    k: Kernel,
    spec: DotRows,
    a: dict[str, Value],
    book: Book | None,
    first: Value,
    part: tuple[Value, Value],
    panel: Value,
) -> None:
    """Transpose some words of as many columns as a vector has lanes into the panel; columns past
    the last one repeat it. Nothing is prefetched: a processor follows the columns by itself, and
    asked for so many lines it has no room to do so.
    """
    flip, _ = flipped(spec.how, spec.stored.element_type)
    begin, end = part
    columns = codes_of(k, a, first, spec.lanes)
    for position, _, turned in turned_words(k, spec.stored, columns, begin, end):
        for d, line in enumerate(turned):
            line = line ^ flip if flip else line
            place = panel + (position - begin + d) * (spec.lines * spec.width * 4)
            for index, codes in enumerate(_apart(k, spec, line, book)):
                k.store(codes, place + index * (spec.width * 4))


def _apart(k: Kernel, spec: DotRows, words: Value, book: Book | None) -> list[Value]:
    """The lines of words: the low halves of bytes and the high ones, or signed bytes in 16 bits, or
    the numbers that codes stand for.
    """
    if spec.lines == 1:
        return [words]
    if book is not None:
        return [part for codes in _nibbles(words) for part in book.numbers(codes)]
    return in_pairs(k, words) if spec.wide else _nibbles(words)


def in_pairs(k: Kernel, words: Value) -> list[Value]:
    """Signed bytes in 16 bits: those at even places, and those at odd ones."""
    halves = ir.VectorType(ir.IntType(16), 2 * words.lanes)
    whole = Value(k, k.builder.bitcast(words.llvm, halves), I16, 2 * words.lanes)
    kind = words.llvm.type
    return [
        Value(k, k.builder.bitcast(part.llvm, kind), I32, words.lanes)
        for part in ((whole << 8) >> 8, whole >> 8)
    ]


def _low(words: Value) -> Value:
    """The low halves of bytes."""
    return words & 0x0F0F0F0F


def _high(words: Value) -> Value:
    """The high halves of bytes."""
    return (words >> 4) & 0x0F0F0F0F


def _nibbles(words: Value) -> list[Value]:
    return [_low(words), _high(words)]


def _parameters(
    k: Kernel, spec: DotRows, a: dict[str, Value], first: Value, scales: Value, zeros: Value
) -> None:
    """Store the scales and zero points of a panel, `[group, column]`."""
    stored = spec.stored
    off = float(flipped(spec.how, stored.element_type)[1] - spec.middle)

    def keep(place: Value, found: Sequence[Value | None]) -> None:
        zero, scale = found
        if scale is not None:
            k.store(scale, scales + place)
        if zero is not None:
            zero = zero + off
            k.store(zero * scale if scale is not None and stored.group else zero, zeros + place)

    turned_operands(k, stored, a, (first, spec.width), (k.integer(0), a["groups"]), keep)


def _tile_arguments(spec: DotRows) -> list[str]:
    names = ["digit_row", "record_row"] if spec.beside == 1 else []
    names += ["unit"] if spec.stored.book else []
    return [*_TILE_ARGUMENTS, *names, *spec.end.arguments]


def _tile(outer: Kernel, spec: DotRows, tile_rows: int) -> Kernel:
    """The function that multiplies so many rows by a panel."""
    names = _tile_arguments(spec)
    k = Kernel(f"tile_{tile_rows}", names, inside=outer)
    a = k.named
    rows, vectors = range(tile_rows), range(spec.vectors)
    totals = [[k.variable(k.constant(0.0, F32, spec.lanes)) for _ in vectors] for _ in rows]
    sums = [
        [[k.variable(k.constant(0, I32, spec.lanes)) for _ in vectors] for _ in spec.places]
        for _ in rows
    ]
    of_run, ahead = spec.lines_of_run, Ahead(k, a["ahead"], a["pace"])
    with k.if_(a["begin"] > 0):
        for r, line in enumerate(totals):
            for v, total in enumerate(line):
                total.set(k.load(_of_totals(spec, a["totals"], r, v), F32, spec.lanes))

    def add_run(word: Value, count: Value | int) -> None:
        run = word // of_run
        told = _RowAddresses(k, spec, "record", run * record(len(spec.places)))
        digits = _RowAddresses(k, spec, "digit", run * spec.run)
        ratio = max(1, spec.stored.group // spec.unit)
        group = run // ratio * (spec.width * 4) if spec.stored.group else k.integer(0)
        for r in rows:
            _begin(k, spec, told, r, sums[r])
        asked = ahead.ask(word, count, told.of(0))
        _sum(k, spec, digits, word, count, sums, asked)
        for r in rows:
            unit = k.splat(k.load(told.of(r), F32), spec.lanes)
            last = told.of(r, (1 + len(spec.places)) * told.word)
            numbers = k.splat(k.load(last, F32), spec.lanes)
            for v in vectors:
                of_places = [line[v].get() for line in sums[r]]
                before = totals[r][v].get()
                at = group + v * spec.lanes * 4
                totals[r][v].set(_with_run(k, spec, of_places, unit, numbers, at, before))

    last_run = a["begin"]
    if spec.lines_of_run * spec.words_of_line <= _STEPS:
        # Written out: registers stay where they are only if nothing else leads here.
        last_run = a["end"] // of_run * of_run
        with k.loop(a["begin"], last_run, of_run) as word:
            add_run(word, of_run)
    with k.loop(last_run, a["end"], of_run) as word:
        add_run(word, k.minimum(a["end"] - word, k.integer(of_run)))
    with k.if_else(a["end"].equals(a["words"])) as (last, other):
        with last:
            _finish(k, spec, [(r, [x.get() for x in line]) for r, line in enumerate(totals)])
        with other:
            for r, line in enumerate(totals):
                for v, total in enumerate(line):
                    k.store(total.get(), _of_totals(spec, a["totals"], r, v))
    k.finish()
    return k


class _RowAddresses:
    """The addresses of what each row of a tile has, from words `begin` bytes behind the first on:
    one is counted on where those of all rows lie beside each other.
    """

    def __init__(self, k: Kernel, spec: DotRows, name: str, begin: Value) -> None:
        a, self.beside = k.named, spec.beside
        first = a[f"{name}s"] + begin * spec.beside
        self.rows = [first]
        if spec.beside == 1:
            self.rows += [first + a[f"{name}_row"] * r for r in range(1, spec.rows)]

    @property
    def word(self) -> int:
        """The bytes from a word to the next one of a row."""
        return 4 * self.beside

    def moved(self, by: Value) -> _RowAddresses:
        """Those so many bytes behind these."""
        moved = copy(self)
        moved.rows = [row + by for row in self.rows]
        return moved

    def of(self, row: int, at: int = 0) -> Value:
        """The address of a row, so many bytes further on."""
        return self.rows[row] + at if self.beside == 1 else self.rows[0] + (4 * row + at)


def _of_totals(spec: DotRows, totals: Value, row: int, vector: int) -> Value:
    """Where the totals of a row and a vector of columns lie."""
    return totals + (row * spec.width + vector * spec.lanes) * 4


def _finish(k: Kernel, spec: DotRows, rows: Sequence[tuple[int | Value, list[Value]]]) -> None:
    """Store what becomes of the totals of rows, each with its number, if there are so many."""
    a, vectors = k.named, range(spec.vectors)
    numbers, results = [number for number, _ in rows], [line for _, line in rows]
    if spec.stored.scales and not spec.stored.group:
        scales = [k.load(a["scales"] + v * spec.lanes * 4, F32, spec.lanes) for v in vectors]
        results = [
            [total * scale for total, scale in zip(line, scales, strict=True)] for line in results
        ]
    if spec.stored.book:
        unit = k.splat(k.load(a["unit"], F32), spec.lanes)
        results = [[total * unit for total in line] for line in results]
    extra = {name: a[name] for name in ("target", "target_row", "left", *spec.end.arguments)}
    with k.if_else(a["left"] >= spec.width, likely=True) as (whole, partly):
        end = row_epilogue(spec, spec.width)

        def store(masks: list[Value]) -> None:
            for number, line in zip(numbers, results, strict=True):
                with k.if_(a["rows_left"] > number, likely=True):
                    end(k, Row(number, a["digits"], line, extra, masks))

        with whole:
            store([])
        with partly:
            store([k.lanes_below(a["left"] - v * spec.lanes, spec.lanes) for v in vectors])


def _with_run(
    k: Kernel,
    spec: DotRows,
    sums: Sequence[Value],
    unit: Value,
    numbers: Value,
    group: Value,
    total: Value,
) -> Value:
    """The total of a row and a vector of columns with what a run adds: the sums of each place, in
    its unit, by the scales and zero points that lie `group` bytes behind the first ones.
    """
    a, lanes = k.named, spec.lanes
    value = sums[0].to(F32)
    for more in sums[1:]:
        value = k.fma(value, k.constant(256.0, F32, lanes), more.to(F32))
    times = unit
    if spec.stored.group and spec.stored.scales:
        times = unit * k.load(a["scales"] + group, F32, lanes)
    total = k.fma(value, times, total)
    if spec.stored.zeros:
        total = k.fma(k.load(a["zeros"] + group, F32, lanes), numbers, total)
    return total


def _registers(spec: DotRows) -> amx.TileRegisters:
    """The tile registers: a block of rows for each place of their digits."""
    words = next(n for n in range(amx.WORDS, 0, -1) if spec.lines_of_run % n == 0)
    heights = len(spec.places)
    return amx.TileRegisters(spec.vectors, 1, heights, words=words, whole=True, signed=True)


def _tile_of_amx(outer: Kernel, spec: DotRows) -> Kernel:
    """The function that multiplies the rows of an AMX tile by a panel."""
    k = Kernel("tile_of_amx", _tile_arguments(spec), inside=outer)
    a, lanes, registers = k.named, spec.lanes, _registers(spec)
    vectors, places, of_run = range(spec.vectors), range(len(spec.places)), spec.lines_of_run
    size, line = record(len(spec.places)), spec.width * 4
    totals = k.stack_bytes(spec.rows * line)
    room = k.stack_bytes(len(places) * spec.rows * line)
    with k.if_else(a["begin"] > 0) as (goes_on, begins):
        with goes_on, k.loop(0, spec.rows * line, lanes * 4) as at:
            k.store(k.load(a["totals"] + at, F32, lanes), totals + at)
        with begins, k.loop(0, spec.rows * line, lanes * 4) as at:
            k.store(k.constant(0.0, F32, lanes), totals + at)
    ratio = max(1, spec.stored.group // spec.unit)
    with k.loop(a["begin"], a["end"], of_run) as word:
        run = word // of_run
        group = run // ratio * line if spec.stored.group else k.integer(0)
        digits = a["digits"] + run * spec.run
        registers.clear(k, len(places), spec.vectors)
        with k.loop(0, of_run, registers.words) as step:
            blocks = [[digits + (step * 4 + place * spec.unit)] for place in places]
            panel = a["panel"] + (word + step) * line
            registers.add(k, blocks, a["digit_row"], panel, k.integer(line), spec.vectors)
        registers.store(k, room, [k.integer(place * spec.rows) for place in places], spec.vectors)
        with k.loop(0, spec.rows) as row:
            of_row = a["records"] + a["record_row"] * row + run * size
            unit = k.splat(k.load(of_row, F32), lanes)
            numbers = k.splat(k.load(of_row + (size - 4), F32), lanes)
            for v in vectors:
                sums = [
                    registers.total(k, room, row + place * spec.rows, v, spec.vectors)
                    for place in places
                ]
                if spec.middle:  # in integers, so that nothing cancels later
                    sums = [
                        total + k.splat(k.load(of_row + 4 * (1 + place), I32), lanes)
                        for place, total in enumerate(sums)
                    ]
                at = totals + row * line + v * lanes * 4
                before, there = k.load(at, F32, lanes), group + v * lanes * 4
                k.store(_with_run(k, spec, sums, unit, numbers, there, before), at)
    with k.if_else(a["end"].equals(a["words"])) as (last, other):
        with last, k.loop(0, k.minimum(a["rows_left"], k.integer(spec.rows))) as row:
            at = totals + row * line
            _finish(k, spec, [(row, [k.load(at + v * lanes * 4, F32, lanes) for v in vectors])])
        with other, k.loop(0, spec.rows * line, lanes * 4) as at:
            k.store(k.load(totals + at, F32, lanes), a["totals"] + at)
    k.finish()
    return k


def _begin(
    k: Kernel, spec: DotRows, told: _RowAddresses, row: int, sums: list[list[Variable]]
) -> None:
    """Start the sums with what is taken off all codes. It comes first and in integers, so that
    nothing cancels later.
    """
    for index, line in enumerate(sums):
        first = k.constant(0, I32, spec.lanes)
        if spec.middle:
            first = k.splat(k.load(told.of(row, (1 + index) * told.word), I32), spec.lanes)
        for total in line:
            total.set(first)


def _sum(
    k: Kernel,
    spec: DotRows,
    digits: _RowAddresses,
    begin: Value,
    words: Value | int,
    sums: list[list[list[Variable]]],
    asked: Callable[[Value], Value],
) -> None:
    """Add the products of a run of words, from `begin` on, to the sums; each asks for what is
    `asked`.
    """
    line = spec.width * 4
    panel = k.named["panel"] + begin * line
    # Words of all places follow each other where rows lie beside each other.
    words_of_place = spec.unit * (2 if spec.wide else 1) // 4
    of_word, of_place = (len(spec.places), 1) if spec.beside > 1 else (1, words_of_place)

    def step(word: Value, adder: Adder) -> None:
        k.prefetch(asked(begin + word), near=False)
        place = panel + word * line
        codes = [k.load(place + v * spec.lanes * 4, I32, spec.lanes) for v in range(spec.vectors)]
        here = digits.moved(word * (spec.words_of_line * of_word * digits.word))
        for half, part in enumerate((_low, _high) if spec.words_of_line == 2 else (None,)):
            some = codes if part is None else [part(x) for x in codes]
            for r, of_row in enumerate(sums):
                for d, totals in enumerate(of_row):
                    address = here.of(r, (half * of_word + d * of_place) * digits.word)
                    numbers = k.splat(k.load(address, I32), spec.lanes)
                    for weights, total in zip(some, totals, strict=True):
                        adder.add(total, weights, numbers)

    def several(word: Value, count: int) -> None:
        adder = Adder(k, spec.how)
        for u in range(count):
            step(word + u, adder)
        adder.finish()

    def by(count: int) -> None:
        """Add so many lines at a time, then those that are left."""
        whole = words // count * count
        with k.loop(0, whole, count) as word:
            several(word, count)
        if count > 1:
            with k.loop(whole, words) as word:
                several(word, 1)

    if isinstance(words, int):
        several(k.integer(0), words)
    elif spec.how == FOUR_SMALL:
        by(SMALL_SUMS)
    else:
        # Of pairs one: LLVM orders sums of several anew, so that registers do not hold them.
        by(2 if spec.stored.bits == 8 and not spec.wide else 1)


def rows_without_digits(k: Kernel, stored: Stored, epilogue: Epilogue, a: dict[str, Value]) -> None:
    """Multiply rows that have no digits as f32, over what has been written."""
    few = FewRows(stored, 1, 1, epilogue)
    decoder = Decoder(k, stored, a["inner"], a["numbers"])
    with k.loop(0, a["rows"]) as row, k.if_(k.load(a["flags"] + row * FLAG, I64) > 0, likely=False):
        data = a["data"] + row * a["inner"] * 4
        if decoder.four_bits:
            in_order_of_words(k, few, a, data, a["scratch"])
            data = a["scratch"]
        with k.loop(a["first"], a["first"] + a["count"]) as column:
            multiply_rows(k, few, a, decoder, [data], [row], [column])
