"""The emitter of the kernel that packs weights: rows side by side, step by step of the inner
product.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, F64, Kernel, Value, emitter
from uncork.kernels.recurrent.spec import PanelsOfWeights


@emitter
def emit_packed_weights(k: Kernel, spec: PanelsOfWeights) -> None:
    """The LLVM text of the kernel that packs weights."""
    weights, inner, hidden, panels, target = k.arguments
    size, type_ = spec.size, F64 if spec.size == F64.bytes else F32
    row, step = inner * size, spec.gates * spec.units * size

    with k.loop(0, panels) as panel:
        there = hidden - panel * spec.units
        for gate in range(spec.gates):
            source = weights + (hidden * gate + panel * spec.units) * row
            first = target + panel * inner * step + gate * spec.units * size

            def every(source: Value = source, first: Value = first) -> None:
                with k.loop(0, inner) as position:
                    values = [
                        k.load(source + row * unit + position * size, type_)
                        for unit in range(spec.units)
                    ]
                    for unit, value in enumerate(values):
                        k.store(value, first + position * step + unit * size)

            def some(source: Value = source, first: Value = first, there: Value = there) -> None:
                with k.loop(0, spec.units) as unit, k.loop(0, inner) as position:
                    place = first + position * step + unit * size
                    k.either(
                        unit < there,
                        lambda: k.store(
                            k.load(source + row * unit + position * size, type_), place
                        ),
                        lambda: k.store(k.constant(0.0, type_), place),
                    )

            k.either(there >= spec.units, every, some, likely=True)
