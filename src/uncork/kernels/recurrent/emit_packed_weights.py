"""The emitter of the kernel that packs weights: rows side by side, step by step of the inner
product.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, F64, U32, Kernel, Value, emitter
from uncork.kernels.recurrent.spec import PanelsOfWeights


@emitter
def emit_packed_weights(k: Kernel, spec: PanelsOfWeights) -> None:
    """The LLVM text of the kernel that packs weights."""
    weights, inner, hidden, panels, target = k.arguments
    size, type_ = spec.size, F64 if spec.size == F64.bytes else F32
    row, step = inner * size, spec.gates * spec.units * size
    #: Steps of the inner product: numbers, or pairs in whole blocks.
    words = inner
    if spec.block:
        words = (inner + (spec.block - 1)) // spec.block * (spec.block // 2)

    def word(source: Value, position: Value) -> Value:
        """What a row has for a step."""
        return (
            _pair(k, source, position, inner)
            if spec.block
            else k.load(source + position * size, type_)
        )

    with k.loop(0, panels) as panel:
        there = hidden - panel * spec.units
        for gate in range(spec.gates):
            source = weights + (hidden * gate + panel * spec.units) * row
            first = target + panel * words * step + gate * spec.units * size

            def every(source: Value = source, first: Value = first) -> None:
                with k.loop(0, words) as position:
                    values = [word(source + row * unit, position) for unit in range(spec.units)]
                    for unit, value in enumerate(values):
                        k.store(value, first + position * step + unit * size)

            def some(source: Value = source, first: Value = first, there: Value = there) -> None:
                zero = k.constant(0, U32) if spec.block else k.constant(0.0, type_)
                with k.loop(0, spec.units) as unit, k.loop(0, words) as position:
                    place = first + position * step + unit * size
                    k.either(
                        unit < there,
                        lambda: k.store(word(source + row * unit, position), place),
                        lambda: k.store(zero, place),
                    )

            k.either(there >= spec.units, every, some, likely=True)


def _pair(k: Kernel, source: Value, position: Value, inner: Value) -> Value:
    """Two neighbours of a row as bf16 side by side, zeros past its end."""
    low, high = (
        k.to_bf16(
            k.select(
                number < inner,
                k.load(source + k.minimum(number, inner - 1) * F32.bytes, F32),
                k.constant(0.0, F32),
            )
        ).to(U32)
        for number in (position * 2, position * 2 + 1)
    )
    return low | high << 16
