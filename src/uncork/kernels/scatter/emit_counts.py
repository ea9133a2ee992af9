"""The emitter of kernels that count how often each place occurs among keys.

The result holds the counts while they grow, as integers of its width.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I32, I64, INDEX_TYPES, Kernel, emitter
from uncork.kernels.scatter.spec_counts import CountKeys

_TYPES = {"i32": I32, "i64": I64, "f32": F32}


@emitter
def emit_counts(k: Kernel, spec: CountKeys) -> None:
    """The LLVM text of the kernel, which returns 1 where a key is no place, or there are too many
    keys for i32.
    """
    data, keys, output, places, count = k.arguments
    item, key = _TYPES[spec.data], INDEX_TYPES[spec.keys]
    counter = I64 if item.bytes == 8 else I32
    k.stop_unless(count < k.integer(2**31), k.integer(1))
    with k.loop(0, places) as place:
        k.store(k.constant(0, counter), output + place * counter.bytes)
    with k.loop(0, count) as i:
        place = k.load(keys + i * key.bytes, key).to(I64)
        k.stop_unless(place.below(places), k.integer(1))
        address = output + place * counter.bytes
        k.store(k.load(address, counter) + 1, address)
    with k.loop(0, places) as place:
        address = output + place * item.bytes
        times = k.load(address, counter)
        counted = times if counter is item else times.to(item)
        kept = k.load(data + place * item.bytes, item)
        k.store(k.select(times.equals(0), kept, counted), address)
