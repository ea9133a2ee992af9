"""The emitters of Unique: one kernel sorts places by their elements, the other walks through them,
one group of equal elements after the other.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import I32, I64, INDEX_TYPES, Kernel, Value, emitter
from uncork.kernels.codegen.functions import negated
from uncork.kernels.codegen.radix_sort import place_at, radix_sort, sort_places, sortable
from uncork.kernels.elementwise.emit import STORED, widened
from uncork.kernels.finding.spec import SortPlaces, Unique


@emitter
def emit_sort(k: Kernel, spec: SortPlaces) -> None:
    """The LLVM text of the kernel that sorts places and counts groups, which returns 1 when there
    are too many places for i32.
    """
    data, places, found, count, entries, others, counts = k.arguments
    stored, rooms = STORED[spec.element], [entries, others, counts]

    def element(place: Value) -> Value:
        return widened(k, spec.element, k.load(data + place * stored.bytes, stored))

    k.stop_unless(count < k.integer(2**31), k.integer(1))
    sort_places(k, radix_sort(k), rooms, count, lambda place: sortable(k, element(place)))
    total = k.variable(k.integer(0))
    with k.loop(0, count) as i:
        here, before = (place_at(k, entries, n) for n in (i, k.maximum(i - 1, k.integer(0))))
        k.store(here.to(I32), places + i * I32.bytes)
        begins = i.equals(0) | negated(k, element(here).equals(element(before)))
        total.set(total.get() + begins.to(I64))
    k.store(total.get(), found)


@emitter
def emit_unique(k: Kernel, spec: Unique) -> None:
    """The LLVM text of the kernel that walks through sorted places, which returns 1 when there are
    not as many groups as were counted.
    """
    data, places, elements, firsts, reverse, counts, marks, numbers, count, found = k.arguments
    stored, index, counted = (
        STORED[spec.element],
        INDEX_TYPES[spec.index],
        INDEX_TYPES[spec.counted],
    )

    def element(place: Value) -> Value:
        return k.load(data + place * stored.bytes, stored)

    def walk(begin: Callable[[Value, Value], None], each: Callable[[Value, Value], None]) -> None:
        """Emit `begin` for the first place of each group, and `each` for every place; both are told
        the number of the group.
        """
        group = k.variable(k.integer(-1))
        with k.loop(0, count) as i:
            place, before = (
                k.load(places + n * I32.bytes, I32).to(count.type)
                for n in (i, k.maximum(i - 1, k.integer(0)))
            )
            same = widened(k, spec.element, element(place)).equals(
                widened(k, spec.element, element(before))
            )
            with k.if_(i.equals(0) | negated(k, same)):
                group.set(group.get() + 1)
                k.stop_unless(group.get() < found, k.integer(1))
                begin(group.get(), place)
            each(group.get(), place)
        k.stop_unless((group.get() + 1).equals(found), k.integer(1))

    def number(group: Value) -> Value:
        """Where a group comes in the result."""
        if spec.sorted:
            return group
        place = k.load(numbers + group * I32.bytes, I32).to(count.type)
        k.stop_unless(place.below(found), k.integer(1))
        return place

    def begin(group: Value, place: Value) -> None:
        to = number(group)
        k.store(element(place), elements + to * stored.bytes)
        k.store(place.to(index), firsts + to * index.bytes)
        k.store(k.constant(0, counted), counts + to * counted.bytes)

    def each(group: Value, place: Value) -> None:
        to = number(group)
        address = counts + to * counted.bytes
        k.store(k.load(address, counted) + 1, address)
        k.store(to.to(index), reverse + place * index.bytes)

    if not spec.sorted:
        with k.loop(0, count) as i:
            k.store(k.constant(-1, I32), marks + i * I32.bytes)
        walk(
            lambda group, place: k.store(group.to(I32), marks + place * I32.bytes),
            lambda group, place: None,
        )
        following = k.variable(k.integer(0))
        with k.loop(0, count) as i:
            group = k.load(marks + i * I32.bytes, I32).to(count.type)
            with k.if_(group >= 0):
                k.store(following.get().to(I32), numbers + group * I32.bytes)
                following.set(following.get() + 1)
    walk(begin, each)
