"""The emitter of the few best of columns: as many columns at once as a vector has lanes, each with
its best so far in order.

A new element goes in where it is better, and those behind it move on by one. Where less than a
vector of columns is left, the last vector lies over the one before it: both come to the same.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import BOOL, INDEX_TYPES, Kernel, Value, emitter
from uncork.kernels.codegen.functions import negated, precedes
from uncork.kernels.elementwise.emit import STORED, widened
from uncork.kernels.selection.spec import BestOfColumns


@emitter
def emit_columns(k: Kernel, spec: BestOfColumns) -> None:
    """The LLVM text of the kernel, which returns 1 where there are fewer columns than lanes."""
    data, values, numbers, outer, count, inner, best = k.arguments
    stored, index = STORED[spec.element], INDEX_TYPES[spec.index]
    k.stop_unless(inner >= spec.lanes, k.integer(1))

    def better(a: Value, b: Value) -> Value:
        a, b = (widened(k, spec.element, value) for value in (a, b))
        return precedes(k, b, a) if spec.largest else precedes(k, a, b)

    def insert(j: Value, filled: Value, source: Value, found: Value, places: Value) -> None:
        """Insert element `j` of each column among the first `filled`, the last of which is lost
        where there is no room.
        """
        carried = k.variable(k.load(source + j * inner * stored.bytes, stored, spec.lanes))
        number = k.variable(k.splat(j.to(index), spec.lanes))
        moved = k.variable(k.constant(0, BOOL, spec.lanes))
        with k.loop(0, filled) as p:
            value_at, number_at = found + p * inner * stored.bytes, places + p * inner * index.bytes
            value, place = (
                k.load(value_at, stored, spec.lanes),
                k.load(number_at, index, spec.lanes),
            )
            goes_in = moved.get() | better(carried.get(), value)
            k.store(k.select(goes_in, carried.get(), value), value_at)
            k.store(k.select(goes_in, number.get(), place), number_at)
            carried.set(k.select(goes_in, value, carried.get()))
            number.set(k.select(goes_in, place, number.get()))
            moved.set(goes_in)
        with k.if_(filled < best):
            k.store(carried.get(), found + filled * inner * stored.bytes)
            k.store(number.get(), places + filled * inner * index.bytes)

    with k.if_(best > 0), k.loop(0, outer) as o, k.loop(0, inner, spec.lanes) as block:
        first = k.minimum(block, inner - spec.lanes)
        source = data + (o * count * inner + first) * stored.bytes
        made = o * best * inner + first
        found, places = values + made * stored.bytes, numbers + made * index.bytes
        with k.loop(0, best) as j:
            insert(j, j, source, found, places)
        with k.loop(best, count) as j:
            some = k.load(source + j * inner * stored.bytes, stored, spec.lanes)
            last = k.load(found + (best - 1) * inner * stored.bytes, stored, spec.lanes)
            none = k.bits_of(better(some, last)).equals(0)
            with k.if_(negated(k, none)):
                insert(j, best, source, found, places)
