"""Gather along an axis: `output[b, o, j] = data[b, o, index[b, j]]`, each item a run of `item`
bytes.

Two ways. "rows": the item is looked up and copied, its size a constant of the kernel unless it is
long, with the items to come prefetched. "columns": many outer rows share their indices and items
are small, so the indices are brought to positions once and reused. An index outside the axis gives
zeros; a strict kernel returns 1 instead and the reference words the refusal.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from uncork.kernels.codegen.copies import COPIED_AT_ONCE, copy_long, copy_open
from uncork.kernels.codegen.emit import (
    F32,
    I8,
    I32,
    I64,
    INDEX_TYPES,
    U32,
    Kernel,
    Value,
    Variable,
    emitter,
    pieces,
)
from uncork.kernels.kernel_spec import OPEN
from uncork.kernels.movement.spec import LONG, LONG_BYTES, Gather
from uncork.kernels.runtime.target import LINE

#: Items ahead that are prefetched, for items of up to so many bytes.
_AHEAD = {1024: 16, 2**62: 4}
#: The same for items of a length that only the call knows.
_AHEAD_OPEN = 16
#: Items of up to so many bytes are looked up without prefetching: the machine has enough of them
#: under way.
_NEAR = 16
#: Items of up to so many bytes share a check of their indices, so many together.
_SHARED_CHECK, _UNROLL = 64, 32
#: Indices so many bytes on are asked for where items are small: the machine's own prefetcher begins
#: anew on every page.
_INDICES_AHEAD = 4096
#: Results of up to so many bytes are gathered without prefetching from row to row: the caches near
#: the processor may hold all of it, and the processor sees what comes next by itself.
_CACHED = 1 << 18
#: Data of up to so many bytes are taken to be near for items of a length that only the call knows:
#: asking takes a fourth of their time there.
_NEAR_DATA = 1 << 18
#: At most this much of an item is prefetched: the machine's own prefetcher follows a long one, and
#: items that a cache holds take up to a seventh longer where all of their lines are asked for.
_PREFETCHED = 256


@emitter
def emit_gather(k: Kernel, spec: Gather) -> None:
    """The LLVM text of a gather kernel."""
    if spec.item == OPEN:
        return _emit_open_items(k, spec)
    data, indices, output, batches, outer, size, count, positions = k.arguments
    index_bytes = INDEX_TYPES[spec.index].bytes

    def position(address: Value) -> Value:
        """An index as a position on the axis; outside 0 .. size - 1 when it is out of range."""
        return k.index_at(address, INDEX_TYPES[spec.index], size, spec.wraps)

    item = positions if spec.item == LONG else spec.item
    gather = _Gather(k, spec, item, size, count, position, k.machine.lanes // 2)
    following = None
    if spec.layout == "rows" and gather.item_bytes > _NEAR:
        following = _Following(gather, batches, outer)
    with k.loop(0, batches) as batch:
        own = indices + batch * count * index_bytes
        if spec.layout == "columns":
            gather.fill_positions(own, positions)
        with k.loop(0, outer) as row:
            slab = batch * outer + row
            source, target = data + slab * size * item, output + slab * count * item
            if spec.layout == "columns":
                gather.by_positions(source, target, positions)
            else:
                gather.by_indices(_Lookup(source, target, own), following, slab)
    if spec.streaming:
        k.fence()


def _emit_open_items(k: Kernel, spec: Gather) -> None:
    """The LLVM text of a gather kernel for items of a length that only the call knows. Where they
    may be in memory the first of a row are prefetched before it, and others by those before them.
    """
    data, indices, output, batches, outer, size, count, item = k.arguments
    type_ = INDEX_TYPES[spec.index]
    far = (item > _NEAR) & (batches * outer * size * item > _NEAR_DATA)
    #: None are asked for where data are near.
    ahead = k.select(far, k.integer(_AHEAD_OPEN), count)
    first = k.select(far, k.minimum(count, ahead), k.integer(0))
    asked = k.minimum(item, k.integer(_PREFETCHED))
    with k.loop(0, batches) as batch, k.loop(0, outer) as row:
        slab = batch * outer + row

        def index_at(j: Value) -> Value:
            place = indices + (batch * count + j) * type_.bytes
            return k.index_at(place, type_, size, spec.wraps)

        def prefetch(j: Value) -> None:
            begin = data + (slab * size + index_at(j)) * item
            with k.loop(0, asked, 64) as byte:
                k.prefetch(begin + byte)
            k.prefetch(begin + (asked - 1))

        with k.loop(0, first) as j:
            prefetch(j)
        with k.loop(0, count) as j:
            with k.if_(j + ahead < count):
                prefetch(j + ahead)
            index = index_at(j)
            if spec.strict:
                k.stop_unless(index.below(size), k.integer(1))
            target = output + (slab * count + j) * item
            k.either(
                index.below(size),
                lambda: copy(k, data + (slab * size + index) * item, target, item),
                lambda: copy(k, None, target, item),
                likely=True,
            )


class _Lookup(Struct, frozen=True):
    """Addresses of the items of an outer row, of where they go, and of the indices."""

    source: Value
    target: Value
    indices: Value


@dataclass
class _Gather:
    """The pieces of a gather kernel."""

    k: Kernel
    spec: Gather
    item: int | Value
    size: Value
    count: Value
    position: Callable[[Value], Value]
    #: Whole numbers of 64 bits in a vector.
    lanes: int
    wrong: Variable = field(init=False)

    @property
    def item_bytes(self) -> int:
        """The bytes of an item, at least."""
        return LONG_BYTES if self.spec.item == LONG else self.spec.item

    @property
    def ahead(self) -> int:
        """How many items ahead are prefetched."""
        return next(ahead for size, ahead in _AHEAD.items() if self.item_bytes <= size)

    def by_indices(self, lookup: _Lookup, following: _Following | None, row: Value) -> None:
        """Gather one outer row straight by the indices. Items are prefetched by those before them,
        the last ones prefetch those of a row that is `following`, and what none comes before is
        prefetched first: a few items of 1 KB out of memory take half the time so.
        """
        k, item = self.k, self.item_bytes
        done = k.variable(k.integer(0))
        unroll = _UNROLL if item <= _SHARED_CHECK else 1

        def part(stop: Value, step: int, prefetched: Callable[[Value], None] | None) -> None:
            with k.loop(done.get(), stop, step) as j:
                for u in range(step if prefetched else 0):
                    prefetched(j + u)  # type: ignore[misc]
                if step > 1:
                    self._prefetch_indices(lookup, j, step)
                self._several(lookup, j, step)
                done.set(j + step)

        def rest(prefetched: Callable[[Value], None] | None) -> None:
            for step in dict.fromkeys((unroll, 1)):
                part(self.count - (step - 1), step, prefetched)

        if following is None:
            rest(None)
            return
        ahead = self.ahead
        # Items of a line and more are asked for by their first line: that takes a few ns where data
        # are near, and half the time of a few items elsewhere. The processor sees smaller ones.
        if item >= LINE:
            first = k.select(row < following.on, k.integer(ahead), k.integer(0))
            with k.loop(0, k.minimum(self.count, first)) as j:
                k.prefetch(lookup.source + self._position(lookup, j) * self.item)
        part(self.count - (ahead + unroll - 1), unroll, lambda j: self._prefetch(lookup, j + ahead))
        before = done.get()
        with k.if_else(row < following.until) as (more, last):
            with more:
                later = following.lookup(lookup)
                rest(lambda j: self._prefetch(later, j - before))
            with last:
                rest(None)

    def _position(self, lookup: _Lookup, j: Value) -> Value:
        return self.position(lookup.indices + j * INDEX_TYPES[self.spec.index].bytes)

    def _prefetch(self, lookup: _Lookup, j: Value) -> None:
        """Prefetch the cache lines of an item that will be copied soon. Data begin anywhere, so
        there may be one more line at the end.
        """
        size = _PREFETCHED if self.spec.item == LONG else min(self.spec.item, _PREFETCHED)
        item = lookup.source + self._position(lookup, j) * self.item
        for byte in (*range(0, size, 64), size - 1):
            self.k.prefetch(item + byte)

    def _prefetch_indices(self, lookup: _Lookup, j: Value, count: int) -> None:
        size = INDEX_TYPES[self.spec.index].bytes
        for byte in range(0, count * size, 64):
            self.k.prefetch(lookup.indices + j * size + (_INDICES_AHEAD + byte))

    def _several(self, lookup: _Lookup, j: Value, count: int) -> None:
        """Copy consecutive items, with one branch when the indices of all of them are on the
        axis.
        """
        k, streaming = self.k, self.spec.streaming and count > 1
        if count == 1:
            index = self._position(lookup, j)
            inside = index.below(self.size)
        else:  # negative ones are left to the other branch
            inside = self._all_inside(lookup, j, count)
        with k.if_else(inside, likely=True) as (there, not_all):
            with there:
                if streaming:  # the memory is what takes time
                    with k.loop(j, j + count) as i:
                        self._move(lookup, self._position(lookup, i), i)
                elif count == 1:
                    self._move(lookup, index, j)
                else:
                    for u in range(count):  # read one by one: registers do not hold all of them
                        self._move(lookup, self._index(lookup, j + u), j + u)
            with not_all:
                if count == 1:
                    self._absent(lookup, j)
                else:
                    self._each(lookup, j, count)

    def _index(self, lookup: _Lookup, j: Value, lanes: int = 1) -> Value:
        """Consecutive indices as they are."""
        type_ = INDEX_TYPES[self.spec.index]
        return self.k.load(lookup.indices + j * type_.bytes, type_, lanes).to(I64)

    def _all_inside(self, lookup: _Lookup, j: Value, count: int) -> Value:
        """Whether so many indices are positions on the axis, all of them."""
        k, lanes = self.k, self.lanes
        parts = [
            self._index(lookup, j + first, lanes).below(k.splat(self.size, lanes))
            for first in range(0, count, lanes)
        ]
        return k.all_of(functools.reduce(operator.and_, parts))

    def _each(self, lookup: _Lookup, j: Value, count: int) -> None:
        """Copy consecutive items, of which some may be absent."""
        k = self.k
        with k.loop(j, j + count) as i:
            index = self._position(lookup, i)
            k.either(
                index.below(self.size),
                lambda: self._move(lookup, index, i),
                lambda: self._absent(lookup, i),
            )

    def _move(self, lookup: _Lookup, index: Value, j: Value) -> None:
        """Copy the item of an index to place `j`."""
        source, target = lookup.source + index * self.item, lookup.target + j * self.item
        if self.spec.streaming:
            stream(self.k, source, target, self.item)
        elif isinstance(self.item, int):
            copy(self.k, source, target, self.item)
        else:
            copy_long(self.k, source, target, self.item)

    def _absent(self, lookup: _Lookup, j: Value) -> None:
        """Write zeros for an index that is not on the axis, or end the call in a strict kernel."""
        k = self.k
        if self.spec.strict:
            k.return_(k.integer(1))
            return
        size = self.item if isinstance(self.item, Value) else k.integer(self.item)
        copy(k, None, lookup.target + j * self.item, size)

    def fill_positions(self, indices: Value, positions: Value) -> None:
        """Store the indices of a batch as 32-bit positions, -1 for what is outside: such an axis
        has fewer than 2**31 items.
        """
        k = self.k
        self.wrong = k.variable(k.integer(0))
        with k.loop(0, self.count) as j:
            index = self.position(indices + j * INDEX_TYPES[self.spec.index].bytes)
            inside = index.below(self.size)
            if self.spec.strict:
                k.stop_unless(inside, k.integer(1))
            k.store(k.select(inside, index, k.integer(-1)).to(I32), positions + j * 4)
            self.wrong.set(k.select(inside, self.wrong.get(), k.integer(1)))

    def by_positions(self, source: Value, target: Value, positions: Value) -> None:
        """Gather one outer row by positions, which are not looked at one by one when all are
        inside.
        """
        k, item = self.k, self.spec.item

        def one(j: Value) -> None:
            position = k.load(positions + j * 4, U32).to(I64)
            copy(k, source + position * item, target + j * item, item)

        with k.if_else(self.wrong.get().equals(0), likely=True) as (clean, mixed):
            with clean:
                for j in k.unrolled(self.count, 4):
                    one(j)
            with mixed, k.loop(0, self.count) as j:
                known = k.load(positions + j * 4, I32).to(I64) >= 0
                k.either(known, lambda: one(j), lambda: copy(k, None, target + j * item, item))


class _Following:
    """The row whose items are prefetched at the end of a row, where there is much to gather.

    It is several on where rows are short. It has the same indices, or where each row has its own,
    those that are so many rows on. (Where several batches have several rows each, the last ones
    prefetch by the indices of their own batch.)
    """

    def __init__(self, gather: _Gather, batches: Value, outer: Value) -> None:
        self.k, self.gather, rows = gather.k, gather, batches * outer
        k = self.k
        on = k.variable(rows)  # there is none
        with k.if_(rows * gather.count * gather.item > _CACHED):
            on.set(k.maximum(k.integer(gather.ahead) // gather.count, k.integer(1)))
        #: Rows before this one have it; those before `on` follow none.
        self.until = rows - on.get()
        self.on, self.each = on.get(), outer.equals(1)

    def lookup(self, own: _Lookup) -> _Lookup:
        """Where its items and indices lie, by those of a row."""
        gather = self.gather
        bytes_on = self.on * gather.count * INDEX_TYPES[gather.spec.index].bytes
        return _Lookup(
            own.source + self.on * gather.size * gather.item,
            own.target,
            own.indices + self.k.select(self.each, bytes_on, self.k.integer(0)),
        )


def stream(k: Kernel, source: Value, target: Value, size: int | Value) -> None:
    """Copy `size` bytes, a multiple of 64, by stores that bypass the caches. Lines that the item
    shares with its neighbours are stored as usual.
    """
    shift = -target & 63

    def line(offset: Value) -> None:
        k.store(k.load(source + offset, F32, 16), target + offset, align=64, streaming=True)

    def parts(first: Value, last: Value) -> None:
        """Copy by usual stores of 16 bytes: arrays begin at multiples of 16 bytes or are copied by
        bytes.
        """
        with k.loop(first, last - 15, 16) as offset:
            k.store(k.load(source + offset, F32, 4), target + offset)
        with k.loop(last - ((last - first) & 15), last) as offset:
            k.store(k.load(source + offset, I8), target + offset)

    parts(k.integer(0), shift)
    before_last = size - 64
    for offset in k.unrolled(before_last, COPIED_AT_ONCE // 64, 64):
        line(shift + offset)
    last = shift + before_last
    k.either(
        shift.equals(0),
        lambda: line(last),
        lambda: parts(last, size if isinstance(size, Value) else k.integer(size)),
        likely=True,
    )


def copy(k: Kernel, source: Value | None, target: Value, size: int | Value) -> None:
    """`size` bytes from `source` (None: zeros) to `target`."""
    if isinstance(size, Value):
        copy_open(k, source, target, size)
        return

    def straight(offset: Value | int, count: int) -> None:
        words, rest = divmod(count, 4)
        for first, lanes in pieces(words, 16):
            value = (
                k.constant(0.0, F32, lanes)
                if source is None
                else k.load(source + offset + first * 4, F32, lanes)
            )
            k.store(value, target + offset + first * 4)
        for first, lanes in pieces(rest, 4):
            byte = (
                k.constant(0, I8, lanes)
                if source is None
                else k.load(source + offset + (words * 4 + first), I8, lanes)
            )
            k.store(byte, target + offset + (words * 4 + first))

    if size < LONG_BYTES:
        straight(0, size)
    else:
        copy_long(k, source, target, size)
