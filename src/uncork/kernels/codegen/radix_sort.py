"""A stable radix sort of the places of elements, as a function inside a kernel.

An entry is 64 bits: a key, whose order is that of the elements (see `sortable`), above the place of
its element. Keys of 64 bits are sorted by their lower halves, then by their upper ones. Digits that
all keys share cost nothing, so that small numbers of a wide type are sorted as fast as those of a
narrow one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import I32, I64, U32, U64, Kernel, Type, Value, Variable
from uncork.kernels.codegen.functions import negated
from uncork.kernels.kernel_spec import SORT_ENTRY

#: Bits of a key, and of a place.
_HALF = 32
_DIGITS, _DIGIT = 4, 256
#: So few entries are put in order one by one.
_FEW = 24


def entry(key: Value, place: Value) -> Value:
    """The entry of a key of 32 bits, or entries of a vector of them."""
    return (key.to(U64) << _HALF) | place.to(U64)


def place_at(k: Kernel, entries: Value, i: Value) -> Value:
    """The place that number `i` of some entries has."""
    return k.load(entries + i * SORT_ENTRY, I32).to(I64)


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


def radix_sort(outer: Kernel) -> Kernel:
    """A function (entries, others, counts, count) that sorts entries by their keys.

    `others` is room for as many, `counts` for 4 KB.
    """
    k = Kernel("radix_sort", ["entries", "others", "counts", "count"], inside=outer)
    entries, others, counts, count = k.arguments
    with k.if_(count <= _FEW):
        _insert(k, entries, count)
        k.return_(k.integer(0))
    with k.loop(0, _DIGITS * _DIGIT) as i:
        k.store(k.constant(0, I32), counts + i * I32.bytes)
    with k.loop(0, count) as i:
        own = k.load(entries + i * SORT_ENTRY, U64)
        for digit in range(_DIGITS):
            at = _count_of(counts, own, digit)
            k.store(k.load(at, I32) + 1, at)
    source, target = k.variable(entries), k.variable(others)
    first = k.load(entries, U64)
    for digit in range(_DIGITS):
        # Where all keys share a digit, they are in its order already.
        shared = k.load(_count_of(counts, first, digit), I32).to(I64).equals(count)
        with k.if_(negated(k, shared)):
            _pass(k, digit, source.get(), target.get(), counts, count)
            before = source.get()
            source.set(target.get())
            target.set(before)
    with k.if_(negated(k, source.get().equals(entries))), k.loop(0, count) as i:
        k.store(k.load(others + i * SORT_ENTRY, U64), entries + i * SORT_ENTRY)
    k.finish()
    return k


def sort_places(
    k: Kernel, sort: Kernel, rooms: Sequence[Value], count: Value, key: Callable[[Value], Value]
) -> None:
    """Sort the places below `count` by their keys, of 32 or 64 bits; `rooms` are those of `sort`,
    the entries first.
    """
    entries = rooms[0]

    def fill(place_of: Callable[[Value], Value], upper: bool) -> bool:
        """Make the entries of places in some order; whether they have half a key."""
        with k.loop(0, count) as i:
            place = place_of(i)
            own = key(place)
            is_half = own.type.bits > _HALF
            own = own >> _HALF if is_half and upper else own
            k.store(entry(own, place), entries + i * SORT_ENTRY)
        k.call(sort, [*rooms, count])
        return is_half

    if fill(lambda i: i, upper=False):
        fill(lambda i: place_at(k, entries, i), upper=True)


def _insert(k: Kernel, entries: Value, count: Value) -> None:
    """Sort entries by insertion."""
    with k.loop(1, count) as i:
        own, at = k.load(entries + i * SORT_ENTRY, U64), k.variable(i)
        last = own | ((1 << _HALF) - 1)

        def before(at: Variable = at) -> Value:
            place = k.maximum(at.get() - 1, k.integer(0))
            return k.load(entries + place * SORT_ENTRY, U64)

        def moves(last: Value = last, at: Variable = at) -> Value:
            return (at.get() > 0) & (before(at) > last)

        with k.while_(moves):
            k.store(before(), entries + at.get() * SORT_ENTRY)
            at.set(at.get() - 1)
        k.store(own, entries + at.get() * SORT_ENTRY)


def _count_of(counts: Value, own: Value, digit: int) -> Value:
    """The address of the count of a digit of an entry's key."""
    place = ((own >> (_HALF + 8 * digit)) & (_DIGIT - 1)).to(I64)
    return counts + (place + digit * _DIGIT) * I32.bytes


def _pass(k: Kernel, digit: int, source: Value, target: Value, counts: Value, count: Value) -> None:
    """Bring entries into the order of one digit."""
    total = k.variable(k.constant(0, I32))
    with k.loop(digit * _DIGIT, (digit + 1) * _DIGIT) as i:
        many = k.load(counts + i * I32.bytes, I32)
        k.store(total.get(), counts + i * I32.bytes)
        total.set(total.get() + many)
    with k.loop(0, count) as i:
        own = k.load(source + i * SORT_ENTRY, U64)
        at = _count_of(counts, own, digit)
        place = k.load(at, I32)
        k.store(place + 1, at)
        k.store(own, target + place.to(I64) * SORT_ENTRY)
