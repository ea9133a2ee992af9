"""The emitter of packed weights: rows side by side, step by step of the inner product."""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, Kernel, Value
from uncork.kernels.recurrent.spec_packed_weights import ARGUMENTS, PackWeights
from uncork.kernels.runtime.target import Target


def emit_packed_weights(spec: PackWeights, machine: Target) -> str:
    """The LLVM text."""
    k = Kernel(spec.name, ARGUMENTS, machine)
    weights, inner, hidden, panels, target = k.arguments
    row, step = inner * 4, spec.gates * spec.units * 4

    with k.loop(0, panels) as panel:
        there = hidden - panel * spec.units
        for gate in range(spec.gates):
            source = weights + (hidden * gate + panel * spec.units) * row
            first = target + panel * inner * step + gate * spec.units * 4

            def every(source: Value = source, first: Value = first) -> None:
                with k.loop(0, inner) as position:
                    values = [
                        k.load(source + row * unit + position * 4, F32)
                        for unit in range(spec.units)
                    ]
                    for unit, value in enumerate(values):
                        k.store(value, first + position * step + unit * 4)

            def some(source: Value = source, first: Value = first, there: Value = there) -> None:
                with k.loop(0, spec.units) as unit, k.loop(0, inner) as position:
                    place = first + position * step + unit * 4
                    with k.if_else(unit < there) as (given, past):
                        with given:
                            k.store(k.load(source + row * unit + position * 4, F32), place)
                        with past:
                            k.store(k.constant(0.0, F32), place)

            with k.if_else(there >= spec.units, likely=True) as (whole, part):
                with whole:
                    every()
                with part:
                    some()
    k.finish()
    return k.text()
