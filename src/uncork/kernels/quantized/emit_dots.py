"""Sums of products of codes: tiles of pixels by vectors of outputs in registers, then the end."""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I32, I64, Kernel, Value, Variable, emitter, pieces
from uncork.kernels.gemm.dots import DOT_METHODS
from uncork.kernels.gemm.microkernel_dots import added, factor, weights
from uncork.kernels.quantized.emit_epilogue import moved_operands, store_with_epilogue
from uncork.kernels.quantized.emit_rounding import Guard
from uncork.kernels.quantized.spec import ENTRY, Dots

#: Sums wait for the ones before them: so many at least are on their way.
_ACCUMULATORS = 8
#: Steps that are written out.
_UNROLLED = 2
_TILE_ARGUMENTS = (
    "source",
    "target",
    "weights",
    "table",
    "runs",
    "run",
    "start",
    "scale",
    "shift",
    "numbers",
    "target_pixel",
)


@emitter
def emit_dots(k: Kernel, spec: Dots) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    tiles = [_tile(k, spec, width) for width in spec.widths]
    size = 1 if spec.end.codes else 4

    def row(image: Value, y: Value, group: Value | None) -> None:
        """The tiles of a row, for a group of outputs or for each of them."""
        source = a["source"] + image * a["source_image"] + y * a["source_row"]
        # Places in the result, in numbers: other tensors that lie on it have them too.
        first = image * a["target_image"] + y * a["target_row"]
        x = k.variable(k.integer(0))
        for kind, (width, function) in enumerate(zip(spec.widths, tiles, strict=True)):
            with k.loop(0, a[f"tiles_{kind}"]):
                seen, place = source + x.get() * spec.step, first + x.get() * a["target_pixel"]

                def multiply_group(
                    group: Value,
                    seen: Value = seen,
                    place: Value = place,
                    function: Kernel = function,
                ) -> None:
                    column = group * spec.width
                    made = place + column
                    own = {
                        **a,
                        "source": seen,
                        "weights": a["weights"] + group * a["group"],
                        "target": a["target"] + made * size,
                    }
                    own |= {name: a[name] + column * 4 for name in ("start", "scale", "shift")}
                    own |= moved_operands(spec.end, a, made, column)
                    status = k.call(
                        function, [own[name] for name in (*_TILE_ARGUMENTS, *spec.end.arguments)]
                    )
                    if spec.end.guarded:
                        k.stop_unless(status.equals(0), k.integer(1))

                if group is None:
                    with k.loop(0, a["groups"]) as number:
                        multiply_group(number)
                else:
                    multiply_group(group)
                x.set(x.get() + width)

    with k.loop(0, a["images"]) as image:
        if spec.inside:
            with k.loop(0, a["rows"]) as y:
                row(image, y, None)
        else:
            with k.loop(0, a["groups"]) as group, k.loop(0, a["rows"]) as y:
                row(image, y, group)


def _tile(outer: Kernel, spec: Dots, width: int) -> Kernel:
    k = Kernel(f"tile_{width}", [*_TILE_ARGUMENTS, *spec.end.arguments], inside=outer)
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
        for first, lanes in pieces(min(spec.lanes, spec.columns - v * spec.lanes), spec.lanes):
            column = v * spec.lanes + first
            scale, shift = (k.load(a[name] + column * 4, F32, lanes) for name in ("scale", "shift"))
            for p in range(width):
                total = sums[p][v][0].get()
                for chain in sums[p][v][1:]:
                    total = total + chain.get()
                value = k.fma(total.part(first, lanes).to(F32), scale, shift)
                store_with_epilogue(k, spec.end, a, value, p, column, guard)
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

    at_once = unrolled * method.codes
    with k.loop(0, a["runs"]) as number:
        source = a["source"] + k.load(a["table"] + number * ENTRY, I64)
        panel = a["weights"] + number * a["run"] * column
        whole = a["run"] // at_once * at_once
        with k.loop(0, whole, at_once) as position:
            for u in range(unrolled):
                step(source, panel, position + u * method.codes, u % accumulators)
        with k.loop(whole, a["run"], method.codes) as position:
            step(source, panel, position, 0)
