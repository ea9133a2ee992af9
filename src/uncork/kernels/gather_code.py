"""Gather along an axis: `output[b, o, j] = data[b, o, index[b, j]]`, each item a run of `item` bytes.

Two ways. "rows": the item is looked up and copied, its size a constant of the kernel, with the items to come prefetched.
"columns": many outer rows share their indices and items are small, so the indices are brought to positions once and reused.
An index outside the axis gives zeros; a strict kernel returns 1 instead and the reference words the refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from uncork.kernels.emit import F32, I8, I32, I64, INDEX_TYPES, U32, Kernel, Value, Variable, pieces
from uncork.kernels.gather import Gather

#: Items up to this size are copied by straight code; longer ones in a loop of blocks of this size.
_BLOCK = 1024
_AHEAD = 16
#: At most this much of an item is prefetched: the machine's own prefetcher follows a long one.
_PREFETCHED = 1024


def emit_gather(spec: Gather) -> str:
    """The LLVM text of a gather kernel."""
    k = Kernel(spec.name, spec.arguments)
    data, indices, output, batches, outer, size, count, positions = k.arguments
    index_bytes = INDEX_TYPES[spec.index].bytes

    def place(address: Value) -> Value:
        """An index as a position on the axis; outside 0 .. size - 1 when it is out of range."""
        raw = k.load(address, INDEX_TYPES[spec.index]).to(I64)
        if spec.wraps and spec.index.startswith("i"):
            raw = raw + ((raw >> 63) & size)
        return raw

    gather = _Gather(k, spec, size, count, place)
    with k.loop(0, batches) as batch:
        own = indices + batch * count * index_bytes
        if spec.way == "columns":
            gather.fill_positions(own, positions)
        with k.loop(0, outer) as row:
            slab = batch * outer + row
            source, target = data + slab * size * spec.item, output + slab * count * spec.item
            if spec.way == "columns":
                gather.by_positions(source, target, positions)
            else:
                gather.by_indices(source, target, own)
    k.finish()
    return k.text()


@dataclass
class _Gather:
    """The pieces of a gather kernel."""

    k: Kernel
    spec: Gather
    size: Value
    count: Value
    place: Callable[[Value], Value]
    wrong: Variable = field(init=False)

    def by_indices(self, source: Value, target: Value, indices: Value) -> None:
        """One outer row, straight from the indices."""
        k, spec = self.k, self.spec
        index_bytes = INDEX_TYPES[spec.index].bytes
        last = self.count - 1
        with k.loop(0, self.count) as j:
            index = self.place(indices + j * index_bytes)
            ahead = self.place(indices + k.minimum(j + _AHEAD, last) * index_bytes)
            for line in range(0, min(spec.item, _PREFETCHED), 64):
                k.prefetch(source + ahead * spec.item + line)
            with k.either(index.below(self.size), likely=True) as (inside, outside):
                with inside:
                    copy(k, source + index * spec.item, target + j * spec.item, spec.item, spec.streaming)
                with outside:
                    if spec.strict:
                        k.stop_unless(index.below(self.size), k.integer(1))
                    copy(k, None, target + j * spec.item, spec.item, spec.streaming)

    def fill_positions(self, indices: Value, positions: Value) -> None:
        """The indices of a batch as 32-bit positions, -1 for what is outside: such an axis has fewer than 2**31 items."""
        k = self.k
        self.wrong = k.variable(k.integer(0))
        with k.loop(0, self.count) as j:
            index = self.place(indices + j * INDEX_TYPES[self.spec.index].bytes)
            inside = index.below(self.size)
            if self.spec.strict:
                k.stop_unless(inside, k.integer(1))
            k.store(k.select(inside, index, k.integer(-1)).to(I32), positions + j * 4)
            self.wrong.set(k.select(inside, self.wrong.get(), k.integer(1)))

    def by_positions(self, source: Value, target: Value, positions: Value) -> None:
        """One outer row, by positions; without a look at each one when all are inside."""
        k, item = self.k, self.spec.item

        def one(j: Value) -> None:
            position = k.load(positions + j * 4, U32).to(I64)
            copy(k, source + position * item, target + j * item, item)

        with k.either(self.wrong.get().equals(0), likely=True) as (clean, mixed):
            with clean:
                unrolled = 4
                whole = self.count & -unrolled
                with k.loop(0, whole, unrolled) as j:
                    for u in range(unrolled):
                        one(j + u)
                with k.loop(whole, self.count) as j:
                    one(j)
            with mixed, k.loop(0, self.count) as j:
                known = k.load(positions + j * 4, I32).to(I64) >= 0
                with k.either(known) as (inside, outside):
                    with inside:
                        one(j)
                    with outside:
                        copy(k, None, target + j * item, item)


def copy(k: Kernel, source: Value | None, target: Value, size: int, streaming: bool = False) -> None:
    """`size` bytes from `source` (None: zeros) to `target`."""

    def straight(offset: Value | int, count: int) -> None:
        words, rest = divmod(count, 4)
        for first, lanes in pieces(words, 16):
            value = k.number(0.0, F32, lanes) if source is None else k.load(source + offset + first * 4, F32, lanes)
            aligned = streaming and lanes == 16
            k.store(value, target + offset + first * 4, align=64 if aligned else 1, streaming=aligned)
        for first, lanes in pieces(rest, 4):
            byte = k.number(0, I8, lanes) if source is None else k.load(source + offset + (words * 4 + first), I8, lanes)
            k.store(byte, target + offset + (words * 4 + first))

    whole, rest = divmod(size, _BLOCK)
    if whole > 1:
        with k.loop(0, whole) as block:
            straight(block * _BLOCK, _BLOCK)
        if rest:
            straight(whole * _BLOCK, rest)
    else:
        straight(0, size)
