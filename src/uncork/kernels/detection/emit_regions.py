"""The emitter of what Proposal, GenerateProposals and their likes share: the kernel takes the boxes
of the highest scores of each image that overlap none before them, and writes them row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.codegen.emit import F32, INDEX_TYPES, U32, Kernel, Value, Variable, emitter
from uncork.kernels.codegen.functions import larger, smaller
from uncork.kernels.detection.emit_best import BestByHeap
from uncork.kernels.detection.emit_boxes import Boxes, Chosen, put_row
from uncork.kernels.detection.spec import NUMBERS, Propose


@emitter
def emit_propose(k: Kernel, spec: Propose) -> None:
    """The LLVM text of the kernel, which gives up where a score is NaN."""
    propose = _Propose(k, spec)
    a = propose.a
    k.stop_unless(propose.count < k.integer(2**31), k.integer(1))
    found = k.variable(k.integer(0))
    with k.loop(0, a["images"]) as image:
        first = found.get() if spec.counts else image * a["keep"]
        taken = propose.image(image, first)
        if spec.counts:
            index = INDEX_TYPES[spec.counts]
            k.store(taken.get().to(index), a["numbers"] + image * index.bytes)
            found.set(found.get() + taken.get())
    if spec.counts:
        k.store(found.get(), a["found"])


class _Propose:
    """The kernel under construction."""

    def __init__(self, k: Kernel, spec: Propose) -> None:
        self.k, self.spec = k, spec
        self.a = a = k.named
        self.count = a["anchors"] * a["cells"]
        overlap = a["overlap"].to(U32).bits_as(F32)
        self.best = BestByHeap(k, a["anchors"], a["cells"], a["heap"], a["most"])
        chosen = Boxes(k, a["chosen"], a["room"])
        self.chosen = Chosen(k, spec.lanes, chosen, overlap, spec.pixel, touching=True)

    def image(self, image: Value, first: Value) -> Variable:
        """Write the rows of an image, from row `first` on; returns how many these are."""
        k, a, spec = self.k, self.a, self.spec
        numbers = NUMBERS + spec.sized
        corners = Boxes(k, a["boxes"] + image * self.count * (numbers * F32.bytes), self.count)
        scores = a["scores"] + image * self.count * F32.bytes
        self._check(scores)
        self.best.select(scores, spec.lanes)

        def record(place: Value, own: Sequence[Value], taken: Value) -> None:
            score = k.load(scores + place * F32.bytes, F32)
            self._row(image, first + taken, list(own[:4]), score)

        def box_at(place: Value) -> list[Value]:
            return corners.at(place, numbers=numbers)

        taken = self.chosen.take(self.best.place, a["most"], a["keep"], box_at, record)
        if spec.numbered:
            with k.if_(taken.get() < a["keep"]):
                end = (first + taken.get()) * ((4 + spec.numbered) * F32.bytes)
                k.store(k.constant(-1.0, F32), a["rows"] + end)
        return taken

    def _check(self, scores: Value) -> None:
        k, lanes = self.k, self.spec.lanes
        with k.loop(0, self.count, lanes) as first:
            mask = k.lanes_below(self.count - first, lanes)
            values = k.load(scores + first * F32.bytes, F32, lanes, mask)
            k.stop_unless(k.all_of(values.equals(values)), k.integer(1))

    def _row(self, image: Value, row: Value, sides: list[Value], score: Value) -> None:
        k, a, spec = self.k, self.a, self.spec
        if spec.clip or spec.normalize:
            limits = [k.load(a["image"] + n * F32.bytes, F32) for n in (0, 1)]
            limits = limits if spec.turned else limits[::-1]
            if spec.clip:
                zero = k.constant(0.0, F32)
                sides = [
                    larger(k, smaller(k, side, limits[n % 2]), zero) for n, side in enumerate(sides)
                ]
            if spec.normalize:
                sides = [side / limits[n % 2] for n, side in enumerate(sides)]
        values = [image.to(F32), *sides] if spec.numbered else sides
        put_row(k, a["rows"], row, values)
        if spec.scored:
            k.store(score, a["row_scores"] + row * F32.bytes)
