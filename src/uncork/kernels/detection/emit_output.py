"""The emitter of DetectionOutput: the kernel takes the best boxes of each class without overlap,
and writes the best of these of each image, row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from uncork.kernels.codegen.emit import F32, I32, I64, U32, Kernel, Value, Variable, emitter
from uncork.kernels.codegen.functions import larger, smaller
from uncork.kernels.codegen.radix_sort import radix_sort, sortable
from uncork.kernels.detection.emit_boxes import Boxes, Chosen, PlaceRooms
from uncork.kernels.detection.spec import NUMBERS, Detect, DetectOfClasses

#: Numbers of a row of the result.
_ROW = 7


@emitter
def emit_detect(k: Kernel, spec: Detect) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    k.stop_unless(a["priors"] * a["classes"] < k.integer(2**31), k.integer(1))
    detect = Detecting(k, spec, a)
    written = k.variable(k.integer(0))
    with k.loop(0, a["images"]) as image:
        detect.image(image, written)
    with k.if_(written.get() < a["rows"]):
        k.store(k.constant(-1.0, F32), a["output"] + written.get() * (_ROW * F32.bytes))


class Detecting:
    """The kernel under construction."""

    def __init__(self, k: Kernel, spec: Detect | DetectOfClasses, a: Mapping[str, Value]) -> None:
        self.k, self.lanes, self.a = k, spec.lanes, a
        self.clip = isinstance(spec, Detect) and spec.clip
        self.rooms = PlaceRooms(k, a, radix_sort(k))
        overlap, self.least = (a[n].to(U32).bits_as(F32) for n in ("overlap", "least"))
        both_ends = isinstance(spec, DetectOfClasses)
        chosen = Boxes(k, a["chosen"], a["priors"] + spec.lanes)
        self.chosen = Chosen(k, spec.lanes, chosen, overlap, both_ends, both_ends)

    def image(self, image: Value, written: Variable) -> None:
        """Write the rows of an image."""
        k, a = self.k, self.a
        corners = Boxes(
            k, a["corners"] + image * (a["priors"] * (NUMBERS * F32.bytes)), a["priors"]
        )
        scores = a["scores"] + image * (a["priors"] * a["classes"] * F32.bytes)
        self.find(scores)
        taken = k.variable(k.integer(0))
        with k.loop(0, a["classes"]) as number:
            many = k.minimum(self.in_order(number, scores), a["top"])
            self.take_best(number, many, many, corners.at, taken)
        self.rooms.in_order(taken.get())
        count = k.variable(taken.get())
        with k.if_((a["keep"] >= 0) & (a["keep"] < taken.get())):
            self._best(scores, taken.get())
            count.set(a["keep"])
        with k.loop(0, count.get()) as i:
            self._row(image, self.rooms.place(i), scores, corners, written.get() + i)
        written.set(written.get() + count.get())

    def find(self, scores: Value) -> None:
        """Store the boxes of each class whose scores are high enough, in their order."""
        k, a = self.k, self.a
        with k.loop(0, a["classes"]) as number:
            k.store(k.integer(0), a["many"] + number * I64.bytes)
        with k.loop(0, a["priors"]) as box:
            self.find_box(box, scores)
        with k.if_((a["background"] >= 0) & (a["background"] < a["classes"])):
            k.store(k.integer(0), a["many"] + a["background"] * I64.bytes)

    def find_box(self, box: Value, scores: Value) -> None:
        """Store a box for each class in which its score is high enough."""
        k, a, lanes = self.k, self.a, self.lanes
        with k.loop(0, a["classes"], lanes) as first:
            address = scores + (box * a["classes"] + first) * F32.bytes
            mask = k.lanes_below(a["classes"] - first, lanes)
            values = k.load(address, F32, lanes, mask, -math.inf)
            with k.set_bits(k.bits_of(values > k.splat(self.least, lanes))) as bit:
                number = first + bit
                many = k.load(a["many"] + number * I64.bytes, I64)
                k.store(box.to(I32), a["found"] + (number * a["priors"] + many) * I32.bytes)
                k.store(many + 1, a["many"] + number * I64.bytes)

    def score(self, scores: Value, box: Value, number: Value) -> Value:
        return self.k.load(scores + (box * self.a["classes"] + number) * F32.bytes, F32)

    def in_order(self, number: Value, scores: Value) -> Value:
        """Put the boxes found for a class in the order of their scores; returns how many these
        are.
        """
        k, a = self.k, self.a
        many = k.load(a["many"] + number * I64.bytes, I64)
        with k.loop(0, many) as i:
            box = k.load(a["found"] + (number * a["priors"] + i) * I32.bytes, I32)
            score = self.score(scores, box.to(I64), number)
            self.rooms.put_entry(i, sortable(k, score, descending=True), box)
        self.rooms.sorted(many)
        return many

    def take_best(
        self,
        number: Value,
        candidates: Value,
        limit: Value,
        box_at: Callable[[Value], list[Value]],
        taken: Variable,
    ) -> None:
        """Take up to `limit` of the candidates of a class that overlap none of those before them,
        behind those taken before of other classes.
        """

        def record(place: Value, _numbers: Sequence[Value], _before: Value) -> None:
            self.rooms.put("taken_classes", taken.get(), number.to(I32))
            self.rooms.put("taken_boxes", taken.get(), place.to(I32))
            taken.set(taken.get() + 1)

        self.chosen.take(self.rooms.place, candidates, limit, box_at, record)

    def _best(self, scores: Value, taken: Value) -> None:
        """Bring the best boxes of all classes to the front, equal scores in the order of the boxes,
        and sort these by class.
        """
        self.by_score(scores, taken)
        self.rooms.sorted_by(
            self.a["keep"], lambda place: self.rooms.read("taken_classes", place).to(U32)
        )

    def by_score(self, scores: Value, taken: Value) -> None:
        """Sort the boxes taken of all classes by score, equal scores in the order of the boxes."""

        def score(place: Value) -> Value:
            box, number = (self.rooms.read(f"taken_{n}", place) for n in ("boxes", "classes"))
            found = self.score(scores, box.to(I64), number.to(I64))
            return sortable(self.k, found, descending=True)

        self.rooms.sorted_by(taken, lambda place: self.rooms.read("taken_boxes", place).to(U32))
        self.rooms.sorted_by(taken, score)

    def _row(
        self, image: Value, place: Value, scores: Value, corners: Boxes, written: Value
    ) -> None:
        k, a = self.k, self.a
        number, box = (
            self.rooms.read(f"taken_{name}", place).to(I64) for name in ("classes", "boxes")
        )
        sides = corners.at(box, numbers=4)
        if self.clip:
            zero, one = k.constant(0.0, F32), k.constant(1.0, F32)
            sides = [smaller(k, larger(k, side, zero), one) for side in sides]
        row = [image.to(F32), number.to(F32), self.score(scores, box, number), *sides]
        for position, value in enumerate(row):
            k.store(value, a["output"] + (written * _ROW + position) * F32.bytes)
