"""The emitter of rows in order, or of so many of their first elements that ordering all is quicker
than to look for them.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import INDEX_TYPES, Kernel, Value, emitter
from uncork.kernels.codegen.radix_sort import place_at, radix_sort, sort_places, sortable
from uncork.kernels.elementwise.emit import STORED, widened
from uncork.kernels.selection.spec import Sorted


@emitter
def emit_sorted(k: Kernel, spec: Sorted) -> None:
    """The LLVM text of the kernel, which returns 1 when there are too many places for i32."""
    data, values, numbers, outer, count, inner, best, entries, others, counts = k.arguments
    stored, index, sort = STORED[spec.element], INDEX_TYPES[spec.index], radix_sort(k)
    k.stop_unless(count < k.integer(2**31), k.integer(1))
    with k.loop(0, outer) as o, k.loop(0, inner) as i:
        source, first = data + (o * count * inner + i) * stored.bytes, o * best * inner + i

        def element(place: Value, source: Value = source) -> Value:
            return k.load(source + place * inner * stored.bytes, stored)

        def key(place: Value) -> Value:
            return sortable(k, widened(k, spec.element, element(place)), spec.largest)

        sort_places(k, sort, [entries, others, counts], count, key)
        with k.loop(0, best) as j:
            place, target = place_at(k, entries, j), first + j * inner
            k.store(element(place), values + target * stored.bytes)
            k.store(place.to(index), numbers + target * index.bytes)
