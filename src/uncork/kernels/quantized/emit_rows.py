"""Rows of f32 in bytes, each with a grid of its own, and back: see `internal_ops/coded_rows.py`."""

from __future__ import annotations

import math

from uncork.internal_ops.coded_rows import GRID, LEAST_STEP
from uncork.kernels.codegen.emit import F32, I32, U8, Kernel, Value, emitter
from uncork.kernels.quantized.spec import CodedRows

_LARGEST = 255.0


@emitter
def emit_rows(k: Kernel, spec: CodedRows) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    of_numbers, of_codes = a["size"] * F32.bytes, a["size"] + GRID
    with k.loop(a["first"], a["first"] + a["count"]) as row:
        if spec.back:
            source, target = a["source"] + row * of_codes, a["target"] + row * of_numbers
            _decode(k, spec, source, target, a["size"])
        else:
            source, target = a["source"] + row * of_numbers, a["target"] + row * of_codes
            _encode(k, spec, source, target, a["size"])


def _encode(k: Kernel, spec: CodedRows, source: Value, target: Value, size: Value) -> None:
    least, most = k.variable(k.constant(math.inf, F32)), k.variable(k.constant(-math.inf, F32))
    zeros = k.variable(k.constant(0.0, F32))
    several = [
        k.variable(k.constant(first, F32, spec.lanes)) for first in (math.inf, -math.inf, 0.0)
    ]
    for i, lanes in k.vectors(size, spec.lanes):
        x = k.load(source + i * F32.bytes, F32, lanes)
        lowest, highest, strange = several if lanes > 1 else (least, most, zeros)
        lowest.set(k.minimum(x, lowest.get()))
        highest.set(k.maximum(x, highest.get()))
        # NaN of what is not finite
        strange.set(k.fma(x, k.constant(0.0, F32, lanes), strange.get()))
    for lane in range(spec.lanes):
        low, high, none = (one.get().part(lane, 1) for one in several)
        least.set(k.minimum(low, least.get()))
        most.set(k.maximum(high, most.get()))
        zeros.set(none + zeros.get())
    span = most.get() - least.get()
    zeros.set(k.fma(span, k.constant(0.0, F32), zeros.get()))
    largest = k.constant(_LARGEST, F32)
    step = most.get() / largest - least.get() / largest
    zero = k.constant(0.0, F32)
    step = k.select(step < k.constant(LEAST_STEP, F32), zero, step)
    inverse = k.select(step > 0.0, k.constant(1.0, F32) / step, zero)
    low = least.get()
    # Of a row that is not finite: a grid that makes NaN of any code.
    finite = zeros.get().equals(0.0)
    nothing = k.constant(math.nan, F32)
    inverse = k.select(finite, inverse, zero)
    for i, lanes in k.vectors(size, spec.lanes):
        x = k.load(source + i * F32.bytes, F32, lanes)
        code = k.intrinsic("rint", (x - k.splat(low, lanes)) * k.splat(inverse, lanes))
        code = k.select(code > 0.0, code, k.constant(0.0, F32, lanes))  # of NaN, too
        code = k.minimum(code, k.constant(_LARGEST, F32, lanes))
        k.store(code.to(I32).to(U8), target + i)
    k.store(k.select(finite, step, nothing), target + size)
    k.store(k.select(finite, low, nothing), target + size + F32.bytes)


def _decode(k: Kernel, spec: CodedRows, source: Value, target: Value, size: Value) -> None:
    step, low = (k.load(source + size + i * F32.bytes, F32) for i in (0, 1))
    for i, lanes in k.vectors(size, spec.lanes):
        code = k.load(source + i, U8, lanes).to(F32)
        k.store(k.fma(code, k.splat(step, lanes), k.splat(low, lanes)), target + i * F32.bytes)
