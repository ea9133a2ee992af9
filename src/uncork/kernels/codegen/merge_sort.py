"""A stable merge sort of numbers that takes along where each was, as a function inside a kernel."""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import I32, Kernel, Type, Value

#: Runs of so many numbers are sorted by insertion.
_RUN = 8
Order = Callable[[Kernel, Value, Value], Value]


def merge_sort(outer: Kernel, key: Type, before: Order) -> Kernel:
    """A function (keys, places, other keys, other places, count) that sorts the first two; the others are room of the same size.

    Places are i32. `before` says of two keys whether the first comes before the second.
    """
    merge = _merge(outer, key, before)
    k = Kernel("merge_sort", ["keys", "places", "other_keys", "other_places", "count"], inside=outer)
    keys, places, other_keys, other_places, count = k.arguments
    with k.loop(0, count, _RUN) as first:
        _insertion(k, key, before, keys, places, first, k.minimum(first + _RUN, count))
    width, turned = k.variable(k.integer(_RUN)), k.variable(k.integer(0))
    with k.during(lambda: width.get() < count):
        flipped = turned.get() > 0
        source = [k.select(flipped, b, a) for a, b in ((keys, other_keys), (places, other_places))]
        target = [k.select(flipped, a, b) for a, b in ((keys, other_keys), (places, other_places))]
        step, first_run = width.get() * 2, k.variable(k.integer(0))
        with k.during(lambda: first_run.get() < count):
            low = first_run.get()
            ends = [k.minimum(low + width.get(), count), k.minimum(low + step, count)]
            k.call(merge, [*source, *target, low, *ends])
            first_run.set(low + step)
        width.set(step)
        turned.set(k.integer(1) - turned.get())
    with k.when(turned.get() > 0), k.loop(0, count) as i:
        k.store(k.load(other_keys + i * key.bytes, key), keys + i * key.bytes)
        k.store(k.load(other_places + i * I32.bytes, I32), places + i * I32.bytes)
    k.finish()
    return k


def _insertion(k: Kernel, key: Type, before: Order, keys: Value, places: Value, first: Value, end: Value) -> None:
    with k.loop(first + 1, end) as i:
        own, place = k.load(keys + i * key.bytes, key), k.load(places + i * I32.bytes, I32)
        free = k.variable(i)

        def goes_on() -> Value:
            last = k.maximum(free.get() - 1, first)
            return (free.get() > first) & before(k, own, k.load(keys + last * key.bytes, key))

        with k.during(goes_on):
            last = free.get() - 1
            k.store(k.load(keys + last * key.bytes, key), keys + free.get() * key.bytes)
            k.store(k.load(places + last * I32.bytes, I32), places + free.get() * I32.bytes)
            free.set(last)
        k.store(own, keys + free.get() * key.bytes)
        k.store(place, places + free.get() * I32.bytes)


def _merge(outer: Kernel, key: Type, before: Order) -> Kernel:
    """A function that merges the runs low to middle and middle to high."""
    arguments = ["keys", "places", "to_keys", "to_places", "low", "middle", "high"]
    k = Kernel("merge", arguments, inside=outer)
    keys, places, to_keys, to_places, low, middle, high = k.arguments
    left, right = k.variable(low), k.variable(middle)
    with k.loop(low, high) as i:
        a, b = left.get(), right.get()
        first = k.load(keys + k.minimum(a, middle - 1) * key.bytes, key)
        second = k.load(keys + k.minimum(b, high - 1) * key.bytes, key)
        takes_right = (a >= middle) | ((b < high) & before(k, second, first))
        place = k.select(takes_right, b, a)
        k.store(k.select(takes_right, second, first), to_keys + i * key.bytes)
        k.store(k.load(places + place * I32.bytes, I32), to_places + i * I32.bytes)
        taken = takes_right.to(right.get().type)
        right.set(b + taken)
        left.set(a + 1 - taken)
    k.finish()
    return k
