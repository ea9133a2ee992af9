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
from uncork.kernels.detection.emit_boxes import Boxes, Chosen, PlaceRooms, put_row, sides_at
from uncork.kernels.detection.emit_soft import Decay, SoftClass
from uncork.kernels.detection.spec import OF_ROWS, Suppress

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
            candidates = rooms.candidates(scores, a["count"], spec.lanes, least)
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
        values = batch.to(I32), number.to(I32), box.to(I32), score
        rows.put_all("row", OF_ROWS, at, values)
        found.set(found.get() + 1)

    return record


def _prepare(k: Kernel, spec: Suppress, boxes: Value, corners: Boxes) -> None:
    """Store the boxes of an image by low and high corners, with their areas."""
    with k.loop(0, corners.count) as i:
        given = sides_at(k, boxes + i * (4 * F32.bytes))
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


def _write(k: Kernel, spec: Suppress, rows: PlaceRooms, found: Value) -> None:
    """Write the rows of the outputs in their order, and how many there are."""
    a, index = rows.a, INDEX_TYPES[spec.index]
    with k.loop(0, found) as i:
        batch, number, box, bits = rows.read_all("row", OF_ROWS, rows.place(i))
        put_row(k, a["rows"], i, [value.to(index) for value in (batch, number, box)])
        put_row(k, a["row_scores"], i, [batch.to(F32), number.to(F32), bits.bits_as(F32)])
    k.store(found, a["found"])
