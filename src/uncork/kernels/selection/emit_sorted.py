"""The emitter of rows in order, or of so many of their first elements that ordering all is quicker
than to look for them.

Each element is a key of 32 bits, whose order is that of the elements, in front of its place. Keys
are sorted by eight bits after eight bits, from the lowest on, which leaves equal ones in their
order; bits that all keys share are passed over.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I32, I64, INDEX_TYPES, U32, U64, Kernel, Value, emitter
from uncork.kernels.elementwise.emit import STORED, widened
from uncork.kernels.selection.spec import DIGITS, Sorted

_BUCKETS = 256
_COUNTERS = _BUCKETS * I64.bytes


@emitter
def emit_sorted(k: Kernel, spec: Sorted) -> None:
    """The LLVM text of the kernel."""
    data, values, numbers, outer, count, inner, best, memory = k.arguments
    stored, index = STORED[spec.element], INDEX_TYPES[spec.index]
    counters, keys = memory, memory + DIGITS * _COUNTERS

    def bump(counter: Value) -> Value:
        """Count one more; how many there were."""
        before = k.load(counter, I64)
        k.store(before + 1, counter)
        return before

    with k.loop(0, outer) as o, k.loop(0, inner) as i:
        source, first = data + (o * count * inner + i) * stored.bytes, o * best * inner + i
        here, there = k.variable(keys), k.variable(keys + count * U64.bytes)
        with k.loop(0, DIGITS * _BUCKETS) as counter:
            k.store(k.integer(0), counters + counter * I64.bytes)
        with k.loop(0, count) as j:
            key = _key(k, spec, k.load(source + j * inner * stored.bytes, stored))
            k.store((key.to(U64) << 32) | j.to(U64), keys + j * U64.bytes)
            for digit in range(DIGITS):
                bump(_counter(counters, key.to(U64), digit))
        for digit in range(DIGITS):
            some = _counter(counters, k.load(here.get(), U64) >> 32, digit)
            with k.if_((count > 0) & (k.load(some, I64) < count)):
                begun = k.variable(k.integer(0))
                with k.loop(0, _BUCKETS) as bucket:
                    place = counters + digit * _COUNTERS + bucket * I64.bytes
                    here_are = k.load(place, I64)
                    k.store(begun.get(), place)
                    begun.set(begun.get() + here_are)
                with k.loop(0, count) as j:
                    entry = k.load(here.get() + j * U64.bytes, U64)
                    place = bump(_counter(counters, entry >> 32, digit))
                    k.store(entry, there.get() + place * U64.bytes)
                before = here.get()
                here.set(there.get())
                there.set(before)
        with k.loop(0, best) as j:
            place = k.load(here.get() + j * U64.bytes, U32).to(I64)
            target = first + j * inner
            k.store(
                k.load(source + place * inner * stored.bytes, stored),
                values + target * stored.bytes,
            )
            k.store(place.to(index), numbers + target * index.bytes)


def _counter(counters: Value, key: Value, digit: int) -> Value:
    """The address of the counter of a key by one of its digits."""
    value = (key >> (8 * digit)) & (_BUCKETS - 1)
    return counters + digit * _COUNTERS + value.to(I64) * I64.bytes


def _key(k: Kernel, spec: Sorted, element: Value) -> Value:
    """The number without a sign by which an element is sorted. NaN is the largest of all."""
    x = widened(k, spec.element, element)
    highest = k.constant(1 << 31, U32)
    if x.type == F32:
        number = k.select(x.equals(0.0), k.constant(0.0, F32), x)  # there is one zero
        bits = number.bits_as(U32)
        negative = (bits & highest).equals(highest)
        key = bits ^ k.select(negative, k.constant((1 << 32) - 1, U32), highest)
        key = k.select(x.equals(x), key, k.constant((1 << 32) - 1, U32))
    elif x.type.kind == "signed":
        key = x.to(I32).bits_as(U32) ^ highest
    else:
        key = x.to(U32)
    return key ^ k.constant((1 << 32) - 1, U32) if spec.largest else key
