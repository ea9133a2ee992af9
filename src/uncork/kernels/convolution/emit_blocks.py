"""Direct convolutions over blocks of channels: tiles of pixels, each with what its taps see by a
table.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import F32, I64, Kernel, Value
from uncork.kernels.codegen.epilogue import advanced, ended, relative
from uncork.kernels.convolution.microkernel_blocks import tile
from uncork.kernels.convolution.spec_blocks import ENTRY, Dense
from uncork.kernels.epilogue import CHANNEL, ELEMENT
from uncork.kernels.runtime.target import Target

_ARGUMENTS = ("source", "filters", "table", "target", "target_block")


def emit_dense(spec: Dense, machine: Target) -> str:
    """The LLVM text of the kernel."""
    k = Kernel(spec.name, spec.arguments, machine)
    a = dict(zip(spec.arguments, k.arguments))
    tiles = [_tile(k, spec, width) for width in spec.widths]
    places = relative(spec.end, a, a["target"])

    of_images, of_passes = k.loop(0, a["images"]), k.loop(0, a["passes"])
    with of_images as image, of_passes as turn, k.loop(0, a["rows"]) as y:
        source = a["source"] + image * a["source_image"] + y * a["source_row"]
        target = a["target"] + image * a["target_image"] + y * a["target_row"]
        x = k.variable(k.integer(0))
        for kind, (width, function) in enumerate(zip(spec.widths, tiles)):
            with k.loop(0, a[f"tiles_{kind}"]):
                seen = source + x.get() * spec.step
                made = target + x.get() * (spec.lanes * 4)
                with k.loop(0, a["groups"]) as number:
                    group = turn + number  # of which one is 0
                    own = advanced(spec.end, places, group * (spec.blocks * spec.lanes * 4))
                    given = [
                        a["count"],
                        seen,
                        a["filters"] + group * a["group"],
                        a["table"],
                        made + group * a["target_block"] * spec.blocks,
                        a["target_block"],
                    ]
                    k.call(function, [*given, *own.values()])
                x.set(x.get() + width)
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
        outer, f"tile_{width}", wide, spec.inner, vectors, width, spec.step, arguments, places, end
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
