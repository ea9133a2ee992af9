"""The emitter of what MulticlassNms, MatrixNms, DetectionOutput and Detectron's detections share:
the kernel takes the best boxes of each class that overlap none before them, or all with scores that
fall by how much they do; then the best of these of each image, and writes them row by row.

Computed as the references compute it, one operation after the other in f32, so that the same boxes
are taken. Sorts are stable: equal rows stay in the order in which they were found, by image, class
and box.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import (
    BOOL,
    F32,
    I32,
    I64,
    INDEX_TYPES,
    U32,
    Kernel,
    Value,
    emitter,
)
from uncork.kernels.codegen.functions import larger, negated, smaller
from uncork.kernels.codegen.radix_sort import radix_sort, sortable
from uncork.kernels.detection.emit_boxes import Boxes, Chosen, PlaceRooms, put_row, sides_at
from uncork.kernels.detection.emit_decay import decayed
from uncork.kernels.detection.spec import (
    BY_CLASS,
    BY_SCORE,
    DETECTION,
    DETECTIONS,
    OF_ALL,
    OF_IMAGE,
    PLACES,
    Classify,
)


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
        if spec.box_by_box:
            classify.list_boxes(image)
        with (
            k.loop(0, a["classes"]) as number,
            k.if_(negated(k, number.equals(a["background"]))),
        ):
            taken.set(taken.get() + classify.take(image, number, taken.get()))
        kept = classify.best(taken.get())
        classify.keep(image, kept, found.get())
        if spec.rows == PLACES:
            index = INDEX_TYPES[spec.index]
            k.store(kept.to(index), a["numbers"] + image * index.bytes)
        found.set(found.get() + kept)
    classify.write(found.get())


class _Classify:
    """The kernel under construction."""

    def __init__(self, k: Kernel, spec: Classify) -> None:
        self.k, self.spec = k, spec
        self.a = k.named
        self.rooms = PlaceRooms(k, self.a, radix_sort(k))
        overlap, self.least = (self.a[n].to(U32).bits_as(F32) for n in ("overlap", "least"))
        chosen = Boxes(k, self.a["chosen"], self.a["most"] + spec.lanes)
        self.chosen = Chosen(k, spec.lanes, chosen, overlap, spec.pixel, spec.pixel)

    def _box_at(self, image: Value, number: Value, place: Value) -> list[Value]:
        """The numbers of a box of a class."""
        k, a = self.k, self.a
        begin = a["boxes"] + image * a["box_image"] + number * a["box_class"]
        sides = sides_at(k, begin + place * a["box_step"])
        across, down = (sides[n + 2] - sides[n] for n in (0, 1))
        if self.spec.pixel:
            across, down = across + 1.0, down + 1.0
        return [*sides, across * down]

    # ---- the boxes of a class

    def take(self, image: Value, number: Value, taken: Value) -> Value:
        """Take the boxes of a class behind those taken before; returns how many these are."""
        k, a, spec = self.k, self.a, self.spec
        scores = self._scores_of(image, number)
        many = self._listed(number, scores) if spec.box_by_box else self._candidates(scores)
        self.rooms.sorted(many)
        limit = k.minimum(many, a["top"])
        many = many if spec.limits_taken else limit

        def record(place: Value, score: Value, before: Value) -> None:
            values = number.to(I32), place.to(I32), score.bits_as(I32)
            self.rooms.put_all("taken", OF_IMAGE, taken + before, values)

        def box_at(place: Value) -> list[Value]:
            return self._box_at(image, number, place)

        if not spec.decay:

            def record_as_is(place: Value, _numbers: Sequence[Value], before: Value) -> None:
                record(place, self._score(scores, place), before)

            return self.chosen.take(self.rooms.place, many, limit, box_at, record_as_is).get()
        own = k.variable(k.integer(0))
        sigma, post = (a[n].to(U32).bits_as(F32) for n in ("sigma", "post"))
        with k.loop(0, many) as i:  # every box counts, whether it stays or not
            place = self.rooms.place(i)
            sides = box_at(place)
            factor, most = decayed(k, spec, self.chosen.boxes, a["largest"], i, sides, sigma)
            k.store(most, a["largest"] + i * F32.bytes)
            self.chosen.boxes.put(sides, i)
            score = self._score(scores, place) * factor
            with k.if_(score > post):
                record(place, score, own.get())
                own.set(own.get() + 1)
        return own.get()

    def _scores_of(self, image: Value, number: Value) -> Value:
        """Where the scores of a class begin."""
        a = self.a
        first = image * (a["classes"] * a["count"])
        first = first + (number if self.spec.box_by_box else number * a["count"])
        return a["scores"] + first * F32.bytes

    def _score(self, scores: Value, place: Value) -> Value:
        """The score of a box, where those of its class begin at an address."""
        step = self.a["classes"] if self.spec.box_by_box else 1
        return self.k.load(scores + place * step * F32.bytes, F32)

    def _candidates(self, scores: Value) -> Value:
        """Store the keys of the scores of a class that are high enough, with their boxes; returns
        how many there are.
        """
        return self.rooms.candidates(
            scores, self.a["count"], self.spec.lanes, self.least, bool(self.spec.decay)
        )

    def list_boxes(self, image: Value) -> None:
        """List the boxes of each class of an image whose scores are high enough, in their order.
        Regions without area give nothing.
        """
        k, a = self.k, self.a
        with k.loop(0, a["classes"]) as number:
            k.store(k.integer(0), a["many"] + number * I64.bytes)
        with k.loop(0, a["count"]) as box:
            there = k.constant(1, BOOL)
            if self.spec.pixel:
                sides = sides_at(k, a["rois"] + box * (4 * F32.bytes))
                there = (sides[2] > sides[0]) & (sides[3] > sides[1])
            with k.if_(there):
                self._list_box(image, box)

    def _list_box(self, image: Value, box: Value) -> None:
        """List a box for each class in which its score is high enough."""
        k, a, lanes = self.k, self.a, self.spec.lanes
        with k.loop(0, a["classes"], lanes) as first:
            address = self._scores_of(image, first) + box * a["classes"] * F32.bytes
            mask = k.lanes_below(a["classes"] - first, lanes)
            values = k.load(address, F32, lanes, mask, -math.inf)
            with k.set_bits(k.bits_of(values > k.splat(self.least, lanes))) as bit:
                number = first + bit
                many = k.load(a["many"] + number * I64.bytes, I64)
                k.store(box.to(I32), a["listed"] + (number * a["count"] + many) * I32.bytes)
                k.store(many + 1, a["many"] + number * I64.bytes)

    def _listed(self, number: Value, scores: Value) -> Value:
        """Store the keys of the boxes that are listed for a class; returns how many there are."""
        k, a = self.k, self.a
        many = k.load(a["many"] + number * I64.bytes, I64)
        with k.loop(0, many) as i:
            box = k.load(a["listed"] + (number * a["count"] + i) * I32.bytes, I32)
            score = self._score(scores, box.to(I64))
            self.rooms.put_entry(i, sortable(k, score, descending=True), box)
        return many

    # ---- those of all classes

    def best(self, taken: Value) -> Value:
        """Put the places of the best boxes of an image in order; returns how many these are."""
        k, spec, rooms, keep = self.k, self.spec, self.rooms, self.a["keep"]
        rooms.in_order(taken)
        if spec.decay:  # those of a class are in the order of scores that have fallen since
            for name in ("taken_boxes", "taken_classes"):
                rooms.sorted_by(taken, self._rising(name))
        kept = k.minimum(taken, keep)

        def by_score() -> None:
            if spec.box_by_box:  # equal scores in the order of boxes
                rooms.sorted_by(taken, self._rising("taken_boxes"))
            rooms.sorted_by(taken, self._falling("taken_scores"))

        if spec.order == BY_SCORE:
            by_score()
            return kept
        with k.if_(keep < taken):  # they are in the order of classes as they are
            by_score()
            if spec.order == BY_CLASS:
                rooms.sorted_by(kept, self._rising("taken_classes"))
        return kept

    def keep(self, image: Value, kept: Value, found: Value) -> None:
        """Keep the first boxes of an image behind those found before."""
        with self.k.loop(0, kept) as i:
            values = self.rooms.read_all("taken", OF_IMAGE, self.rooms.place(i))
            self.rooms.put_all("kept", OF_ALL, found + i, [image.to(I32), *values])

    def write(self, found: Value) -> None:
        """Write the rows in their order, and what ends them."""
        k, a = self.k, self.a
        self.rooms.in_order(found)
        if self.spec.across == "class":
            self.rooms.sorted_by(found, self._rising("kept_classes"))
        elif self.spec.across == "score":
            self.rooms.sorted_by(found, self._falling("kept_scores"))
        with k.loop(0, found) as i:
            *where, score = self.rooms.read_all("kept", OF_ALL, self.rooms.place(i))
            image, number, box = (value.to(I64) for value in where)
            put_row(k, a["rows"], i, self._row(i, image, number, box, score.bits_as(F32)))
        if self.spec.rows == PLACES:
            k.store(found, a["found"])
        elif self.spec.rows == DETECTIONS:
            with k.if_(found < a["space"]):
                k.store(k.constant(-1.0, F32), a["rows"] + found * (DETECTION * F32.bytes))

    def _row(self, i: Value, image: Value, number: Value, box: Value, score: Value) -> list[Value]:
        """The numbers of row `i`; what lies beside it is stored."""
        k, a, spec = self.k, self.a, self.spec
        sides = self._box_at(image, number, box)[:4]
        if spec.rows == PLACES:
            index = INDEX_TYPES[spec.index]
            k.store((image * a["count"] + box).to(index), a["row_places"] + i * index.bytes)
            return [number.to(F32), score, *sides]
        if spec.rows == DETECTIONS:
            if spec.clip:
                zero, one = k.constant(0.0, F32), k.constant(1.0, F32)
                sides = [smaller(k, larger(k, side, zero), one) for side in sides]
            return [image.to(F32), number.to(F32), score, *sides]
        k.store(number.to(I32), a["labels"] + i * I32.bytes)
        k.store(score, a["values"] + i * F32.bytes)
        return sides

    # ---- keys

    def _falling(self, name: str) -> Callable[[Value], Value]:
        """Keys by which scores of a room fall."""

        def key(place: Value) -> Value:
            return sortable(self.k, self.rooms.read(name, place).bits_as(F32), descending=True)

        return key

    def _rising(self, name: str) -> Callable[[Value], Value]:
        """Keys by which whole numbers of a room rise."""
        return lambda place: self.rooms.read(name, place).to(U32)
