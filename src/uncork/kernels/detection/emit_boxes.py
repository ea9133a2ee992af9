"""Boxes in working memory, and the greedy selection of those that overlap no better one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from uncork.kernels.codegen.emit import F32, I32, U32, Kernel, Value, Variable
from uncork.kernels.codegen.functions import larger, negated, smaller
from uncork.kernels.codegen.radix_sort import entry, place_at, sortable
from uncork.kernels.detection.spec import NUMBERS
from uncork.kernels.kernel_spec import SORT_ENTRY, SORTS


class Boxes(Struct, frozen=True):
    """Boxes in working memory as five rows of f32: two low sides, two high sides, and the area."""

    k: Kernel
    base: Value
    count: Value

    def value_at(self, row: int, place: Value, lanes: int = 1) -> Value:
        return self.k.load(self.base + (self.count * row + place) * F32.bytes, F32, lanes)

    def at(self, place: Value, lanes: int = 1, numbers: int = NUMBERS) -> list[Value]:
        """The numbers of a box, or of as many boxes as there are lanes."""
        return [self.value_at(row, place, lanes) for row in range(numbers)]

    def put(self, numbers: Sequence[Value], place: Value) -> None:
        for row, number in enumerate(numbers):
            self.k.store(number, self.base + (self.count * row + place) * F32.bytes)


def sides_at(k: Kernel, address: Value) -> list[Value]:
    """The four numbers of a box that lie side by side at an address."""
    return [k.load(address + n * F32.bytes, F32) for n in range(4)]


def put_row(k: Kernel, base: Value, number: Value, values: Sequence[Value]) -> None:
    """Store the numbers of a row, by its number, of rows of as many."""
    for position, value in enumerate(values):
        size = value.type.bytes
        k.store(value, base + (number * len(values) + position) * size)


def overlap_of(
    k: Kernel,
    other: Sequence[Value],
    own: Sequence[Value],
    pixel: bool = False,
    touching: bool = False,
) -> Value:
    """The intersection over union of boxes, vectors of them; 0 where one has no area. `pixel`: both
    ends of a side belong to the box; `touching`: boxes without a common point have 0 all the same.
    """
    zero, one = (k.constant(number, F32, own[0].lanes) for number in (0.0, 1.0))
    shared = [
        smaller(k, other[axis + 2], own[axis + 2]) - larger(k, other[axis], own[axis])
        for axis in (0, 1)
    ]
    sides = [side + 1.0 for side in shared] if pixel else shared
    common = larger(k, sides[0], zero) * larger(k, sides[1], zero)
    has_area = (other[4] > 0.0) & (own[4] > 0.0)
    share = common / k.select(has_area, other[4] + own[4] - common, one)
    share = k.select(has_area, share, zero)
    return k.select((shared[0] < 0.0) | (shared[1] < 0.0), zero, share) if touching else share


class Chosen(Struct, frozen=True):
    """Boxes that are taken one after the other, none of which overlaps another by more than `most`;
    `pixel` and `touching` as `overlap_of` has them.
    """

    k: Kernel
    lanes: int
    boxes: Boxes
    most: Value
    pixel: bool = False
    touching: bool = False

    def take(
        self,
        place_of: Callable[[Value], Value],
        candidates: Value,
        limit: Value,
        box_at: Callable[[Value], Sequence[Value]],
        record: Callable[[Value, Sequence[Value], Value], None],
    ) -> Variable:
        """Take at most `limit` of the candidates, the best of which comes first: `record(place,
        numbers, how many were taken before)` for each. Returns how many are taken.

        `place_of` gives the place of a candidate. `box_at` gives the numbers of the box at a place;
        more than a box has must be above 0.
        """
        k = self.k
        i, taken = k.variable(k.integer(0)), k.variable(k.integer(0))
        with k.while_(lambda: (i.get() < candidates) & (taken.get() < limit)):
            place = place_of(i.get())
            i.set(i.get() + 1)
            numbers = box_at(place)
            own, positive = numbers[:NUMBERS], numbers[NUMBERS:]
            free = self.overlaps_none(own, taken.get())
            for value in positive:
                free = free & (value > 0.0)
            with k.if_(free):
                self.boxes.put(own, taken.get())
                record(place, own, taken.get())
                taken.set(taken.get() + 1)
        return taken

    def overlaps_none(self, own: Sequence[Value], taken: Value) -> Value:
        """Whether the box overlaps none of those taken by more than the threshold."""
        k, lanes = self.k, self.lanes
        first, bad = k.variable(k.integer(0)), k.variable(k.integer(0))
        wide = [k.splat(number, lanes) for number in own]
        with k.while_(lambda: (first.get() < taken) & bad.get().equals(0)):
            other = self.boxes.at(first.get(), lanes)
            share = overlap_of(k, other, wide, self.pixel, self.touching)
            mask = k.lanes_below(taken - first.get(), lanes)
            bad.set(k.bits_of(negated(k, share <= k.splat(self.most, lanes))) & k.bits_of(mask))
            first.set(first.get() + lanes)
        return bad.get().equals(0)


class PlaceRooms(Struct, frozen=True):
    """Working memory of 4 bytes for each element, by the names of the arguments; what is sorted are
    the places of elements, by keys, in rooms whose names begin with `prefix`.
    """

    k: Kernel
    a: Mapping[str, Value]
    sort: Kernel
    prefix: str = ""

    @property
    def entries(self) -> Value:
        """The entries that are sorted."""
        return self.a[f"{self.prefix}{SORTS[0]}"]

    def read(self, name: str, place: Value) -> Value:
        return self.k.load(self.a[name] + place * I32.bytes, I32)

    def put(self, name: str, place: Value, value: Value) -> None:
        self.k.store(value, self.a[name] + place * I32.bytes)

    def read_all(self, prefix: str, names: Sequence[str], place: Value) -> list[Value]:
        """What lies at a place in several rooms."""
        return [self.read(f"{prefix}_{name}", place) for name in names]

    def put_all(
        self, prefix: str, names: Sequence[str], place: Value, values: Sequence[Value]
    ) -> None:
        for name, value in zip(names, values, strict=True):
            self.put(f"{prefix}_{name}", place, value)

    def candidates(
        self, scores: Value, count: Value, lanes: int, least: Value, above: bool = False
    ) -> Value:
        """Store the keys of the scores of a class that are high enough, or `above` the least one,
        with their boxes; returns how many there are.
        """
        k, many, full = self.k, self.k.variable(self.k.integer(0)), (1 << lanes) - 1
        with k.loop(0, count, lanes) as first:
            there = k.lanes_below(count - first, lanes)
            values, border = (
                k.load(scores + first * F32.bytes, F32, lanes, there),
                k.splat(least, lanes),
            )
            bits = k.variable(k.bits_of((values > border if above else values >= border) & there))
            with k.if_(bits.get().equals(full)):
                numbers = k.splat(first.to(I32), lanes) + k.lane_numbers(lanes)
                self.put_entry(many.get(), sortable(k, values, descending=True), numbers)
                many.set(many.get() + lanes)
                bits.set(k.integer(0))
            with k.set_bits(bits) as bit:
                i = first + bit
                score = k.load(scores + i * F32.bytes, F32)
                self.put_entry(many.get(), sortable(k, score, descending=True), i)
                many.set(many.get() + 1)
        return many.get()

    def put_entry(self, i: Value, key: Value | int, place: Value) -> None:
        """Store a place with its key, or those of a vector, from number `i` on."""
        key = self.k.constant(key, U32) if isinstance(key, int) else key
        self.k.store(entry(key, place), self.entries + i * SORT_ENTRY)

    def place(self, i: Value) -> Value:
        """The place that is number `i` in the order."""
        return place_at(self.k, self.entries, i)

    def in_order(self, count: Value) -> None:
        """Put so many places in their own order."""
        with self.k.loop(0, count) as i:
            self.put_entry(i, 0, i)

    def sorted_by(self, count: Value, key: Callable[[Value], Value]) -> None:
        """Sort the places by the keys of what lies there; those of equal keys stay in order."""
        with self.k.loop(0, count) as i:
            place = self.place(i)
            self.put_entry(i, key(place), place)
        self.sorted(count)

    def sorted(self, count: Value) -> None:
        """Sort the places by keys that are there."""
        self.k.call(self.sort, [*(self.a[self.prefix + name] for name in SORTS), count])
