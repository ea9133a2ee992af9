"""Direct convolutions over blocks of channels: tiles of pixels, each with what its taps see by a
table.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import F32, I64, Kernel, Value
from uncork.kernels.codegen.epilogue import advanced, ended, relative
from uncork.kernels.codegen.tiled_rows import tiled_rows
from uncork.kernels.convolution.microkernel_blocks import AHEAD_TILES, tile
from uncork.kernels.convolution.spec_blocks import ENTRY, Dense
from uncork.kernels.epilogue import CHANNEL, ELEMENT
from uncork.kernels.runtime.target import Target

_ARGUMENTS = ("source", "filters", "table", "ahead", "target", "target_block")


def emit_dense(spec: Dense, machine: Target) -> str:
    """The LLVM text of the kernel."""
    k = Kernel(spec.name, spec.arguments, machine)
    a = dict(zip(spec.arguments, k.arguments))
    tiles = [_tile(k, spec, width) for width in spec.widths]
    places = relative(spec.end, a, a["target"])

    def run(kind: int, source: Value, target: Value, group: Value) -> None:
        own = advanced(spec.end, places, group * (spec.blocks * spec.lanes * 4))
        place = target + group * a["target_block"] * spec.blocks
        filters = a["filters"] + group * a["group"]
        given = [a["count"], source, filters, a["table"], ahead.get(), place, a["target_block"]]
        k.call(tiles[kind], [*given, *own.values()])
        if spec.ahead:  # what is left of the next set, then its last part again
            last = a["filters"] + (group + 2) * a["group"] - part
            ahead.set(k.minimum(ahead.get() + part, last))

    def begin_group(group: Value) -> None:
        ahead.set(a["filters"] + (group + 1) * a["group"])

    part = a["count"] * (spec.inner * spec.blocks * spec.lanes * 4 // AHEAD_TILES)
    ahead = k.variable(k.integer(0))
    steps = spec.step, spec.lanes * 4
    tiled_rows(k, a, spec.widths, spec.inside, a["target"], steps, run, begin_group)
    k.finish()
    return k.text()


def _tile(outer: Kernel, spec: Dense, width: int) -> Kernel:
    def places(k: Kernel, number: Value, a: dict[str, Value]) -> tuple[Value, Value]:
        entry = a["table"] + number * ENTRY
        return a["source"] + k.load(entry, I64), a["filters"] + k.load(entry + 8, I64)

    def end(k: Kernel, pixel: int, vector: int, total: Value, a: dict[str, Value]) -> None:
        first = vector * spec.together
        places = [
            a["target"] + a["target_block"] * (first + n) + pixel * spec.lanes * 4
            for n in range(spec.together)
        ]

        def operand(name: str, kind: str) -> Value:
            if kind == ELEMENT:
                return side_by_side([k.load(place + a[name], F32, spec.lanes) for place in places])
            return (
                k.load(a[name] + first * spec.lanes * 4, F32, wide)
                if kind == CHANNEL
                else k.load(a[name], F32)
            )

        made = ended(k, spec.end, total, operand)
        for n, place in enumerate(places):
            k.store(made.part(n * spec.lanes, spec.lanes), place)

    wide = spec.lanes * spec.together
    vectors = spec.blocks // spec.together
    arguments = (*_ARGUMENTS, *spec.end.arguments)
    return tile(
        outer,
        f"tile_{width}",
        wide,
        spec.inner,
        vectors,
        width,
        spec.step,
        arguments,
        places,
        end,
        spec.ahead,
    )


def side_by_side(parts: Sequence[Value]) -> Value:
    """One vector of one or two."""
    if len(parts) == 1:
        return parts[0]
    one, other = parts
    picks = ir.Constant(ir.VectorType(ir.IntType(32), 2 * one.lanes), list(range(2 * one.lanes)))
    return Value(
        one.kernel,
        one.kernel.builder.shuffle_vector(one.llvm, other.llvm, picks),
        one.type,
        2 * one.lanes,
    )
