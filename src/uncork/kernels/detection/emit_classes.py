"""The emitter of MulticlassNms and MatrixNms: the kernel takes the best boxes of each class that
overlap none before them, or all with scores that fall by how much they do; then the best of these
of each image, and writes them row by row.

Computed as the reference computes it, one operation after the other in f32, so that the same boxes
are taken. Sorts are stable: equal rows stay in the order in which they were found, by image, class
and box.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import F32, I32, I64, INDEX_TYPES, U32, Kernel, Value, emitter
from uncork.kernels.codegen.functions import negated
from uncork.kernels.codegen.radix_sort import radix_sort, sortable
from uncork.kernels.detection.emit_boxes import Boxes, Chosen, PlaceRooms
from uncork.kernels.detection.emit_decay import decayed
from uncork.kernels.detection.spec import OF_ALL, OF_IMAGE, Classify

#: Numbers of a row of the result.
_ROW = 6


@emitter
def emit_classes(k: Kernel, spec: Classify) -> None:
    """The LLVM text of the kernel."""
    classify = _Classify(k, spec)
    a = classify.a
    for factor in ("batches", "classes"):
        k.stop_unless(a[factor] * a["count"] < k.integer(2**31), k.integer(1))
    found = k.variable(k.integer(0))
    with k.loop(0, a["batches"]) as image:
        taken = k.variable(k.integer(0))
        with (
            k.loop(0, a["classes"]) as number,
            k.if_(negated(k, number.equals(a["background"]))),
        ):
            taken.set(taken.get() + classify.take(image, number, taken.get()))
        kept = classify.best(taken.get())
        classify.keep(image, kept, found.get())
        index = INDEX_TYPES[spec.index]
        k.store(kept.to(index), a["numbers"] + image * index.bytes)
        found.set(found.get() + kept)
    classify.write(found.get())
    k.store(found.get(), a["found"])


class _Classify:
    """The kernel under construction."""

    def __init__(self, k: Kernel, spec: Classify) -> None:
        self.k, self.spec = k, spec
        self.a = k.named
        self.rooms = PlaceRooms(k, self.a, radix_sort(k))
        overlap, self.least, self.sigma, self.post = (
            self.a[n].to(U32).bits_as(F32) for n in ("overlap", "least", "sigma", "post")
        )
        chosen = Boxes(k, self.a["chosen"], self.a["top"] + spec.lanes)
        self.chosen = Chosen(k, spec.lanes, chosen, overlap)

    def take(self, image: Value, number: Value, taken: Value) -> Value:
        """Take the boxes of a class behind those taken before; returns how many these are."""
        k, a = self.k, self.a
        scores = a["scores"] + (image * a["classes"] + number) * a["count"] * F32.bytes
        many = self._candidates(scores)
        self.rooms.sorted(many)
        many = k.minimum(many, a["top"])

        def box_at(place: Value) -> list[Value]:
            corners = a["boxes"] + (image * a["count"] + place) * (4 * F32.bytes)
            sides = [k.load(corners + n * F32.bytes, F32) for n in range(4)]
            return [*sides, (sides[2] - sides[0]) * (sides[3] - sides[1])]

        def score_of(place: Value) -> Value:
            return k.load(scores + place * F32.bytes, F32)

        def record(place: Value, score: Value, before: Value) -> None:
            values = number.to(I32), place.to(I32), score.bits_as(I32)
            for name, value in zip(OF_IMAGE, values, strict=True):
                self.rooms.put(f"taken_{name}", taken + before, value)

        if not self.spec.decay:

            def record_as_is(place: Value, _numbers: Sequence[Value], before: Value) -> None:
                record(place, score_of(place), before)

            return self.chosen.take(self.rooms.place, many, many, box_at, record_as_is).get()
        own = k.variable(k.integer(0))
        with k.loop(0, many) as i:  # every box counts, whether it stays or not
            place = self.rooms.place(i)
            sides = box_at(place)
            factor, most = decayed(
                k, self.spec, self.chosen.boxes, a["largest"], i, sides, self.sigma
            )
            k.store(most, a["largest"] + i * F32.bytes)
            self.chosen.boxes.put(sides, i)
            score = score_of(place) * factor
            with k.if_(score > self.post):
                record(place, score, own.get())
                own.set(own.get() + 1)
        return own.get()

    def _candidates(self, scores: Value) -> Value:
        """Store the keys of the scores of a class that are high enough, with their boxes; returns
        how many there are.
        """
        k, a, lanes = self.k, self.a, self.spec.lanes
        many = k.variable(k.integer(0))
        with k.loop(0, a["count"], lanes) as first:
            mask = k.lanes_below(a["count"] - first, lanes)
            values = k.load(scores + first * F32.bytes, F32, lanes, mask, -math.inf)
            least = k.splat(self.least, lanes)
            high = k.bits_of(values > least if self.spec.decay else values >= least)
            with k.set_bits(high & k.bits_of(mask)) as bit:
                box = first + bit
                score = k.load(scores + box * F32.bytes, F32)
                self.rooms.put_entry(many.get(), sortable(k, score, descending=True), box)
                many.set(many.get() + 1)
        return many.get()

    def best(self, taken: Value) -> Value:
        """Put the places of the best boxes of an image in order; returns how many these are."""
        k, keep = self.k, self.a["keep"]
        self.rooms.in_order(taken)
        if self.spec.decay:  # those of a class are in the order of scores that have fallen since
            for name in ("taken_boxes", "taken_classes"):
                self.rooms.sorted_by(taken, self._rising(name))
        kept = k.minimum(taken, keep)
        if not self.spec.by_class:
            self.rooms.sorted_by(taken, self._falling("taken_scores"))
            return kept
        with k.if_(keep < taken):  # they are in the order of classes as they are
            self.rooms.sorted_by(taken, self._falling("taken_scores"))
            self.rooms.sorted_by(kept, self._rising("taken_classes"))
        return kept

    def keep(self, image: Value, kept: Value, found: Value) -> None:
        """Keep the first boxes of an image behind those found before."""
        with self.k.loop(0, kept) as i:
            place = self.rooms.place(i)
            values = [
                image.to(I32),
                *(self.rooms.read(f"taken_{name}", place) for name in OF_IMAGE),
            ]
            for name, value in zip(OF_ALL, values, strict=True):
                self.rooms.put(f"kept_{name}", found + i, value)

    def write(self, found: Value) -> None:
        """Write the rows in their order."""
        k, a, index = self.k, self.a, INDEX_TYPES[self.spec.index]
        self.rooms.in_order(found)
        if self.spec.across == "class":
            self.rooms.sorted_by(found, self._rising("kept_classes"))
        elif self.spec.across == "score":
            self.rooms.sorted_by(found, self._falling("kept_scores"))
        with k.loop(0, found) as i:
            place = self.rooms.place(i)
            image, number, box, score = (self.rooms.read(f"kept_{name}", place) for name in OF_ALL)
            at = image.to(I64) * a["count"] + box.to(I64)
            k.store(at.to(index), a["row_places"] + i * index.bytes)
            corners = a["boxes"] + at * (4 * F32.bytes)
            sides = [k.load(corners + n * F32.bytes, F32) for n in range(4)]
            row = [number.to(F32), score.bits_as(F32), *sides]
            for position, value in enumerate(row):
                k.store(value, a["rows"] + (i * _ROW + position) * F32.bytes)

    # ---- keys

    def _falling(self, name: str) -> Callable[[Value], Value]:
        """Keys by which scores of a room fall."""

        def key(place: Value) -> Value:
            return sortable(self.k, self.rooms.read(name, place).bits_as(F32), descending=True)

        return key

    def _rising(self, name: str) -> Callable[[Value], Value]:
        """Keys by which whole numbers of a room rise."""
        return lambda place: self.rooms.read(name, place).to(U32)
