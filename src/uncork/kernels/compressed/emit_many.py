"""Products of many rows with stored weights: panel by panel, the weights of some columns are
decoded and all rows multiplied with them. Codes that lie in panels are widened as they are read.

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
from uncork.kernels.gemm.microkernel_blocks import RESUMED, ROWS, InnerBlocks
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
        widened=_widened(spec) if spec.panels and not spec.pairs else None,
        resumed=spec.deep,
        long=is_long(spec.end),
        prefetches=spec.ahead,
    )
    #: Bytes of a panel for one number, or pair, of the inner dimension.
    panel_row = spec.width * (spec.stored.bits // 8 if spec.panels and not spec.pairs else 4)
    #: Blocks of the inner dimension are decoded one after the other, and stay in the caches.
    apart = spec.deep and not spec.panels
    step = {"step": spec.lanes if spec.pairs else spec.stored.block} if apart else {}
    blocks = InnerBlocks(k, tile, panel_row, **step) if spec.deep else None
    decoding = _decoding(k, spec) if apart else None
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
    with k.loop(a["first"], end, spec.width) as first:
        if spec.panels:
            weights = a["codes"] + first * a["inner"] * (spec.stored.bits // 8)
        else:
            weights = panel
            if not apart:
                part = k.integer(0), a["inner"] >> 1 if spec.pairs else a["inner"]
                _panel(k, spec, a, decoder, first, scratch, panel, part)

        made = None
        if decoding is not None:
            made = _Made(k, decoding, {**a, "first": first, "panel": panel}, spec)

        def ahead_of(row: Value, first: Value = first) -> dict[str, Value]:
            """What the block of rows from this one on asks for: its share of the next codes."""
            if not spec.ahead:
                return {}
            codes, size = a["codes"] + first * a["code_row"], a["code_row"] * spec.width
            return full.asked_ahead(k, codes, size, row, a["rows"], a["inner"])

        def multiply(
            kernel: Microkernel,
            first: Value = first,
            weights: Value = weights,
            made: _Made | None = made,
        ) -> None:
            inner = a["inner"] >> 1 if spec.pairs else a["inner"]

            def extra_of(row: Value) -> dict[str, Value]:
                return {
                    "target": a["output"] + row * row_bytes + first * 4,
                    "target_row": row_bytes,
                    "left": end - first,
                    **ahead_of(row),
                    **advanced_operands(spec.end, places, first * 4),
                }

            if blocks is None:
                kernel.multiply_rows(k, a["table"], weights, inner, a["rows"], extra_of)
                return
            with k.loop(0, a["rows"], ROWS) as chunk:
                blocks.multiply_chunk(
                    kernel,
                    a["table"] + chunk * 8,
                    weights,
                    inner,
                    k.minimum(a["rows"] - chunk, k.integer(ROWS)),
                    lambda row: extra_of(row + chunk),
                    made,
                )

        if tail is None or tail is full:
            multiply(full)
        else:
            with k.if_else(first + spec.width <= end, likely=True) as (whole, partly):
                with whole:
                    multiply(full)
                with partly:
                    multiply(tail)


def _widened(spec: ManyRows) -> Widening:
    """A function that widens the codes of a panel, vector by vector."""

    def widened(k: Kernel, codes: Value, number: Value) -> Value:
        none = Operand(codes, "")
        column = Column(codes, none, none)
        (vector,) = Decoder(k, spec.stored, number, number).block(column, number, False)
        return vector

    return widened


def _decoding_arguments(spec: ManyRows) -> list[str]:
    """The arguments of the function that decodes a block of a panel."""
    operands = ("zeros", "scales", *spec.stored.later_names)
    sizes = ("code_row", "groups", "inner", "columns", "numbers", "scratch")
    return ["codes", *operands, *sizes, "first", "panel", "begin", "end"]


class _Made:
    """Decodes blocks of a panel, by the function for that and what it is given."""

    def __init__(
        self, k: Kernel, decoding: Kernel, given: dict[str, Value], spec: ManyRows
    ) -> None:
        self.k, self.decoding, self.given, self.spec = k, decoding, given, spec

    def __call__(self, begin: Value, end: Value) -> None:
        given = {**self.given, "begin": begin, "end": end}
        self.k.call(self.decoding, [given[name] for name in _decoding_arguments(self.spec)])


def _decoding(outer: Kernel, spec: ManyRows) -> Kernel:
    """The function that decodes a block of a panel."""
    k = Kernel("decode", _decoding_arguments(spec), inside=outer)
    a = k.named
    decoder = Decoder(k, spec.stored, a["inner"], a["numbers"])
    part = a["begin"], a["end"]
    _panel(k, spec, a, decoder, a["first"], a["scratch"], a["panel"], part)
    k.finish()
    return k


def _panel(
    k: Kernel,
    spec: ManyRows,
    a: dict[str, Value],
    decoder: Decoder,
    first: Value,
    scratch: Value,
    panel: Value,
    part: tuple[Value, Value],
) -> None:
    """Decode a part of the inner dimension, which begins with a block, of the columns of a panel;
    of pairs, counted in pairs.
    """
    with k.loop(0, spec.width, spec.lanes) as column:
        if spec.pairs:
            _turn_pairs(k, spec, a, first + column, panel + column * 4, part)
        else:
            _decode(k, spec, a, decoder, first + column, scratch, panel + column * 4, part)


def _decode(
    k: Kernel,
    spec: ManyRows,
    a: dict[str, Value],
    decoder: Decoder,
    first: Value,
    scratch: Value,
    panel: Value,
    part: tuple[Value, Value],
) -> None:
    """Decode and transpose as many columns as a vector has lanes; columns that do not exist are the
    last one again.
    """
    stored, lanes, (start, end) = spec.stored, spec.lanes, part
    line = stored.block * 4

    def turn(rows: list[Value], begin: Value) -> None:
        for d, turned in enumerate(columns_of(rows)):
            k.store(turned, panel + (begin + d * stored.apart) * (spec.width * 4))

    vectors = stored.block // lanes
    for begin, partly in k.blocks(end - start, stored.block):
        position = start + begin
        if vectors == 1:
            numbers = [k.minimum(first + c, a["columns"] - 1) for c in range(lanes)]
            turn(
                [
                    decoder.block(column_at(a, number, spec.stored), position, partly)[0]
                    for number in numbers
                ],
                begin,
            )
            continue
        with k.loop(0, lanes) as c:
            column = column_at(a, k.minimum(first + c, a["columns"] - 1), spec.stored)
            for j, vector in enumerate(decoder.block(column, position, partly)):
                k.store(vector, scratch + c * line + j * lanes * 4)
        with k.loop(0, vectors) as number:  # written once: turning takes many instructions
            near = scratch + number * (lanes * 4)
            at = (number >> 1) * (2 * lanes) + (number & 1) if stored.by_bytes else number
            turn([k.load(near + c * line, F32, lanes) for c in range(lanes)], begin + at)


def _turn_pairs(
    k: Kernel,
    spec: ManyRows,
    a: dict[str, Value],
    first: Value,
    panel: Value,
    part: tuple[Value, Value],
) -> None:
    """Transpose as many columns of pairs as a vector has lanes; columns that do not exist are the
    last one again.
    """
    lanes, (start, end) = spec.lanes, part
    numbers = [k.minimum(first + c, a["columns"] - 1) for c in range(lanes)]

    for begin, partly in k.blocks(end - start, lanes):
        position = start + begin
        places = [a["codes"] + number * a["code_row"] + position * 4 for number in numbers]
        there = k.lanes_below(end - position, lanes) if partly else None
        rows = [k.load(place, F32, lanes, there) for place in places]
        for d, turned in enumerate(columns_of(rows)):
            k.store(turned, panel + (begin + d) * (spec.width * 4))
