"""The emitter of OneHot: one place of each row."""

from __future__ import annotations

from uncork.kernels.codegen.emit import I64, INDEX_TYPES, Kernel, emitter
from uncork.kernels.generation.spec import OneHot

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
