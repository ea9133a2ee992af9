"""Boxes in working memory, and whether one overlaps any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uncork.kernels.codegen.emit import F32, Kernel, Value
from uncork.kernels.codegen.functions import larger, negated, smaller
from uncork.kernels.detection.spec import NUMBERS


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes in working memory as five rows of f32: two low sides, two high sides, and the area."""

    k: Kernel
    base: Value
    count: Value

    def value_at(self, row: int, place: Value, lanes: int = 1) -> Value:
        return self.k.load(self.base + (self.count * row + place) * F32.bytes, F32, lanes)

    def put(self, numbers: Sequence[Value], place: Value) -> None:
        for row, number in enumerate(numbers):
            self.k.store(number, self.base + (self.count * row + place) * F32.bytes)


def overlaps_none(
    k: Kernel, lanes: int, chosen: Boxes, taken: Value, own: Sequence[Value], most: Value
) -> Value:
    """Whether the box overlaps none of those taken by more than the threshold."""
    first, bad = k.variable(k.integer(0)), k.variable(k.integer(0))
    wide = [k.splat(number, lanes) for number in own]
    zero, one = k.constant(0.0, F32, lanes), k.constant(1.0, F32, lanes)
    with k.while_(lambda: (first.get() < taken) & bad.get().equals(0)):
        other = [chosen.value_at(row, first.get(), lanes) for row in range(NUMBERS)]
        sides = [
            smaller(k, other[axis + 2], wide[axis + 2]) - larger(k, other[axis], wide[axis])
            for axis in (0, 1)
        ]
        common = larger(k, sides[0], zero) * larger(k, sides[1], zero)
        has_area = (other[4] > 0.0) & (wide[4] > 0.0)
        share = common / k.select(has_area, other[4] + wide[4] - common, one)
        fits = k.select(has_area, share, zero) <= k.splat(most, lanes)
        mask = k.lanes_below(taken - first.get(), lanes)
        bad.set(k.bits_of(negated(k, fits)) & k.bits_of(mask))
        first.set(first.get() + lanes)
    return bad.get().equals(0)
