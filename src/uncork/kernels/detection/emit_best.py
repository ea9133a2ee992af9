"""The places of the highest scores in falling order, equal ones as a selection by heap leaves them:
see `selected_first` in `ops/_common/proposals.py`, which this follows step by step.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I32, I64, Kernel, Value


class BestByHeap:
    """The selection of `most` of scores `[anchors, cells]`, whose order is by cells, then
    anchors, into a heap of i32. No score may be NaN.
    """

    def __init__(self, k: Kernel, anchors: Value, cells: Value, heap: Value, most: Value) -> None:
        self.k, self.heap, self.most = k, heap, most
        self.anchors, self.cells = anchors, cells
        self._sift = _sift(k)

    def select(self, scores: Value, lanes: int) -> None:
        k = self.k
        with k.if_(self.most > 0):
            self._begin(scores)
            self._scan(scores, lanes)
            with k.loop(1, self.most) as turn:
                size = self.most - turn
                last = self.place(size)
                k.store(self.place(k.integer(0)).to(I32), self.heap + size * I32.bytes)
                self._sunk(k.integer(0), size, last, scores)

    def place(self, position: Value) -> Value:
        return self.k.load(self.heap + position * I32.bytes, I32).to(I64)

    def _sunk(self, hole: Value, size: Value, place: Value, scores: Value) -> None:
        self.k.call(self._sift, [self.heap, hole, size, place, scores])

    def _begin(self, scores: Value) -> None:
        """Make a heap of the first scores."""
        k = self.k
        with k.loop(0, self.most) as i:
            cell = i // self.anchors
            place = (i - cell * self.anchors) * self.cells + cell
            k.store(place.to(I32), self.heap + i * I32.bytes)
        half = self.most // 2
        with k.loop(0, half) as turn:
            top = half - 1 - turn
            self._sunk(top, self.most, self.place(top), scores)

    def _scan(self, scores: Value, lanes: int) -> None:
        """Let each score behind the first ones take the place of the lowest, where it is higher."""
        k = self.k
        begin = self.most // self.anchors
        with k.if_(begin < self.cells):
            rest = self.most - begin * self.anchors
            with k.loop(rest, self.anchors) as anchor:
                self._consider(begin, anchor, scores)
        with k.loop(begin + 1, self.cells, lanes) as cell:
            lowest = k.splat(_score(k, scores, self.place(k.integer(0))), lanes)
            mask = k.lanes_below(self.cells - cell, lanes)
            higher = k.variable(k.integer(0))
            with k.loop(0, self.anchors) as anchor:
                address = scores + (anchor * self.cells + cell) * F32.bytes
                values = k.load(address, F32, mask.lanes, mask)
                bits = k.bits_of(values > lowest) & k.bits_of(mask)
                higher.set(higher.get() | bits)
            with k.set_bits(higher) as bit, k.loop(0, self.anchors) as anchor:
                self._consider(cell + bit, anchor, scores)

    def _consider(self, cell: Value, anchor: Value, scores: Value) -> None:
        k = self.k
        place = anchor * self.cells + cell
        lowest = _score(k, scores, self.place(k.integer(0)))
        with k.if_(_score(k, scores, place) > lowest):
            self._sunk(k.integer(0), self.most, place, scores)


def _score(k: Kernel, scores: Value, place: Value) -> Value:
    return k.load(scores + place * F32.bytes, F32)


def _sift(outer: Kernel) -> Kernel:
    """A function (heap, hole, size, place, scores) that fills the hole of a heap with `place`: the
    hole sinks to the bottom, and `place` rises from there.
    """
    k = Kernel("sift", ["heap", "hole", "size", "place", "scores"], inside=outer)
    heap, top, size, place, scores = k.arguments

    def at(position: Value) -> Value:
        return k.load(heap + position * I32.bytes, I32).to(I64)

    def put(value: Value, position: Value) -> None:
        k.store(value.to(I32), heap + position * I32.bytes)

    hole = k.variable(top)
    with k.while_(lambda: hole.get() * 2 + 2 < size):
        child = hole.get() * 2 + 2
        later, earlier = at(child), at(child - 1)
        turned = _score(k, scores, later) > _score(k, scores, earlier)
        put(k.select(turned, earlier, later), hole.get())
        hole.set(k.select(turned, child - 1, child))
    with k.if_((hole.get() * 2 + 2).equals(size)):
        put(at(size - 1), hole.get())
        hole.set(size - 1)
    own = _score(k, scores, place)
    rises = k.variable(k.integer(1))
    with k.while_(lambda: (hole.get() > top) & (rises.get() > 0)):
        above = (hole.get() - 1) // 2
        parent = at(above)
        higher = _score(k, scores, parent) > own
        with k.if_else(higher) as (then, otherwise):
            with then:
                put(parent, hole.get())
                hole.set(above)
            with otherwise:
                rises.set(k.integer(0))
    put(place, hole.get())
    k.finish()
    return k
