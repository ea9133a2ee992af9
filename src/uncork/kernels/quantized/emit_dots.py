"""Sums of products of codes: tiles of pixels by vectors of outputs in registers, then the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from uncork.kernels.codegen.emit import I32, I64, Kernel, Value, Variable, emitter
from uncork.kernels.gemm import microkernel_amx as amx
from uncork.kernels.gemm.dots import DOT_METHODS, TILES
from uncork.kernels.gemm.microkernel_dots import added, factor, weights
from uncork.kernels.quantized.emit_epilogue import moved_operands
from uncork.kernels.quantized.emit_rounding import Guard
from uncork.kernels.quantized.emit_tiles import (
    TILE_ARGUMENTS,
    Tile,
    along_in_tiles,
    pieces_of_vector,
)
from uncork.kernels.quantized.spec import ENTRY, Dots

#: Sums wait for the ones before them: so many at least are on their way.
_ACCUMULATORS = 8
#: Steps that are written out.
_UNROLLED = 2


@emitter
def emit_dots(k: Kernel, spec: Dots) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    along = along_in_tiles if spec.how == TILES else _along
    tiles = along(k, spec)
    size = 1 if spec.end.codes else 4

    def row(image: Value, y: Value, group: Value | None) -> None:
        """The tiles of a row, for a group of outputs or for each of them."""
        source = a["source"] + image * a["source_image"] + y * a["source_row"]
        # Places in the result, in numbers: other tensors that lie on it have them too.
        first = image * a["target_image"] + y * a["target_row"]
        for x, function, further in tiles():
            seen, place = source + x * spec.step, first + x * a["target_pixel"]

            def multiply_group(
                group: Value,
                seen: Value = seen,
                place: Value = place,
                function: Kernel = function,
                further: Sequence[Value] = further,
            ) -> None:
                column = group * spec.columns
                made = place + column
                own = {
                    **a,
                    "source": seen + group * a["source_group"],
                    "weights": a["weights"] + group * a["group"],
                    "target": a["target"] + made * size,
                }
                own |= {name: a[name] + column * 4 for name in ("start", "scale", "shift")}
                own |= moved_operands(spec.end, a, made, column)
                names = (*TILE_ARGUMENTS, *spec.end.arguments)
                status = k.call(function, [*(own[name] for name in names), *further])
                if spec.end.guarded:
                    if spec.how == TILES:
                        with k.if_(status > 0):
                            amx.release(k)
                    k.stop_unless(status.equals(0), k.integer(1))

            if group is None:
                with k.loop(0, a["groups"]) as number:
                    multiply_group(number)
            else:
                multiply_group(group)

    with k.loop(0, a["images"]) as image:
        if spec.inside:
            with k.loop(0, a["rows"]) as y:
                row(image, y, None)
        else:
            with k.loop(0, a["groups"]) as group, k.loop(0, a["rows"]) as y:
                row(image, y, group)
    if spec.how == TILES:
        amx.release(k)


def _along(k: Kernel, spec: Dots) -> Callable[[], Iterator[Tile]]:
    """The bodies of loops over the tiles of a row: (the first pixel, a function that multiplies
    them, its further arguments).
    """
    functions = [_tile(k, spec, width) for width in spec.widths]

    def tiles() -> Iterator[Tile]:
        x = k.variable(k.integer(0))
        for kind, (width, function) in enumerate(zip(spec.widths, functions, strict=True)):
            with k.loop(0, k.named[f"tiles_{kind}"]):
                yield x.get(), function, ()
                x.set(x.get() + width)

    return tiles


def _tile(outer: Kernel, spec: Dots, width: int) -> Kernel:
    k = Kernel(f"tile_{width}", [*TILE_ARGUMENTS, *spec.end.arguments], inside=outer)
    a = k.named
    vectors = range(spec.blocks)
    accumulators = max(1, min(4, _ACCUMULATORS // (width * spec.blocks)))
    begin = [k.load(a["start"] + v * spec.lanes * 4, I32, spec.lanes) for v in vectors]
    zero = k.constant(0, I32, spec.lanes)
    sums = [
        [
            [k.variable(zero if chain else begin[v]) for chain in range(accumulators)]
            for v in vectors
        ]
        for _ in range(width)
    ]
    _sum(k, spec, a, sums, accumulators)
    guard = Guard(k) if spec.end.guarded else None
    for v in vectors:
        for piece in pieces_of_vector(k, spec, a, v):
            for p in range(width):
                total = sums[p][v][0].get()
                for chain in sums[p][v][1:]:
                    total = total + chain.get()
                piece.store(k, spec, a, total, p, guard)
    if guard is not None:
        guard.stop()
    k.finish()
    return k


def _sum(
    k: Kernel, spec: Dots, a: dict[str, Value], sums: list[list[list[Variable]]], accumulators: int
) -> None:
    """All products of a tile; the chains take turns."""
    method = DOT_METHODS[spec.how]
    unrolled = max(_UNROLLED, accumulators) * max(1, 2 // method.codes)
    column = method.weights // method.codes * spec.width

    def step(source: Value, panel: Value, position: Value, chain: int) -> None:
        place = panel + position * column
        line = [
            weights(k, spec.how, place + v * spec.lanes * method.weights, spec.lanes)
            for v in range(spec.blocks)
        ]
        for p, of_pixel in enumerate(sums):
            codes = factor(
                k, spec.how, source + (position * method.size + p * spec.step), spec.lanes
            )
            for v, weight in enumerate(line):
                total = of_pixel[v][chain]
                total.set(added(k, spec.how, total.get(), codes, weight))

    with k.loop(0, a["runs"]) as number:
        source = a["source"] + k.load(a["table"] + number * ENTRY, I64)
        panel = a["weights"] + number * a["run"] * column
        for turn, position in enumerate(k.unrolled(a["run"], unrolled, method.codes)):
            step(source, panel, position, turn % accumulators)
