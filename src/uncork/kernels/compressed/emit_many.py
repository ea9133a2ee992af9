"""Products of many rows with stored weights: panel by panel, the weights of some columns are
decoded and all rows multiplied with them. Codes that lie in panels are only widened, a block at a
time, or where that takes no time as they are read.

Pairs of bf16 are multiplied as they are: decoding only transposes them, as words of 32 bits.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, Kernel, Value, emitter
from uncork.kernels.codegen.epilogue import advanced_operands, is_long, relative_operands
from uncork.kernels.compressed.emit_stored import Column, Decoder, arguments_of, column_at
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
from uncork.kernels.movement.emit_transpose import columns_of

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
    decoder = Decoder(k, spec.stored, a["inner"], a["numbers"])
    places = relative_operands(spec.end, a, a["output"])
    scratch = a["scratch"]
    panel = scratch + spec.stored.block * spec.lanes * 4
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
            block = panel
            if spec.panels:
                size = spec.stored.bits // 8
                line = spec.width * (4 if spec.pairs else size)
                block = a["codes"] + first * a["inner"] * size + part.begin * line
                if spec.decodes:
                    _widen(k, spec, block, panel, part)
                    block = panel
            else:
                with k.loop(0, spec.width, spec.lanes) as column:
                    place = panel + column * 4
                    if spec.pairs:
                        _turn_pairs(k, spec, a, first + column, place, part)
                    else:
                        _decode(k, spec, a, decoder, first + column, scratch, place, part)
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


def _decode(
    k: Kernel,
    spec: ManyRows,
    a: dict[str, Value],
    decoder: Decoder,
    first: Value,
    scratch: Value,
    panel: Value,
    part: ProductPart,
) -> None:
    """Decode and transpose a block of as many columns as a vector has lanes; columns that do not
    exist are the last one again.
    """
    stored, lanes = spec.stored, spec.lanes
    line = stored.block * 4

    def turn(rows: list[Value], begin: Value) -> None:
        for d, turned in enumerate(columns_of(rows)):
            place = begin - part.begin + d * stored.apart
            k.store(turned, panel + place * (spec.width * 4))

    vectors = stored.block // lanes
    for position, partly in k.blocks(part.begin + part.inner, stored.block, part.begin):
        if vectors == 1:
            numbers = [k.minimum(first + c, a["columns"] - 1) for c in range(lanes)]
            turn(
                [
                    decoder.block(column_at(a, number, spec.stored), position, partly)[0]
                    for number in numbers
                ],
                position,
            )
            continue
        with k.loop(0, lanes) as c:
            begin = column_at(a, k.minimum(first + c, a["columns"] - 1), spec.stored)
            for j, vector in enumerate(decoder.block(begin, position, partly)):
                k.store(vector, scratch + c * line + j * lanes * 4)
        with k.loop(0, vectors) as number:  # written once: turning takes many instructions
            near = scratch + number * (lanes * 4)
            at = (number >> 1) * (2 * lanes) + (number & 1) if stored.by_bytes else number
            turn([k.load(near + c * line, F32, lanes) for c in range(lanes)], position + at)


def _turn_pairs(
    k: Kernel, spec: ManyRows, a: dict[str, Value], first: Value, panel: Value, part: ProductPart
) -> None:
    """Transpose a block of as many columns of pairs as a vector has lanes; columns that do not
    exist are the last one again.
    """
    lanes, words = spec.lanes, part.begin + part.inner
    numbers = [k.minimum(first + c, a["columns"] - 1) for c in range(lanes)]

    for position, partly in k.blocks(words, lanes, part.begin):
        places = [a["codes"] + number * a["code_row"] + position * 4 for number in numbers]
        there = k.lanes_below(words - position, lanes) if partly else None
        rows = [k.load(place, F32, lanes, there) for place in places]
        for d, turned in enumerate(columns_of(rows)):
            k.store(turned, panel + (position - part.begin + d) * (spec.width * 4))
