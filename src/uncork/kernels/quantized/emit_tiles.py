"""Sums of products of codes in AMX tiles, and how the sums of a tile end, in whatever registers
they were made.

All tiles of a call have one shape: the pixels of a row are shared by blocks of up to two tiles of
16 pixels, the second of which ends where the block does, on pixels of the first one where those are
too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from uncork.kernels.codegen.emit import F32, I32, I64, Kernel, Value, pieces
from uncork.kernels.gemm import microkernel_amx as amx
from uncork.kernels.quantized.emit_epilogue import store_with_epilogue
from uncork.kernels.quantized.emit_rounding import Guard
from uncork.kernels.quantized.spec import ENTRY, TILE_PIXELS, Dots

TILE_ARGUMENTS = (
    "source", "target", "weights", "table", "runs", "run", "start", "scale", "shift", "numbers",
    "target_pixel",
)  # fmt: skip
#: The first pixel, a function that multiplies some from there on, its further arguments.
Tile = tuple[Value, Kernel, Sequence[Value]]
#: Sums of a vector of outputs that are on their way at a time: a product of tiles waits so long for
#: the one before it.
_SUMS = 4
_CODES = 4


class SomeOutputs(Struct, frozen=True):
    """Some outputs of a vector, which begin at a lane and at a column, with what scales them."""

    first: int
    column: int
    scale: Value
    shift: Value

    def store(
        self,
        k: Kernel,
        spec: Dots,
        a: dict[str, Value],
        total: Value,
        pixel: Value | int,
        guard: Guard | None,
    ) -> None:
        """Store what becomes of their sums, which are part of a vector's."""
        sums = total.part(self.first, self.scale.lanes).to(F32)
        value = k.fma(sums, self.scale, self.shift)
        store_with_epilogue(k, spec.end, a, value, pixel, self.column, guard)


def pieces_of_vector(k: Kernel, spec: Dots, a: dict[str, Value], v: int) -> Iterator[SomeOutputs]:
    """The outputs of a vector that exist, in pieces that are powers of two."""
    for first, lanes in pieces(min(spec.lanes, spec.columns - v * spec.lanes), spec.lanes):
        column = v * spec.lanes + first
        scale, shift = (k.load(a[name] + column * 4, F32, lanes) for name in ("scale", "shift"))
        yield SomeOutputs(first, column, scale, shift)


def along_in_tiles(k: Kernel, spec: Dots) -> Callable[[], Iterator[Tile]]:
    """The bodies of loops over the blocks of a row; the registers are configured for them."""
    low, high = (_registers(spec, heights) for heights in (1, 2))
    of_low, of_high = _tile(k, spec, low), _tile(k, spec, high)
    count = k.named["tiles_0"]
    blocks = k.maximum((count + (TILE_PIXELS - 1)) // TILE_PIXELS, k.integer(1))
    wide = (count + (blocks - 1)) // blocks
    #: Blocks of so many pixels come before those with one less.
    of_wide = count - blocks * (wide - 1)
    is_high = wide > amx.ROWS
    rows = k.select(is_high, (wide + 1) // 2, wide)
    place = k.stack_bytes(amx.CONFIGURATION_BYTES)
    k.either(is_high, lambda: high.write(k, place, rows), lambda: low.write(k, place, rows))
    amx.configure(k, place)

    def tiles() -> Iterator[Tile]:
        with k.if_(is_high), k.loop(0, blocks) as block:
            before = k.maximum(block - of_wide, k.integer(0))
            pixels = k.select(block < of_wide, wide, wide - 1)
            yield block * wide - before, of_high, (pixels, rows)
        with k.if_(wide <= amx.ROWS):
            yield k.integer(0), of_low, (wide, rows)

    return tiles


def _registers(spec: Dots, heights: int) -> amx.TileRegisters:
    words, rest = spec.words
    turns = min(2, _SUMS // (heights * spec.blocks))
    return amx.TileRegisters(spec.blocks, 1, heights, turns, spec.lanes, words, rest, whole=True)


def _tile(outer: Kernel, spec: Dots, registers: amx.TileRegisters) -> Kernel:
    """A function for some pixels, of which every tile holds so many `rows`."""
    names = (*TILE_ARGUMENTS, *spec.end.arguments, "pixels", "rows")
    k = Kernel(f"tile_{registers.heights}", names, inside=outer)
    a, used, vectors = k.named, spec.blocks, range(spec.blocks)
    distances = [k.integer(0), a["pixels"] - a["rows"]][: registers.heights]
    registers.clear(k, registers.heights, used)
    _sum(k, spec, registers, distances)
    room = k.stack_bytes(amx.SUMS_BYTES)
    registers.store(k, room, distances, used)
    start = [k.load(a["start"] + v * registers.vector_bytes, I32, spec.lanes) for v in vectors]
    guard = Guard(k) if spec.end.guarded else None
    parts = [list(pieces_of_vector(k, spec, a, v)) for v in vectors]
    with k.loop(0, a["pixels"]) as pixel:
        for v in vectors:
            total = registers.total(k, room, pixel, v, used) + start[v]
            for piece in parts[v]:
                piece.store(k, spec, a, total, pixel, guard)
    if guard is not None:
        guard.stop()
    k.finish()
    return k


def _sum(k: Kernel, spec: Dots, registers: amx.TileRegisters, distances: Sequence[Value]) -> None:
    """All products of a block of pixels, run by run."""
    a, apart = k.named, k.integer(spec.step)
    panel_row = k.integer(spec.blocks * registers.vector_bytes)
    step = registers.words * _CODES
    whole = a["run"] // step

    with k.loop(0, a["runs"]) as number:
        source = a["source"] + k.load(a["table"] + number * ENTRY, I64)
        panel = a["weights"] + number * a["run"] * spec.width

        def add(
            position: Value, turn: int, rest: bool, source: Value = source, panel: Value = panel
        ) -> None:
            first, here = source + position, panel + position * spec.width
            blocks = [[first + apart * pixels] for pixels in distances]
            registers.add(k, blocks, apart, here, panel_row, spec.blocks, turn, rest)

        for index, number_of_step in enumerate(k.unrolled(whole, registers.turns)):
            add(number_of_step * step, index % registers.turns, False)
        if registers.rest:
            add(whole * step, 0, True)
