"""The emitter of depthwise convolutions of codes: codes that several pixels see are read once."""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I32, U8, Kernel, Value, emitter
from uncork.kernels.quantized.emit_epilogue import moved_operands, store_with_epilogue
from uncork.kernels.quantized.emit_rounding import Guard
from uncork.kernels.quantized.spec import DepthwiseOfCodes

_TILE_ARGUMENTS = (
    "source",
    "target",
    "weights",
    "start",
    "scale",
    "shift",
    "numbers",
    "tap_row",
    "target_pixel",
)


@emitter
def emit_depthwise(k: Kernel, spec: DepthwiseOfCodes) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    tiles = [_tile(k, spec, width) for width in spec.widths]
    size = 1 if spec.end.codes else 4
    pixel = k.integer(spec.pixel)
    with k.loop(0, a["images"]) as image, k.loop(0, a["rows"]) as y:
        source = a["source"] + image * a["source_image"] + y * a["source_row"]
        first = image * a["target_image"] + y * a["target_row"]
        x = k.variable(k.integer(0))
        for kind, (width, function) in enumerate(zip(spec.widths, tiles, strict=True)):
            with k.loop(0, a[f"tiles_{kind}"]):
                made = first + x.get() * spec.pixel
                own = {
                    **a,
                    "source": source + x.get() * (spec.stride * spec.pixel),
                    "target": a["target"] + made * size,
                }
                own |= {"target_pixel": pixel, **moved_operands(spec.end, a, made, k.integer(0))}
                status = k.call(
                    function, [own[name] for name in (*_TILE_ARGUMENTS, *spec.end.arguments)]
                )
                if spec.end.guarded:
                    k.stop_unless(status.equals(0), k.integer(1))
                x.set(x.get() + width)


def _tile(outer: Kernel, spec: DepthwiseOfCodes, width: int) -> Kernel:
    k = Kernel(f"tile_{width}", [*_TILE_ARGUMENTS, *spec.end.arguments], inside=outer)
    a = k.named
    guard = Guard(k) if spec.end.guarded else None
    lanes = spec.lanes
    size = 1 if spec.end.codes else 4
    with k.loop(0, spec.pixel, lanes) as some:
        # The last channels again, where they are no whole number of vectors: what is written twice
        # is the same.
        channel = k.minimum(some, k.integer(spec.pixel - lanes)) if spec.pixel % lanes else some
        begin = k.load(a["start"] + channel * 4, I32, lanes).to(F32)
        sums = [begin] * width
        for j in range(spec.rows):
            source = a["source"] + a["tap_row"] * j + channel
            cells: dict[int, Value] = {}
            for i in range(spec.columns):
                weight = k.load(
                    a["weights"] + (channel + (j * spec.columns + i) * spec.pixel) * 4, F32, lanes
                )
                for p in range(width):
                    place = p * spec.stride + i * spec.dilation
                    if place not in cells:
                        cells[place] = (
                            k.load(source + place * spec.pixel, U8, lanes).to(I32).to(F32)
                        )
                    sums[p] = k.fma(cells[place], weight, sums[p])
        scale, shift = (k.load(a[name] + channel * 4, F32, lanes) for name in ("scale", "shift"))
        own = {
            **a,
            "target": a["target"] + channel * size,
            **moved_operands(spec.end, a, channel, channel),
        }
        for p in range(width):
            store_with_epilogue(k, spec.end, own, k.fma(sums[p], scale, shift), p, 0, guard)
    if guard is not None:
        guard.stop()
    k.finish()
    return k
