"""Where segments begin, by the ids of their rows: by one look at ids that are sorted, as they are
to be; by counting, where they are not.

Ids that are not sorted cost another pass over rows and segments. What is read in the order of
segments is copied then, each segment's in the order in which it is given, so that sums have the
bits that they have of sorted ids.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import I32, I64, INDEX_TYPES, U8, U16, Kernel, Type, Value, emitter
from uncork.kernels.embedding.spec_bags import Segments

#: Ids that are compared with their neighbours at once.
_NEIGHBOURS = 16
#: Whole numbers by their bytes.
_NUMBERS = {1: U8, 2: U16, 4: I32, 8: I64}


@emitter
def emit_segments(k: Kernel, spec: Segments) -> None:
    """The LLVM text of the kernel that writes where each segment begins, in the ids' own type. The
    kernel returns 1 at an id that is outside, or not sorted where that is refused.
    """
    ids, count, segments, offsets, indices, weights, placed = k.arguments
    type_ = INDEX_TYPES[spec.index]
    k.store(indices, placed)
    k.store(weights, placed + 8)
    status = k.call(_of_sorted(k, type_), [ids, count, segments, offsets])
    if spec.strict:
        k.stop_unless(status.equals(0), k.integer(1))
        return
    with k.if_(status > 0, likely=False):
        status = k.call(_of_any(k, spec, type_), k.arguments)
        k.stop_unless(status.equals(0), k.integer(1))


def _of_sorted(outer: Kernel, type_: Type) -> Kernel:
    """A function for sorted ids; 1 of others.

    Sorted ids are within bounds when the first and the last are. Neighbours are compared a vector
    at a time; only where they differ a segment ends, and those that begin there are written.
    """
    k = Kernel("sorted", ["ids", "count", "segments", "offsets"], inside=outer)
    ids, count, segments, offsets = k.arguments

    def id_at(position: Value) -> Value:
        return k.load(ids + position * type_.bytes, type_).to(I64)

    def open_segments(first: Value, end: Value, position: Value) -> None:
        with k.loop(first, end) as segment:
            k.store(position.to(type_), offsets + segment * type_.bytes)

    with k.if_else(count > 0, likely=True) as (some, none):
        with none:
            open_segments(k.integer(0), segments, k.integer(0))
        with some:
            first, last = id_at(k.integer(0)), id_at(count - 1)
            k.stop_unless(first.below(segments) & last.below(segments), k.integer(1))
            open_segments(k.integer(0), first + 1, k.integer(0))
            done = k.variable(k.integer(0))
            with k.loop(0, count - _NEIGHBOURS, _NEIGHBOURS) as position:
                here = k.load(ids + position * type_.bytes, type_, _NEIGHBOURS)
                following = k.load(ids + (position + 1) * type_.bytes, type_, _NEIGHBOURS)
                # Nothing is written for ids above the last, which is known to be within bounds.
                k.stop_unless(
                    k.all_of(here <= following) & (id_at(position + _NEIGHBOURS) <= last),
                    k.integer(1),
                )
                with k.set_bits(k.bits_of(here < following)) as bit:
                    end = position + bit
                    open_segments(id_at(end) + 1, id_at(end + 1) + 1, end + 1)
                done.set(position + _NEIGHBOURS)
            with k.loop(done.get(), count - 1) as position:
                here, following = id_at(position), id_at(position + 1)
                k.stop_unless((here <= following) & (following <= last), k.integer(1))
                open_segments(here + 1, following + 1, position + 1)
            open_segments(last + 1, segments, count)
    k.finish()
    return k


def _of_any(outer: Kernel, spec: Segments, type_: Type) -> Kernel:
    """A function for ids in any order; 1 where one is outside."""
    k = Kernel("any", list(spec.arguments), inside=outer)
    ids, count, segments, offsets, indices, weights, placed = k.arguments
    copied = placed + 16
    weighed = copied + count * spec.size

    def id_at(position: Value) -> Value:
        return k.load(ids + position * type_.bytes, type_).to(I64)

    def begin_of(segment: Value) -> Value:
        return offsets + segment * type_.bytes

    with k.loop(0, segments) as segment:
        k.store(k.constant(0, type_), begin_of(segment))
    with k.loop(0, count) as position:
        number = id_at(position)
        k.stop_unless(number.below(segments), k.integer(1))
        place = begin_of(number)
        k.store(k.load(place, type_) + 1, place)
    before = k.variable(k.constant(0, type_))
    with k.loop(0, segments) as segment:
        place = begin_of(segment)
        rows = k.load(place, type_)
        k.store(before.get(), place)
        before.set(before.get() + rows)
    with k.loop(0, count) as position:
        place = begin_of(id_at(position))
        target = k.load(place, type_)
        k.store(target + 1, place)
        for source, to, size in ((indices, copied, spec.size), (weights, weighed, spec.weight)):
            if size:
                number = k.load(source + position * size, _NUMBERS[size])
                k.store(number, to + target.to(I64) * size)
    # Each begin has become its segment's end, which is where the next one begins.
    with k.loop(1, segments) as reverse:
        segment = segments - reverse
        k.store(k.load(begin_of(segment - 1), type_), begin_of(segment))
    with k.if_(segments > 0):
        k.store(k.constant(0, type_), offsets)
    k.store(copied, placed)
    k.store(weighed, placed + 8)
    k.finish()
    return k
