"""The emitters of strided copies, loops around a copy of neighbouring bytes, and of fills."""

from __future__ import annotations

from uncork.kernels.codegen.copies import copy_open
from uncork.kernels.codegen.emit import U8, U16, U32, U64, Kernel, Value, emitter
from uncork.kernels.kernel_spec import OPEN
from uncork.kernels.movement.emit_gather import copy
from uncork.kernels.movement.spec import FillBytes, NdCopy

#: Turns of the innermost loop that are written out, for short runs.
_UNROLLED = 4


@emitter
def emit_nd_copy(k: Kernel, spec: NdCopy) -> None:
    """The LLVM text of a strided copy."""
    a = k.named

    def copy_run(source: Value, target: Value) -> None:
        if spec.run == OPEN:
            copy_open(k, source, target, a["run"])
        else:
            copy(k, source, target, spec.run)

    def loops(depth: int, source: Value, target: Value) -> None:
        if depth == spec.loops:
            copy_run(source, target)
            return
        count, from_step, to_step = (a[f"{name}_{depth}"] for name in ("count", "source", "target"))

        def turn(i: Value) -> None:
            loops(depth + 1, source + i * from_step, target + i * to_step)

        if depth + 1 < spec.loops or spec.run == OPEN:
            with k.loop(0, count) as i:
                turn(i)
            return
        whole = count & -_UNROLLED
        with k.loop(0, whole, _UNROLLED) as i:
            for u in range(_UNROLLED):
                turn(i + u)
        with k.loop(whole, count) as i:
            turn(i)

    loops(0, a["source"], a["target"])


@emitter
def emit_fill_bytes(k: Kernel, spec: FillBytes) -> None:
    """The LLVM text of a fill with one value."""
    value, target, count = k.arguments
    type_ = {0: U8, 1: U8, 2: U16, 4: U32, 8: U64}[spec.element]
    number = k.load(value, type_) if spec.element else k.constant(0, type_)
    lanes = 64 // type_.bytes
    vector = k.splat(number, lanes)
    whole = count & -64
    with k.loop(0, whole, 64) as i:
        k.store(vector, target + i)
    with k.loop(whole, count, type_.bytes) as i:
        k.store(number, target + i)
