"""The emitters of ExperimentalDetectronDetectionOutput, which takes the best boxes of each class
and of all, and of ExperimentalDetectronTopKROIs, which copies the best regions.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I32, I64, U32, Kernel, Value, Variable
from uncork.kernels.codegen.radix_sort import radix_sort, sortable
from uncork.kernels.detection.emit_boxes import Boxes, overlaps_none
from uncork.kernels.detection.emit_output import SORTED, Detecting
from uncork.kernels.detection.spec import NUMBERS
from uncork.kernels.detection.spec_output import BestRows, DetectOfClasses
from uncork.kernels.runtime.target import Target

_LAST = 0xFFFFFFFF


def emit_of_classes(spec: DetectOfClasses, machine: Target) -> str:
    """The LLVM text of the kernel."""
    k = Kernel(spec.name, spec.arguments, machine)
    a = dict(zip(spec.arguments, k.arguments, strict=True))
    k.stop_unless(a["priors"] * a["classes"] < k.integer(2**31), k.integer(1))
    detect = _OfClasses(k, spec, a)
    detect.find(a["scores"])
    taken = k.variable(k.integer(0))
    with k.loop(0, a["classes"]) as number:
        detect.take_best(number, taken)
    with k.loop(0, taken.get()) as i:
        k.store(i.to(I32), a["places"] + i * I32.bytes)
    with k.if_(a["keep"] < taken.get()):
        detect.by_score(a["scores"], taken.get())
    with k.loop(0, k.minimum(taken.get(), a["keep"])) as i:
        detect.write(i)
    k.finish()
    return k.text()


class _OfClasses(Detecting):
    """The kernel under construction."""

    def find_box(self, box: Value, scores: Value) -> None:
        """Regions without area give nothing."""
        k = self.k
        sides = [k.load(self.a["rois"] + (box * 4 + n) * F32.bytes, F32) for n in range(4)]
        with k.if_((sides[2] > sides[0]) & (sides[3] > sides[1])):
            super().find_box(box, scores)

    def _numbers(self, box: Value, number: Value) -> list[Value]:
        a = self.a
        corners = Boxes(self.k, a["corners"], a["priors"] * a["classes"])
        return [corners.value_at(row, box * a["classes"] + number) for row in range(NUMBERS)]

    def take_best(self, number: Value, taken: Variable) -> None:
        """Take up to `top` of the best boxes of a class that overlap none of those before them."""
        k, a = self.k, self.a
        many = self.in_order(number, a["scores"])
        i, own = k.variable(k.integer(0)), k.variable(k.integer(0))
        with k.while_(lambda: (i.get() < many) & (own.get() < a["top"])):
            box = k.load(a["places"] + i.get() * I32.bytes, I32)
            i.set(i.get() + 1)
            numbers = self._numbers(box.to(I64), number)
            free = overlaps_none(
                k, self.lanes, self.chosen, own.get(), numbers, self.overlap, True, True
            )
            with k.if_(free):
                self.chosen.put(numbers, own.get())
                self.take(number, box, taken)
                own.set(own.get() + 1)

    def write(self, i: Value) -> None:
        """Write a row of the outputs."""
        k, a = self.k, self.a
        number, box = (self.taken(i, f"taken_{name}").to(I64) for name in ("classes", "boxes"))
        for position, side in enumerate(self._numbers(box, number)[:4]):
            k.store(side, a["boxes"] + (i * 4 + position) * F32.bytes)
        k.store(number.to(I32), a["labels"] + i * I32.bytes)
        k.store(self.score(a["scores"], box, number), a["values"] + i * F32.bytes)


def emit_best_rows(spec: BestRows, machine: Target) -> str:
    """The LLVM text of the kernel."""
    k = Kernel(spec.name, spec.arguments, machine)
    a = dict(zip(spec.arguments, k.arguments, strict=True))
    k.stop_unless(a["count"] < k.integer(2**31), k.integer(1))
    sort = radix_sort(k, U32)
    with k.loop(0, a["count"]) as i:
        score = k.load(a["scores"] + i * F32.bytes, F32)
        key = sortable(k, score, descending=True)
        key = k.select(score.equals(score), key, k.constant(_LAST, U32))
        k.store(key, a["keys"] + i * U32.bytes)
        k.store(i.to(I32), a["places"] + i * I32.bytes)
    k.call(sort, [*(a[name] for name in SORTED), a["count"]])
    with k.loop(0, a["kept"]) as i:
        place = k.load(a["places"] + i * I32.bytes, I32).to(I64)
        row = k.load(a["rows"] + place * (4 * F32.bytes), F32, 4)
        k.store(row, a["output"] + i * (4 * F32.bytes))
    k.finish()
    return k.text()
