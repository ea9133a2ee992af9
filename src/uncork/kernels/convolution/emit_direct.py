"""Convolutions over pixels that are neighbours in memory: blocks of channels times blocks of pixels, and each channel for itself."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from uncork.kernels.codegen.activations import STANDALONE
from uncork.kernels.codegen.emit import F32, I32, I64, Kernel, Value
from uncork.kernels.convolution.direct import ARGUMENTS, BLOCK_WORDS, Planes
from uncork.kernels.gemm.microkernel import in_chains, joined

#: Taps of a channel for itself whose filter is kept in registers all the time.
_HELD = 25
#: Taps for which a sum of their own pays, and the most such sums.
_CHAIN, _CHAINS = 4, 3


def emit_planes(spec: Planes, estimates: bool) -> str:
    """The LLVM text of the kernel. `estimates`: the machine has AVX-512's reciprocal estimate."""
    k = Kernel(spec.name, ARGUMENTS)
    k.estimates = estimates
    a = dict(zip(ARGUMENTS, k.arguments))
    blocks = None if spec.taps else {(n, v): _block(k, spec, n, v) for n in (*((8,) if spec.eights else ()), *spec.rest) for v in spec.vectors}
    with k.loop(0, a["images"]) as image, k.loop(0, a["groups"]) as group:
        source = a["source"] + image * a["source_image"] + group * a["source_group"]
        target = a["target"] + image * a["target_image"] + group * a["target_group"]
        filters = a["filters"] + group * a["filters_group"]
        bias = a["bias"] + group * a["bias_group"]
        if blocks is None:
            _each_channel(k, spec, a, source, target, filters, bias)
        else:
            _by_blocks(k, spec, a, blocks, source, target, filters, bias)
    k.finish()
    return k.text()


def _by_blocks(
    k: Kernel,
    spec: Planes,
    a: dict[str, Value],
    blocks: dict[tuple[int, int], Kernel],
    source: Value,
    target: Value,
    filters: Value,
    bias: Value,
) -> None:
    """Every block of pixels, with all blocks of channels while it is near."""
    with k.loop(0, a["rows"]) as row, k.loop(0, a["blocks"]) as number:
        entry = a["block_table"] + number * (8 * BLOCK_WORDS)
        column, vectors, last = (k.load(entry + 8 * word, I64) for word in range(BLOCK_WORDS))
        pixels, result = source + row * a["source_row"] + column, target + row * a["target_row"] + column

        place = [pixels, last, vectors]

        def run(channels: int, done: Value, filters: Value, result: Value, place: Sequence[Value] = place) -> None:
            for v in spec.vectors:
                with k.when(place[2].equals(v)):
                    given = [*place[:2], filters, a["offsets"], a["inner"], result, a["target_channel"], bias + done * 4]
                    k.call(blocks[channels, v], given)

        if spec.eights:
            with k.loop(0, a["eights"]) as eight:
                run(8, eight * 8, filters + eight * a["inner"] * 32, result + eight * a["target_channel"] * 8)
        done = a["eights"] * 8
        for channels in spec.rest:
            run(channels, done, filters + done * a["inner"] * 4, result + done * a["target_channel"])
            done = done + channels


def _block(outer: Kernel, spec: Planes, channels: int, vectors: int) -> Kernel:
    """`channels` channels of `vectors` vectors of pixels, the last one `last` bytes from the first: sums stay in registers until whole."""
    arguments = ["source", "last", "filters", "offsets", "inner", "target", "target_channel", "bias"]
    k = Kernel(f"block_{channels}_{vectors}", arguments, inside=outer)
    k.estimates = outer.estimates
    source, last, filters, offsets, inner, target, target_channel, bias = k.arguments

    def at(vector: int, address: Value) -> Value:
        return address + last if vector == vectors - 1 > 0 else address + vector * spec.lanes * 4

    # A sum waits for the addition before it: few sums need several chains each to keep the multipliers busy.
    chains = 4 if channels * vectors <= 2 else 2 if channels * vectors <= 4 else 1
    sums = [[[k.variable(k.number(0.0, F32, spec.lanes)) for _ in range(vectors)] for _ in range(channels)] for _ in range(chains)]

    def step(position: Value, chain: int) -> None:
        place = source + k.load(offsets + position * 4, I32).to(I64)
        pixels = [k.load(at(v, place), F32, spec.lanes) for v in range(vectors)]
        for channel in range(channels):
            weight = k.splat(k.load(filters + (position * channels + channel) * 4, F32), spec.lanes)
            for total, pixel in zip(sums[chain][channel], pixels):
                total.set(k.fma(weight, pixel, total.get()))

    in_chains(k, inner, chains, step)
    for channel in range(channels):
        added = k.load(bias + channel * 4, F32) if spec.bias else None
        for v in range(vectors):
            total = joined([chain[channel][v] for chain in sums])
            k.store(_ended(k, spec, total, added), at(v, target + target_channel * channel))
    k.finish()
    return k


def _each_channel(k: Kernel, spec: Planes, a: dict[str, Value], source: Value, target: Value, filters: Value, bias: Value) -> None:
    """One channel of data for each group: few products to a sum, all written out."""
    lanes = spec.lanes
    across = spec.taps // spec.tap_rows
    # A tap is found by its row and its column: fewer places to keep than there are taps.
    down = [k.load(a["offsets"] + row * across * 4, I32).to(I64) for row in range(spec.tap_rows)]
    right = [k.load(a["offsets"] + tap * 4, I32).to(I64) for tap in range(across)]
    with k.loop(0, a["channels"]) as channel:
        own = filters + channel * (spec.taps * 4)
        held = [k.splat(k.load(own + tap * 4, F32), lanes) for tap in range(min(spec.taps, _HELD))]
        added = k.load(bias + channel * 4, F32) if spec.bias else None
        plane = target + channel * a["target_channel"]
        with k.loop(0, a["rows"]) as row:
            pixels, result = source + row * a["source_row"], plane + row * a["target_row"]

            def vector(column: Value, pixels: Value = pixels, result: Value = result) -> None:
                lines = [pixels + column + offset for offset in down]
                sums = [k.number(0.0, F32, lanes)] * max(1, min(_CHAINS, spec.taps // _CHAIN))
                for tap in range(spec.taps):
                    weight = held[tap] if tap < _HELD else k.splat(k.load(own + tap * 4, F32), lanes)
                    pixel = k.load(lines[tap // across] + right[tap % across], F32, lanes)
                    sums[tap % len(sums)] = k.fma(weight, pixel, sums[tap % len(sums)])
                k.store(_ended(k, spec, functools.reduce(operator.add, sums), added), result + column)

            last = a["columns"] - lanes
            with k.loop(0, last, lanes) as x:
                vector(x * 4)
            vector(last * 4)  # some of it a second time, where the number of columns wants that


def _ended(k: Kernel, spec: Planes, total: Value, bias: Value | None) -> Value:
    if bias is not None:
        total = total + bias
    return STANDALONE[spec.activation](k, total) if spec.activation else total
