"""A stable radix sort of keys, and of the places of their elements with them, as a function inside
a kernel.

Keys are unsigned numbers of 32 or 64 bits whose order is that of the elements: see `sortable`.
Digits that all keys share cost nothing, so that small numbers of a wide type are sorted as fast as
those of a narrow one.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import I32, I64, U32, U64, Kernel, Type, Value, Variable
from uncork.kernels.codegen.functions import negated

_DIGIT = 256
#: So few keys are put in order one by one.
_FEW = 24


def key_type(held: Type) -> Type:
    """The type of the keys of elements that are computed with in this type."""
    return U64 if held.bits == 64 else U32


def sortable(k: Kernel, value: Value, descending: bool = False) -> Value:
    """The sort keys of one element or a vector: NaN comes after all numbers, -0.0 equals 0.0.
    `descending` keys are in the opposite order.
    """
    lanes = value.lanes
    bits = 64 if value.type.bits == 64 else 32
    wide = I64 if bits == 64 else I32
    lowest = k.constant(-(2 ** (bits - 1)), wide, lanes)
    if value.type.kind == "float":
        number = (value + 0.0).bits_as(wide)
        key = number ^ ((number >> (bits - 1)) | lowest)
        key = k.select(value.equals(value), key, k.constant(-1, wide, lanes))
    elif value.type.kind == "signed":
        key = value.to(wide) ^ lowest
    else:
        key = value.to(key_type(value.type)).to(wide)
    key = key ^ -1 if descending else key
    return key.to(key_type(value.type))


def radix_sort(outer: Kernel, key: Type) -> Kernel:
    """A function (keys, places, other keys, other places, counts, count) that sorts the first two.

    Places are i32. The others are room: as much again, and `counts_bytes`.
    """
    k = Kernel(
        "radix_sort",
        ["keys", "places", "other_keys", "other_places", "counts", "count"],
        inside=outer,
    )
    keys, places, other_keys, other_places, counts, count = k.arguments
    with k.if_(count <= _FEW):
        _insert(k, key, keys, places, count)
        k.return_(k.integer(0))
    digits = key.bytes
    with k.loop(0, digits * _DIGIT) as i:
        k.store(k.constant(0, I32), counts + i * I32.bytes)
    with k.loop(0, count) as i:
        number = k.load(keys + i * key.bytes, key)
        for digit in range(digits):
            at = _count_of(k, counts, number, digit)
            k.store(k.load(at, I32) + 1, at)
    turned = k.variable(k.integer(0))
    with k.if_(count > 0):
        first = k.load(keys, key)
        for digit in range(digits):
            # Where all keys share a digit, they are in its order already.
            shared = k.load(_count_of(k, counts, first, digit), I32).to(I64).equals(count)
            with k.if_(negated(k, shared)):
                flipped = turned.get() > 0
                pairs = ((keys, other_keys), (places, other_places))
                source = [k.select(flipped, b, a) for a, b in pairs]
                target = [k.select(flipped, a, b) for a, b in pairs]
                _pass(k, key, digit, source, target, counts, count)
                turned.set(k.integer(1) - turned.get())
    with k.if_(turned.get() > 0), k.loop(0, count) as i:
        k.store(k.load(other_keys + i * key.bytes, key), keys + i * key.bytes)
        k.store(k.load(other_places + i * I32.bytes, I32), places + i * I32.bytes)
    k.finish()
    return k


def _insert(k: Kernel, key: Type, keys: Value, places: Value, count: Value) -> None:
    """Sort keys and their places by insertion."""
    with k.loop(1, count) as i:
        own, place = k.load(keys + i * key.bytes, key), k.load(places + i * I32.bytes, I32)
        at = k.variable(i)

        def moves(own: Value = own, at: Variable = at) -> Value:
            before = k.maximum(at.get() - 1, k.integer(0))
            return (at.get() > 0) & (k.load(keys + before * key.bytes, key) > own)

        with k.while_(moves):
            before = at.get() - 1
            k.store(k.load(keys + before * key.bytes, key), keys + at.get() * key.bytes)
            k.store(k.load(places + before * I32.bytes, I32), places + at.get() * I32.bytes)
            at.set(before)
        k.store(own, keys + at.get() * key.bytes)
        k.store(place, places + at.get() * I32.bytes)


def _count_of(k: Kernel, counts: Value, number: Value, digit: int) -> Value:
    """The address of the count of a key's digit."""
    place = ((number >> (8 * digit)) & (_DIGIT - 1)).to(I64)
    return counts + (place + digit * _DIGIT) * I32.bytes


def _pass(
    k: Kernel,
    key: Type,
    digit: int,
    source: list[Value],
    target: list[Value],
    counts: Value,
    count: Value,
) -> None:
    """Bring keys into the order of one digit."""
    total = k.variable(k.constant(0, I32))
    with k.loop(digit * _DIGIT, (digit + 1) * _DIGIT) as i:
        many = k.load(counts + i * I32.bytes, I32)
        k.store(total.get(), counts + i * I32.bytes)
        total.set(total.get() + many)
    with k.loop(0, count) as i:
        number = k.load(source[0] + i * key.bytes, key)
        at = _count_of(k, counts, number, digit)
        place = k.load(at, I32)
        k.store(place + 1, at)
        k.store(number, target[0] + place.to(I64) * key.bytes)
        k.store(k.load(source[1] + i * I32.bytes, I32), target[1] + place.to(I64) * I32.bytes)
