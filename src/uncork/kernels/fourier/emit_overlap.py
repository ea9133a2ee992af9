"""The emitter of sums of overlapping pieces of a signal."""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, F64, Kernel, Value, emitter
from uncork.kernels.fourier.spec import Overlap


@emitter
def emit_overlap(k: Kernel, spec: Overlap) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    type_ = F64 if spec.size == F64.bytes else F32
    weights = a["room"] + a["reached"] * spec.size
    scale = k.load(a["scale"], type_)

    def added(value: Value, place: Value) -> None:
        k.store(k.load(place, type_, value.lanes) + value, place)

    with k.loop(0, a["batch"]) as signal:
        for n, lanes in k.vectors(a["reached"] * 2, spec.lanes):
            k.store(k.constant(0.0, type_, lanes), a["room"] + n * spec.size)
        with k.loop(0, a["frames"]) as frame:
            piece = ((signal * a["frames"] + frame) * a["frame"] + a["begin"]) * spec.size
            start = (frame * a["step"] + a["begin"]) * spec.size
            for n, lanes in k.vectors(a["own"], spec.lanes):
                away = n * spec.size
                window = k.load(a["window"] + away, type_, lanes)
                number = k.load(a["pieces"] + piece + away, type_, lanes)
                added(number * window, a["room"] + start + away)
                added(window * window, weights + start + away)
        target = a["target"] + signal * a["length"] * spec.size
        there = k.maximum(k.minimum(a["reached"] - a["first"], a["length"]), k.integer(0))
        for n, lanes in k.vectors(there, spec.lanes):
            place = (a["first"] + n) * spec.size
            total, weight = (k.load(r + place, type_, lanes) for r in (a["room"], weights))
            number = total / weight * k.splat(scale, lanes)
            zero = k.constant(0.0, type_, lanes)
            k.store(k.select(weight.equals(0.0), zero, number), target + n * spec.size)
        with k.loop(there, a["length"]) as n:
            k.store(k.constant(0.0, type_), target + n * spec.size)
