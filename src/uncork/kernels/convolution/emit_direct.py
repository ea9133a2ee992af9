"""Convolutions over pixels that are neighbours in memory: blocks of channels times blocks of
pixels, and each channel for itself.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from itertools import product

from uncork.kernels.codegen.emit import F32, I32, I64, Kernel, Value, emitter
from uncork.kernels.codegen.epilogue import advanced_operands, apply_epilogue, relative_operands
from uncork.kernels.convolution.spec import BLOCK_WORDS, MASKED, DirectConvolution
from uncork.kernels.epilogue import CHANNEL, ELEMENT
from uncork.kernels.gemm.microkernel import joined, over_accumulators
from uncork.kernels.runtime.target import LINE

#: How a block of channels sees pixels: in the data, there and storing them in the panel, or in the
#: panel. They are parts of names.
SEES, STORES, READS = "", "_stores", "_reads"
#: Taps of a channel for itself whose filter is kept in registers all the time.
_HELD = 25
#: Taps for which a sum of their own pays, and the most such sums.
_CHAIN, _ACCUMULATORS = 4, 3


@emitter
def emit_direct(k: Kernel, spec: DirectConvolution) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    places = relative_operands(spec.end, a, a["target"])
    channels = (*((spec.block,) if spec.full_blocks else ()), *spec.rest)
    later = READS if spec.gathers else SEES
    kinds = [(n, v, later) for n in channels for v in _kinds(spec)]
    if spec.gathers:
        kinds += [(spec.block, v, STORES) for v in _kinds(spec)]
    blocks = None if spec.taps else {kind: _block(k, spec, *kind) for kind in kinds}
    with k.loop(0, a["images"]) as image, k.loop(0, a["groups"]) as group:
        source = a["source"] + image * a["source_image"] + group * a["source_group"]
        target = a["target"] + image * a["target_image"] + group * a["target_group"]
        filters = a["filters"] + group * a["filters_group"]
        ends = advanced_operands(spec.end, places, group * a["end_group"])
        if blocks is None:
            _each_channel(k, spec, a, source, target, filters, ends)
        else:
            _by_blocks(k, spec, a, blocks, source, target, filters, ends)


def _kinds(spec: DirectConvolution) -> tuple[int, ...]:
    """The kinds of blocks of pixels, each given by its number of vectors."""
    return (*spec.vectors, MASKED) if spec.open else spec.vectors


def _by_blocks(
    k: Kernel,
    spec: DirectConvolution,
    a: dict[str, Value],
    blocks: dict[tuple[int, int, str], Kernel],
    source: Value,
    target: Value,
    filters: Value,
    ends: Mapping[str, Value],
) -> None:
    """Every block of pixels, with all blocks of channels while it is near."""
    later = READS if spec.gathers else SEES

    def block(row: Value, column: Value, vectors: Value, last: Value) -> None:
        pixels, result = (
            source + row * a["source_row"] + column,
            target + row * a["target_row"] + column,
        )

        def run(
            channels: int,
            done: Value,
            filters: Value,
            result: Value,
            how: str = later,
        ) -> None:
            for v in _kinds(spec):
                with k.if_(vectors.equals(v)):
                    given = [
                        pixels,
                        last,
                        filters,
                        a["offsets"],
                        a["inner"],
                        result,
                        a["target_channel"],
                        a["panel"],
                        a["share"] * (done // spec.block - 1),
                        a["pause"],
                    ]
                    k.call(
                        blocks[channels, v, how],
                        [*given, *advanced_operands(spec.end, ends, done * 4).values()],
                    )

        full = spec.block
        if spec.gathers:
            run(full, k.integer(0), filters, result, STORES)
        if spec.full_blocks:
            with k.loop(int(spec.gathers), a["full_blocks"]) as number:
                run(
                    full,
                    number * full,
                    filters + number * a["inner"] * (full * 4),
                    result + number * a["target_channel"] * full,
                )
        done = a["full_blocks"] * full
        for channels in spec.rest:
            run(
                channels, done, filters + done * a["inner"] * 4, result + done * a["target_channel"]
            )
            done = done + channels

    with k.loop(0, a["rows"]) as row:
        if spec.open:
            _open_blocks(k, spec, a["columns"], functools.partial(block, row))
        else:
            with k.loop(0, a["blocks"]) as number:
                entry = a["block_table"] + number * (8 * BLOCK_WORDS)
                block(row, *(k.load(entry + 8 * word, I64) for word in range(BLOCK_WORDS)))


def _open_blocks(
    k: Kernel, spec: DirectConvolution, columns: Value, block: Callable[[Value, Value, Value], None]
) -> None:
    """The blocks of a row of any number of pixels, as `layout.blocks_of` has them; fewer pixels
    than lanes are one with a mask.
    """
    most, count = max(spec.vectors), (columns + (spec.lanes - 1)) // spec.lanes
    with k.if_else(columns >= spec.lanes, likely=True) as (whole, few):
        with whole, k.loop(0, count, most) as begun:
            vectors = k.minimum(count - begun, k.integer(most))
            last = k.minimum((begun + vectors - 1) * spec.lanes, columns - spec.lanes)
            first = k.minimum(begun * spec.lanes, last)
            block(first * 4, vectors, (last - first) * 4)
        with few:
            block(k.integer(0), k.integer(MASKED), columns)


def _block(outer: Kernel, spec: DirectConvolution, channels: int, vectors: int, how: str) -> Kernel:
    """`channels` channels of `vectors` vectors of pixels, the last one `last` bytes from the first:
    sums stay in registers until whole.

    `MASKED` is one vector of `last` pixels. `how` pixels are seen: `SEES`, `STORES` or `READS`.
    """
    masked = vectors == MASKED
    vectors = 1 if masked else vectors
    arguments = [
        "source",
        "last",
        "filters",
        "offsets",
        "inner",
        "target",
        "target_channel",
        "panel",
        "soon",
        "pause",
        *spec.end.arguments,
    ]
    name = f"block_{channels}_{'masked' if masked else vectors}{how}"
    k = Kernel(name, arguments, inside=outer)
    source, last, filters, offsets, inner, target, target_channel, panel, *others = k.arguments
    soon, pause, *others = others
    ends = dict(zip(spec.end.arguments, others, strict=True))
    mask = k.lanes_below(last, spec.lanes) if masked else None

    def at(vector: int, address: Value) -> Value:
        return address + last if vector == vectors - 1 > 0 else address + vector * spec.lanes * 4

    # A sum waits for the addition before it: few sums need several chains each to keep the
    # multipliers busy.
    accumulators = 4 if channels * vectors <= 2 else 2 if channels * vectors <= 4 else 1
    sums = [
        [
            [k.variable(k.constant(0.0, F32, spec.lanes)) for _ in range(vectors)]
            for _ in range(channels)
        ]
        for _ in range(accumulators)
    ]

    def step(position: Value, chain: int) -> None:
        kept = [panel + (position * vectors + v) * (spec.lanes * 4) for v in range(vectors)]
        if how == READS:
            pixels = [k.load(own, F32, spec.lanes) for own in kept]
        else:
            place = source + _offset(k, spec, offsets, position)
            pixels = [k.load(at(v, place), F32, spec.lanes, mask) for v in range(vectors)]
        if how == STORES:
            for pixel, own in zip(pixels, kept, strict=True):
                k.store(pixel, own)
        for channel in range(channels):
            weight = k.splat(k.load(filters + (position * channels + channel) * 4, F32), spec.lanes)
            for total, pixel in zip(sums[chain][channel], pixels, strict=True):
                total.set(k.fma(weight, pixel, total.get()))

    def ask(position: Value, _: int) -> None:
        """Ask for what a product sees of the next block of pixels, where one is due."""
        number = position >> pause
        with k.if_((number << pause).equals(position)):
            later = k.minimum(soon + number, inner - 1)
            place = source + _offset(k, spec, offsets, later) + vectors * spec.lanes * 4
            for line in range(0, vectors * spec.lanes * 4, LINE):
                k.prefetch(place + line)

    if how != SEES:
        for channel, line in product(range(channels), range(0, vectors * spec.lanes * 4, LINE)):
            k.prefetch(target + target_channel * channel + line)
    over_accumulators(
        k, inner, accumulators, channels * vectors, step, ask if how == READS else None
    )
    for channel in range(channels):
        held = _held(k, spec, ends, channel)
        for v in range(vectors):
            total, place = (
                joined([chain[channel][v] for chain in sums]),
                at(v, target + target_channel * channel),
            )
            k.store(_ended(k, spec, total, ends, held, place, mask), place, mask)
    k.finish()
    return k


def _offset(k: Kernel, spec: DirectConvolution, offsets: Value, position: Value | int) -> Value:
    """Bytes from the first cell of a window to what a product reads."""
    return (
        k.load(offsets + position * 8, I64)
        if spec.far
        else k.load(offsets + position * 4, I32).to(I64)
    )


def _each_channel(
    k: Kernel,
    spec: DirectConvolution,
    a: dict[str, Value],
    source: Value,
    target: Value,
    filters: Value,
    ends: Mapping[str, Value],
) -> None:
    """One channel of data for each group: few products to a sum, all written out."""
    lanes = spec.lanes
    across = spec.taps // spec.tap_rows
    # A tap is found by its row and its column: fewer places to keep than there are taps.
    down = [_offset(k, spec, a["offsets"], row * across) for row in range(spec.tap_rows)]
    right = [_offset(k, spec, a["offsets"], tap) for tap in range(across)]
    with k.loop(0, a["channels"]) as channel:
        own = filters + channel * (spec.taps * 4)
        held = [k.splat(k.load(own + tap * 4, F32), lanes) for tap in range(min(spec.taps, _HELD))]
        numbers = _held(k, spec, advanced_operands(spec.end, ends, channel * 4), 0)
        plane = target + channel * a["target_channel"]
        with k.loop(0, a["rows"]) as row:
            pixels, result = source + row * a["source_row"], plane + row * a["target_row"]

            def vector(
                column: Value,
                mask: Value | None = None,
                pixels: Value = pixels,
                result: Value = result,
            ) -> None:
                lines = [pixels + column + offset for offset in down]
                sums = [k.constant(0.0, F32, lanes)] * max(
                    1, min(_ACCUMULATORS, spec.taps // _CHAIN)
                )
                for tap in range(spec.taps):
                    weight = (
                        held[tap] if tap < _HELD else k.splat(k.load(own + tap * 4, F32), lanes)
                    )
                    place = lines[tap // across] + right[tap % across]
                    pixel = k.load(place, F32, lanes, mask)
                    sums[tap % len(sums)] = k.fma(weight, pixel, sums[tap % len(sums)])
                total = _ended(
                    k,
                    spec,
                    functools.reduce(operator.add, sums),
                    ends,
                    numbers,
                    result + column,
                    mask,
                )
                k.store(total, result + column, mask)

            def line(vector: Callable[[Value], None] = vector) -> None:
                last = a["columns"] - lanes
                with k.loop(0, last, lanes) as x:
                    vector(x * 4)
                vector(last * 4)  # some of it a second time, where the number of columns wants that

            if spec.open:
                k.either(
                    a["columns"] >= lanes,
                    line,
                    lambda: vector(k.integer(0), k.lanes_below(a["columns"], lanes)),
                    likely=True,
                )
            else:
                line()


def _held(
    k: Kernel, spec: DirectConvolution, ends: Mapping[str, Value], channel: int
) -> dict[str, Value]:
    """The numbers of a channel that are the same for all of its pixels."""
    places = zip(spec.end.arguments, spec.end.operands, strict=True)
    return {
        name: k.load(ends[name] + (channel * 4 if kind == CHANNEL else 0), F32)
        for name, kind in places
        if kind != ELEMENT
    }


def _ended(
    k: Kernel,
    spec: DirectConvolution,
    total: Value,
    ends: Mapping[str, Value],
    held: Mapping[str, Value],
    place: Value,
    mask: Value | None,
) -> Value:
    """What is stored at a place for some sums."""

    def operand(name: str, kind: str) -> Value:
        if kind != ELEMENT:
            return held[name]
        return k.load(place + ends[name], F32, total.lanes, mask)

    return apply_epilogue(k, spec.end, total, operand)
