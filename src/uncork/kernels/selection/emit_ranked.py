"""The emitter of the best elements of rows of any type, however many, in order.

A heap of the best so far lies in the outputs, the last of them at its root: what follows in the row
has to be better than the root. In the end the root goes to the end of the heap, again and again.
Equal elements come in their order; NaN is the largest of all.
"""

from __future__ import annotations

from msgspec import Struct

from uncork.kernels.codegen.emit import INDEX_TYPES, Kernel, Value, emitter
from uncork.kernels.codegen.functions import negated, precedes
from uncork.kernels.elementwise.emit import STORED, widened
from uncork.kernels.selection.spec import Ranked


class _Heap(Struct, frozen=True):
    """A heap of elements and of their places in the row: addresses of the first, and how many
    elements lie from one to the next.
    """

    k: Kernel
    spec: Ranked
    values: Value
    indices: Value
    step: Value

    def key(self, place: Value) -> Value:
        stored = STORED[self.spec.element]
        return widened(
            self.k,
            self.spec.element,
            self.k.load(self.values + place * self.step * stored.bytes, stored),
        )

    def value_at(self, place: Value) -> Value:
        index = INDEX_TYPES[self.spec.index]
        return self.k.load(self.indices + place * self.step * index.bytes, index)

    def copy(self, source: Value, target: Value) -> None:
        """Copy an element from one place of the heap to another."""
        stored = STORED[self.spec.element]
        self.put(
            self.k.load(self.values + source * self.step * stored.bytes, stored),
            self.value_at(source),
            target,
        )

    def put(self, value: Value, number: Value, place: Value) -> None:
        """Store an element, in its stored type, with its place in the row."""
        self.k.store(value, self.values + place * self.step * value.type.bytes)
        self.k.store(number, self.indices + place * self.step * number.type.bytes)

    def is_later(self, a: Value, b: Value, by_index: bool) -> Value:
        """Whether the element at one place of the heap comes later in the result than the one at
        another.
        """
        in_row = self.value_at(a) > self.value_at(b)
        if by_index:
            return in_row
        first, second = self.key(a), self.key(b)
        return better(self.k, self.spec, second, first) | (
            negated(self.k, better(self.k, self.spec, first, second)) & in_row
        )


def better(k: Kernel, spec: Ranked, a: Value, b: Value) -> Value:
    """Whether one element belongs before another, whatever their places."""
    return precedes(k, b, a) if spec.largest else precedes(k, a, b)


@emitter
def emit_ranked(k: Kernel, spec: Ranked) -> None:
    """The LLVM text of the kernel."""
    data, values, numbers, outer, count, inner, best = k.arguments
    stored, index = STORED[spec.element], INDEX_TYPES[spec.index]
    sinks = {by_index: _sink(k, spec, by_index) for by_index in {False, spec.by_index}}

    def sink(heap: _Heap, size: Value, place: Value, by_index: bool = False) -> None:
        k.call(sinks[by_index], [heap.values, heap.indices, heap.step, size, place])

    def build(heap: _Heap, by_index: bool) -> None:
        half = best >> 1
        with k.loop(0, half) as done:
            sink(heap, best, half - 1 - done, by_index)

    def order(heap: _Heap) -> None:
        """Sort a heap into a row: the root, which comes last, goes to the end, again and again."""
        with k.loop(1, best) as done:
            end = best - done
            last, number = (
                k.load(heap.values + end * inner * stored.bytes, stored),
                heap.value_at(end),
            )
            heap.copy(k.integer(0), end)
            heap.put(last, number, k.integer(0))
            sink(heap, end, k.integer(0), spec.by_index)

    def take(heap: _Heap, source: Value, j: Value) -> None:
        """Put element `j` of the row in place of the root, where it is better."""
        value = k.load(source + j * inner * stored.bytes, stored)
        with k.if_(
            better(k, spec, widened(k, spec.element, value), heap.key(k.integer(0))), likely=False
        ):
            heap.put(value, j.to(index), k.integer(0))
            sink(heap, best, k.integer(0))

    with k.if_(best > 0), k.loop(0, outer) as o, k.loop(0, inner) as i:
        source, first = data + (o * count * inner + i) * stored.bytes, o * best * inner + i
        heap = _Heap(k, spec, values + first * stored.bytes, numbers + first * index.bytes, inner)
        with k.loop(0, best) as j:
            heap.put(k.load(source + j * inner * stored.bytes, stored), j.to(index), j)
        build(heap, False)
        whole = best
        if spec.lanes > 1:
            whole = best + (count - best) // spec.lanes * spec.lanes
            with k.loop(best, whole, spec.lanes) as block:
                some = widened(
                    k, spec.element, k.load(source + block * stored.bytes, stored, spec.lanes)
                )
                limit = k.splat(heap.key(k.integer(0)), spec.lanes)
                found = k.bits_of(better(k, spec, some, limit)).equals(0)
                with k.if_(negated(k, found), likely=False), k.loop(block, block + spec.lanes) as j:
                    take(heap, source, j)
        with k.loop(whole, count) as j:
            take(heap, source, j)
        if spec.by_index:
            build(heap, True)
        order(heap)


def _sink(outer: Kernel, spec: Ranked, by_index: bool) -> Kernel:
    """The function that brings an element down to where those below it do not come later."""
    k = Kernel(
        "sink_by_index" if by_index else "sink",
        ["values", "numbers", "step", "size", "place"],
        inside=outer,
    )
    values, numbers, step, size, place = k.arguments
    heap = _Heap(k, spec, values, numbers, step)
    here, goes_on = k.variable(place), k.variable(k.integer(1))

    def below() -> Value:
        return here.get() * 2 + 1

    with k.while_(lambda: (goes_on.get() > 0) & (below() < size)):
        left = below()
        right = k.minimum(left + 1, size - 1)
        child = k.select(heap.is_later(right, left, by_index), right, left)
        with k.if_else(heap.is_later(child, here.get(), by_index)) as (sinks, stays):
            with sinks:
                stored = STORED[spec.element]
                value, number = (
                    k.load(heap.values + child * step * stored.bytes, stored),
                    heap.value_at(child),
                )
                heap.copy(here.get(), child)
                heap.put(value, number, here.get())
                here.set(child)
            with stays:
                goes_on.set(k.integer(0))
    k.finish()
    return k
