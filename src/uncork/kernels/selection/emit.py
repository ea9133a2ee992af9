"""The emitter of the best elements of f32 rows, in order."""

from __future__ import annotations

import math

from uncork.kernels.codegen.emit import F32, INDEX_TYPES, Kernel, Type, Value, emitter
from uncork.kernels.codegen.functions import negated
from uncork.kernels.selection.spec import BestOfRows


@emitter
def emit_best(k: Kernel, spec: BestOfRows) -> None:
    """The LLVM text of the kernel that finds the `best` best of rows of `count` elements, best
    first, equal ones in their order; it returns 1 when a NaN would be among them.

    The best so far are kept in order in the outputs. Most vectors have nothing that is better than
    the last of them, nor, before there are so many, as good as the worst that can be among them.
    """
    data, values, numbers, outer, count, best = k.arguments
    index, lanes = INDEX_TYPES[spec.index], spec.lanes
    bests = k.stack_bytes(_accumulators(lanes) * lanes * 4)

    def better(a: Value, b: Value) -> Value:
        return a > b if spec.largest else a < b

    with k.loop(0, outer) as row:
        source = data + row * count * 4
        found, places = values + row * best * 4, numbers + row * best * index.bytes
        whole = count // lanes * lanes
        filled, limit = k.variable(k.integer(0)), k.variable(_worst(k, spec.largest))
        with k.if_(count >= _accumulators(lanes) * lanes * _WORTH):
            limit.set(_bound(k, spec, source, count, best, bests))

        def last(found: Value = found) -> Value:
            return k.load(found + (best - 1) * 4, F32)

        def look(
            number: Value, source: Value = source, found: Value = found, places: Value = places
        ) -> None:
            """Insert an element before all that it is better than, if it is of the best so far."""
            x = k.load(source + number * 4, F32)
            k.stop_unless(x.equals(x), k.integer(1))
            has_room = filled.get() < best
            fits = k.select(has_room, negated(k, better(limit.get(), x)), better(x, last()))
            with k.if_(fits):
                free = k.variable(k.minimum(filled.get(), best - 1))
                filled.set(free.get() + 1)

                def goes_on() -> Value:
                    before = k.maximum(free.get() - 1, k.integer(0))
                    return (free.get() > 0) & better(x, k.load(found + before * 4, F32))

                with k.while_(goes_on):
                    _move(k, F32, found, free.get())
                    _move(k, index, places, free.get())
                    free.set(free.get() - 1)
                k.store(x, found + free.get() * 4)
                k.store(number.to(index), places + free.get() * index.bytes)

        def look_at_some(first: Value, some: Value) -> None:
            """Look at the lanes of the vector at `first` that are true."""
            with k.set_bits(k.bits_of(some)) as bit:
                look(first + bit)

        at = k.variable(k.integer(0))
        with k.while_(lambda: (at.get() < whole) & (filled.get() < best)):
            x = k.load(source + at.get() * 4, F32, lanes)
            look_at_some(at.get(), negated(k, better(k.splat(limit.get(), lanes), x)))
            at.set(at.get() + lanes)
        with k.loop(at.get(), whole, lanes) as first:
            x = k.load(source + first * 4, F32, lanes)
            least = k.splat(last(), lanes)
            worse = (x <= least) if spec.largest else (x >= least)  # not so for NaN
            with k.if_(negated(k, k.all_of(worse)), likely=False):
                look_at_some(first, negated(k, worse))
        with k.loop(whole, count) as first:
            look(first)


#: A bound is found where each of the accumulators goes over so many vectors at least.
_WORTH = 4


def _accumulators(lanes: int) -> int:
    """How many vectors have the best of each lane, of as many parts of a row."""
    return max(2, 16 // lanes)


def _worst(k: Kernel, largest: bool) -> Value:
    """What no number is worse than."""
    return k.constant(-math.inf if largest else math.inf, F32)


def _bound(
    k: Kernel, spec: BestOfRows, source: Value, count: Value, best: Value, bests: Value
) -> Value:
    """What the `best` best of a row are all as good as, at the least: as many parts of the row
    have one each that is. `bests` is room for the best of each part.
    """
    lanes, parts = spec.lanes, _accumulators(spec.lanes)
    together = parts * lanes
    own = [k.variable(k.splat(_worst(k, spec.largest), lanes)) for _ in range(parts)]
    with k.loop(0, count // together * together, together) as first:
        for part, kept in enumerate(own):
            x = k.load(source + (first + part * lanes) * 4, F32, lanes)
            here = kept.get()
            kept.set(k.select(x > here if spec.largest else x < here, x, here))
    vectors = [kept.get() for kept in own]
    for part, vector in enumerate(vectors):
        k.store(vector, bests + part * lanes * 4)
    bound = k.variable(
        k.select(best > together, _worst(k, spec.largest), _worst(k, not spec.largest))
    )
    with k.loop(0, together) as number:
        one = k.load(bests + number * 4, F32)
        every = k.splat(one, lanes)
        better = [
            k.ones(k.bits_of(vector > every if spec.largest else vector < every))
            for vector in vectors
        ]
        is_among = sum(better[1:], better[0]) < best
        here = bound.get()
        worse = one < here if spec.largest else one > here
        bound.set(k.select(is_among & worse, one, here))
    return bound.get()


def _move(k: Kernel, type_: Type, base: Value, to: Value) -> None:
    k.store(k.load(base + (to - 1) * type_.bytes, type_), base + to * type_.bytes)
