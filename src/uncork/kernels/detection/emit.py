"""The emitter of non-maximum suppression: of each class the kernel takes the best boxes that
overlap no box taken before by more than a threshold.

Computed as the reference computes it, one operation after the other in f32, so that the same boxes
are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import (
    F32,
    I32,
    I64,
    INDEX_TYPES,
    Kernel,
    Value,
    Variable,
    emitter,
)
from uncork.kernels.codegen.functions import larger, smaller
from uncork.kernels.codegen.radix_sort import radix_sort, sortable
from uncork.kernels.detection.emit_boxes import Boxes, Chosen, PlaceRooms
from uncork.kernels.detection.emit_soft import Decay, SoftClass
from uncork.kernels.detection.spec import Suppress

#: What adds a box taken, with its score, to the rows found.
_Record = Callable[[Value, Value], None]


@emitter
def emit_suppress(k: Kernel, spec: Suppress) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    sort = radix_sort(k)
    rooms, rows = PlaceRooms(k, a, sort), PlaceRooms(k, a, sort, "row_")
    zero = k.constant(0.0, F32)
    overlap = k.load(a["overlap"], F32) if spec.overlap else zero
    overlap = k.select(overlap > 0.0, overlap, k.constant(-math.inf, F32))
    least = k.load(a["least"], F32) if spec.least else zero
    sigma = k.load(a["sigma"], F32) if spec.sigma else zero
    if spec.sigma:
        k.stop_unless(sigma >= 0.0, k.integer(1))
    limit = k.integer(0)
    if spec.limit:
        limit = k.load(a["limit"], INDEX_TYPES[spec.limit]).to(I64)
        if spec.limit == "u64":
            k.stop_unless(limit >= 0, k.integer(1))
    limit = k.minimum(limit, a["most"])
    k.stop_unless(a["count"] < k.integer(2**31), k.integer(1))
    found = k.variable(k.integer(0))
    corners = Boxes(k, a["corners"], a["count"])
    chosen = Chosen(k, spec.lanes, Boxes(k, a["chosen"], a["most"] + spec.lanes), overlap)
    with k.loop(0, a["batches"]) as batch:
        _prepare(k, spec, a["boxes"] + batch * a["count"] * (4 * F32.bytes), corners)
        with k.loop(0, a["classes"]) as number:
            scores = a["scores"] + (batch * a["classes"] + number) * a["count"] * F32.bytes
            candidates = _candidates(k, spec.lanes, rooms, scores, least)
            rooms.sorted(candidates)
            record = _recorder(k, rows, found, batch, number)

            def take(
                many: Value = candidates, given: Value = scores, record: _Record = record
            ) -> None:
                def taken(box: Value, _numbers: Sequence[Value], _before: Value) -> None:
                    record(k.load(given + box * F32.bytes, F32), box)

                chosen.take(rooms.place, many, limit, corners.at, taken)

            def take_soft(
                many: Value = candidates, given: Value = scores, record: _Record = record
            ) -> None:
                fixed = overlap if spec.removes else None
                decay = Decay(k.constant(-0.5, F32) / sigma, fixed, least)
                live = Boxes(k, a["live"], a["count"] + spec.lanes)
                one = SoftClass(k, spec.lanes, decay, rooms.place, live, a["live_scores"])
                one.take(many, limit, given, corners, chosen.boxes, record)

            if not spec.sigma:
                take()
            else:
                k.either(sigma.equals(0.0), take, take_soft)
    if spec.sorted:
        rows.sorted(found.get())
    _write(k, spec, rows, found.get())


def _recorder(k: Kernel, rows: PlaceRooms, found: Variable, batch: Value, number: Value) -> _Record:
    """A function that adds a box taken of a class to the rows found."""

    def record(score: Value, box: Value) -> None:
        at = found.get()
        rows.put_entry(at, sortable(k, score, descending=True), at)
        rows.put("row_values", at, score)
        for name, value in (("batches", batch), ("classes", number), ("boxes", box)):
            rows.put(f"row_{name}", at, value.to(I32))
        found.set(found.get() + 1)

    return record


def _prepare(k: Kernel, spec: Suppress, boxes: Value, corners: Boxes) -> None:
    """Store the boxes of an image by low and high corners, with their areas."""
    with k.loop(0, corners.count) as i:
        given = [k.load(boxes + (i * 4 + n) * F32.bytes, F32) for n in range(4)]
        if spec.center:
            halves = [given[2] / 2.0, given[3] / 2.0]
            numbers = [
                given[0] - halves[0],
                given[1] - halves[1],
                given[0] + halves[0],
                given[1] + halves[1],
            ]
        else:
            pairs = ((given[0], given[2]), (given[1], given[3]))
            numbers = [smaller(k, *pair) for pair in pairs] + [larger(k, *pair) for pair in pairs]
        corners.put([*numbers, (numbers[2] - numbers[0]) * (numbers[3] - numbers[1])], i)


def _candidates(k: Kernel, lanes: int, rooms: PlaceRooms, scores: Value, least: Value) -> Value:
    """Store the scores of a class that are high enough, with their boxes; returns how many there
    are.
    """
    many, count = k.variable(k.integer(0)), rooms.a["count"]
    full = k.integer((1 << lanes) - 1)
    with k.loop(0, count, lanes) as first:
        there = k.lanes_below(count - first, lanes)
        values = k.load(scores + first * F32.bytes, F32, lanes, there)
        bits = k.variable(k.bits_of((values >= k.splat(least, lanes)) & there))
        with k.if_(bits.get().equals(full)):
            numbers = k.splat(first.to(I32), lanes) + k.lane_numbers(lanes)
            rooms.put_entry(many.get(), sortable(k, values, descending=True), numbers)
            many.set(many.get() + lanes)
            bits.set(k.integer(0))
        with k.set_bits(bits) as bit:
            i = first + bit
            score = k.load(scores + i * F32.bytes, F32)
            rooms.put_entry(many.get(), sortable(k, score, descending=True), i)
            many.set(many.get() + 1)
    return many.get()


def _write(k: Kernel, spec: Suppress, rows: PlaceRooms, found: Value) -> None:
    """Write the rows of the outputs in their order, and how many there are."""
    a, index = rows.a, INDEX_TYPES[spec.index]
    with k.loop(0, found) as i:
        place = rows.place(i)
        batch, number, box, bits = (
            rows.read(f"row_{name}", place) for name in ("batches", "classes", "boxes", "values")
        )
        for n, value in enumerate((batch, number, box)):
            k.store(value.to(index), a["rows"] + (i * 3 + n) * index.bytes)
        score = bits.bits_as(F32)
        for n, real in enumerate((batch.to(F32), number.to(F32), score)):
            k.store(real, a["row_scores"] + (i * 3 + n) * F32.bytes)
    k.store(found, a["found"])
