"""The emitters of ExperimentalDetectronDetectionOutput, which takes the best boxes of each class
and of all, and of ExperimentalDetectronTopKROIs, which copies the best regions.
"""

from __future__ import annotations

import functools

from uncork.kernels.codegen.emit import F32, I32, I64, U32, Kernel, Value, emitter
from uncork.kernels.codegen.radix_sort import radix_sort, sortable
from uncork.kernels.detection.emit_boxes import Boxes, PlaceRooms
from uncork.kernels.detection.emit_output import Detecting
from uncork.kernels.detection.spec import BestRows, DetectOfClasses

_LAST = 0xFFFFFFFF


@emitter
def emit_of_classes(k: Kernel, spec: DetectOfClasses) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    k.stop_unless(a["priors"] * a["classes"] < k.integer(2**31), k.integer(1))
    detect = _OfClasses(k, spec, a)
    detect.find(a["scores"])
    taken = k.variable(k.integer(0))
    with k.loop(0, a["classes"]) as number:
        many = detect.in_order(number, a["scores"])
        numbers_of = functools.partial(detect.numbers_of, number=number)
        detect.take_best(number, many, a["top"], numbers_of, taken)
    detect.rooms.in_order(taken.get())
    with k.if_(a["keep"] < taken.get()):
        detect.by_score(a["scores"], taken.get())
    with k.loop(0, k.minimum(taken.get(), a["keep"])) as i:
        detect.write(i)


class _OfClasses(Detecting):
    """The kernel under construction."""

    def find_box(self, box: Value, scores: Value) -> None:
        """Regions without area give nothing."""
        k = self.k
        sides = [k.load(self.a["rois"] + (box * 4 + n) * F32.bytes, F32) for n in range(4)]
        with k.if_((sides[2] > sides[0]) & (sides[3] > sides[1])):
            super().find_box(box, scores)

    def numbers_of(self, box: Value, number: Value) -> list[Value]:
        """The numbers of a class's box."""
        a = self.a
        corners = Boxes(self.k, a["corners"], a["priors"] * a["classes"])
        return corners.at(box * a["classes"] + number)

    def write(self, i: Value) -> None:
        """Write a row of the outputs."""
        k, a = self.k, self.a
        place = self.rooms.place(i)
        number, box = (
            self.rooms.read(f"taken_{name}", place).to(I64) for name in ("classes", "boxes")
        )
        for position, side in enumerate(self.numbers_of(box, number)[:4]):
            k.store(side, a["boxes"] + (i * 4 + position) * F32.bytes)
        k.store(number.to(I32), a["labels"] + i * I32.bytes)
        k.store(self.score(a["scores"], box, number), a["values"] + i * F32.bytes)


@emitter
def emit_best_rows(k: Kernel, spec: BestRows) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    k.stop_unless(a["count"] < k.integer(2**31), k.integer(1))
    rooms = PlaceRooms(k, a, radix_sort(k))
    with k.loop(0, a["count"]) as i:
        score = k.load(a["scores"] + i * F32.bytes, F32)
        key = sortable(k, score, descending=True)
        key = k.select(score.equals(score), key, k.constant(_LAST, U32))
        rooms.put_entry(i, key, i)
    rooms.sorted(a["count"])
    with k.loop(0, a["kept"]) as i:
        row = k.load(a["rows"] + rooms.place(i) * (4 * F32.bytes), F32, 4)
        k.store(row, a["output"] + i * (4 * F32.bytes))
