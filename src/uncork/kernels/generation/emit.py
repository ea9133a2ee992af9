"""The emitter of OneHot, one place of each row, and Range, numbers at equal steps."""

from __future__ import annotations

from uncork.kernels.codegen.emit import F64, I64, INDEX_TYPES, Kernel, Value, emitter
from uncork.kernels.codegen.scalar_ops import COMPUTED
from uncork.kernels.generation.spec import OneHot, Steps

#: Floats below it are cut to i64.
_CUT = 2.0**63
_ITEMS = {1: INDEX_TYPES["u8"], 2: INDEX_TYPES["u16"], 4: INDEX_TYPES["u32"], 8: INDEX_TYPES["u64"]}


@emitter
def emit_one_hot(k: Kernel, spec: OneHot) -> None:
    """The LLVM text of `output[o, indices[o, i], i] = value`, where there is such a place."""
    indices, value, output, outer, depth, inner = k.arguments
    item, index = _ITEMS[spec.item], INDEX_TYPES[spec.index]
    number = k.load(value, item)
    with k.loop(0, outer) as o, k.loop(0, inner) as i:
        raw = k.load(indices + (o * inner + i) * index.bytes, index)
        place = raw.to(I64)
        if spec.strict:
            k.stop_unless(raw >= 0, k.integer(1))
        if spec.wraps and index.kind == "signed":
            place = place + ((place >> 63) & depth)
        with k.if_(place.below(depth)):
            k.store(number, output + ((o * depth + place) * inner + i) * spec.item)


@emitter
def emit_steps(k: Kernel, spec: Steps) -> None:
    """The LLVM text of `output[i] = start + i * step`, in i64 or f64; the kernel returns 1 when a
    number is not finite or too large to be cut to i64, or the step is 0.
    """
    given, (output, count) = k.arguments[:3], k.arguments[3:]
    made = COMPUTED[spec.result]
    wide = F64 if made.kind == "float" else I64

    def number(address: Value, name: str) -> Value:
        value = k.load(address, COMPUTED[name])
        if value.type.kind == "float":
            k.stop_unless((value - value).equals(0.0), k.integer(1))
            if wide is I64:
                k.stop_unless(value < _CUT, k.integer(1))
                k.stop_unless(value > -_CUT, k.integer(1))
        return value.to(wide)

    start, _, step = (
        number(address, name)
        for address, name in zip(given, (spec.start, spec.stop, spec.step), strict=True)
    )
    k.stop_unless(step.equals(0).equals(0), k.integer(1))
    with k.loop(0, count) as i:
        k.store((start + i.to(wide) * step).to(made), output + i * made.bytes)
