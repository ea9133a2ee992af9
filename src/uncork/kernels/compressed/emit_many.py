"""Products of many rows with stored weights: panel by panel, the weights of some columns are
decoded and all rows multiplied with them. Codes that lie in panels are only widened, a block at a
time, or where that takes no time as they are read.

Pairs of bf16 are multiplied as they are: decoding only transposes them, as words of 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.codegen.emit import F32, I32, U8, U16, Kernel, Value, emitter
from uncork.kernels.codegen.epilogue import advanced_operands, is_long, relative_operands
from uncork.kernels.compressed.emit_stored import (
    Column,
    Decoder,
    Steps,
    arguments_of,
    codes_of,
    operands_of,
    turned_operands,
    turned_words,
)
from uncork.kernels.compressed.spec import ManyRows
from uncork.kernels.elementwise.emit_steps import Operand
from uncork.kernels.gemm.emit_matmul import row_epilogue
from uncork.kernels.gemm.microkernel import AHEAD, Microkernel, RegisterTile, Widening, of_panels
from uncork.kernels.gemm.microkernel_blocks import (
    CHUNK,
    DECODED_CHUNK,
    RESUMED,
    InnerBlocks,
    ProductPart,
)
from uncork.kernels.gemm.spec_matmul import MASKED
from uncork.kernels.stored_form import PER_WORD

_EXTRA = ("target", "target_row", "left")


@emitter
def emit_many_rows(k: Kernel, spec: ManyRows) -> None:
    """The LLVM text of the kernel."""
    a = arguments_of(k, spec)
    extra = (*(RESUMED if spec.deep else ()), *_EXTRA, *(AHEAD if spec.ahead else ()))
    tile = RegisterTile(
        spec.lanes,
        spec.vectors,
        pairs=spec.pairs,
        widened=_widened(spec) if spec.widened else None,
        resumed=spec.deep,
        long=is_long(spec.end),
        prefetches=spec.ahead,
    )
    blocks = InnerBlocks(
        k,
        tile,
        a["sums"] if spec.deep else None,
        DECODED_CHUNK if spec.decodes else CHUNK,
        spec.stored.block,
    )
    full, tail = of_panels(
        k,
        tile,
        (*extra, *spec.end.arguments),
        MASKED,
        1,
        lambda columns: row_epilogue(spec, columns),
    )
    panels = _DecodedPanels(k, spec, a)
    places = relative_operands(spec.end, a, a["output"])
    row_bytes, end = a["columns"] * 4, a["first"] + a["count"]
    with k.loop(0, a["rows"]) as row:
        k.store(a["data"] + row * a["inner"] * (2 if spec.pairs else 4), a["table"] + row * 8)

    def multiply(kernel: Microkernel, first: Value, block: Value, part: ProductPart) -> None:
        """Multiply a part by its block of a panel, which begins with a column."""

        def ahead_of(row: Value) -> dict[str, Value]:
            """What the block of rows from this one on asks for: its share of the next codes."""
            if not spec.ahead:
                return {}
            codes, size = a["codes"] + first * a["code_row"], a["code_row"] * spec.width
            return full.asked_ahead(k, codes + size, size, row, part.rows, part.inner)

        def extra_of(row: Value) -> dict[str, Value]:
            return {
                "target": a["output"] + row * row_bytes + first * 4,
                "target_row": row_bytes,
                "left": end - first,
                **ahead_of(row - part.first),
                **advanced_operands(spec.end, places, first * 4),
            }

        number = (first - a["first"]) // spec.width
        blocks.multiply(part, kernel, a["table"], (number, block), extra_of)

    inner = a["inner"] >> 1 if spec.pairs else a["inner"]
    for part in blocks.parts(a["rows"], inner):
        with k.loop(a["first"], end, spec.width) as first:
            block = panels.numbers
            if spec.panels:
                size = spec.stored.bits // 8
                line = spec.width * (4 if spec.pairs else size)
                block = a["codes"] + first * a["inner"] * size + part.begin * line
                if spec.decodes:
                    _widen(k, spec, block, panels.numbers, part)
                    block = panels.numbers
            elif spec.pairs:
                with k.loop(0, spec.width, spec.lanes) as column:
                    _turn_pairs(k, spec, a, first + column, block + column * 4, part)
            else:
                block = panels.decode(first, part)
            if tail is None or tail is full:
                multiply(full, first, block, part)
            else:
                with k.if_else(first + spec.width <= end, likely=True) as (whole, partly):
                    with whole:
                        multiply(full, first, block, part)
                    with partly:
                        multiply(tail, first, block, part)


def _widen(k: Kernel, spec: ManyRows, codes: Value, panel: Value, part: ProductPart) -> None:
    """Widen a block of the codes of a panel."""
    widened = _widened(spec)
    with k.loop(0, part.inner) as line:
        for vector in range(spec.vectors):
            number = line * spec.width + vector * spec.lanes
            k.store(widened(k, codes, number), panel + number * 4)


def _widened(spec: ManyRows) -> Widening:
    """A function that widens the codes of a panel, vector by vector."""

    def widened(k: Kernel, codes: Value, number: Value) -> Value:
        none = Operand(codes, "")
        column = Column(codes, none, none)
        (vector,) = Decoder(k, spec.stored, number, number).block(column, number, False)
        return vector

    return widened


class _DecodedPanels:
    """Decodes panels into working memory, a part at a time, from words of codes that are
    transposed: each vector then has the codes of as many columns.
    """

    def __init__(self, k: Kernel, spec: ManyRows, a: dict[str, Value]) -> None:
        """Of the working memory `scratch` the words come first, then the panel; `operands` has room
        for zero points, scales and operands of later steps of its columns, `[operand, group,
        column]`.
        """
        self.k, self.spec, self.a, self.stored = k, spec, a, spec.stored
        self.decoder = Decoder(k, spec.stored, a["inner"], a["numbers"])
        self.line = spec.width * 4
        self.words = a["scratch"]
        self.numbers = self.words + spec.words_bytes
        self.operands = a["operands"]
        lanes = spec.lanes
        self.operand = (a["groups"] + (lanes - 1)) // lanes * (lanes * self.line)

    def decode(self, first: Value, part: ProductPart) -> Value:
        """Decode a part of the panel whose first column this is: where it lies."""
        k, group = self.k, self.stored.group
        end = part.begin + part.inner
        groups = (k.integer(0), k.integer(1))
        if group:
            # From a whole vector of groups on, so that none is written behind the last vector.
            groups = (part.begin // group & -self.spec.lanes, (end + (group - 1)) // group)
        turned_operands(k, self.stored, self.a, (first, self.spec.width), groups, self._keep)
        with k.loop(0, self.spec.width, self.spec.lanes) as column:
            self._decode(first + column, column * 4, part.begin, end)
        return self.numbers

    def _keep(self, place: Value, found: Sequence[Value | None]) -> None:
        zero, scale, *later = found
        if scale is not None and self.decoder.unit != 1:
            scale = scale * self.decoder.unit
        for index, value in enumerate([zero, scale, *later]):
            if value is not None:
                self.k.store(value, self.operands + self.operand * index + place)

    def _decode(self, first: Value, column: Value, begin: Value, end: Value) -> None:
        """Decode a part of as many columns as a vector has lanes, from `first` on, which lie so
        many bytes behind the panel's; columns that do not exist are the last one again.
        """
        k, lanes = self.k, self.spec.lanes
        size, per = self.stored.bits // 8, 32 // self.stored.bits
        columns = codes_of(k, self.a, first, lanes)
        whole = end // per
        for position, partly, turned in turned_words(k, self.stored, columns, begin // per, whole):
            for index, of_all in enumerate(turned):
                k.store(of_all, self.words + index * (lanes * 4))
            count = whole - position if partly else k.integer(lanes)
            with k.loop(0, count) as number:
                words = k.load(self.words + number * (lanes * 4), I32, lanes)
                self._store(words, per, (position + number) * per, column, begin)
        if per == PER_WORD:  # columns of such codes are whole words
            return
        with k.loop(whole * per, end) as number:
            type_ = U8 if size == 1 else U16
            codes = [k.load(place + number * size, type_).to(I32) for place in columns]
            self._store(k.gathered(codes), 1, number, column, begin)

    def _store(self, words: Value, count: int, at: Value, column: Value, begin: Value) -> None:
        """Decode and store the first codes of words, so many of each, which are the numbers `at` of
        the columns and those behind.
        """
        k, group, per = self.k, self.stored.group, 32 // self.stored.bits
        if group % per:  # which begin within words
            steps = [
                self._steps(k.minimum(at + j, self.a["inner"] - 1), column) for j in range(count)
            ]
        else:
            steps = [self._steps(at, column)] * count
        place = self.numbers + (at - begin) * self.line + column
        for j, value in enumerate(self.decoder.of_columns(words, steps)):
            k.store(value, place + j * self.line)

    def _steps(self, number: Value, column: Value) -> Steps:
        """The zero points, scales and operands of later steps of columns for their codes of this
        number.
        """
        k, group = self.k, self.stored.group
        place = self.operands + column
        if group:
            place = place + number // group * self.line
        zero, scale, *later = (
            k.load(place + self.operand * index, F32, self.spec.lanes) if kind else None
            for index, (_, kind) in enumerate(operands_of(self.stored))
        )
        return zero, scale, [value for value in later if value is not None]


def _turn_pairs(
    k: Kernel, spec: ManyRows, a: dict[str, Value], first: Value, panel: Value, part: ProductPart
) -> None:
    """Transpose a block of as many columns of pairs as a vector has lanes; columns that do not
    exist are the last one again.
    """
    columns, end = codes_of(k, a, first, spec.lanes), part.begin + part.inner
    for position, _, turned in turned_words(k, spec.stored, columns, part.begin, end):
        for d, pairs in enumerate(turned):
            k.store(pairs, panel + (position - part.begin + d) * (spec.width * 4))
