"""Boxes in working memory, and whether one overlaps any of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from uncork.kernels.codegen.emit import F32, Kernel, Value
from uncork.kernels.codegen.functions import larger, negated, smaller
from uncork.kernels.detection.spec import NUMBERS


class Boxes(Struct, frozen=True):
    """Boxes in working memory as five rows of f32: two low sides, two high sides, and the area."""

    k: Kernel
    base: Value
    count: Value

    def value_at(self, row: int, place: Value, lanes: int = 1) -> Value:
        return self.k.load(self.base + (self.count * row + place) * F32.bytes, F32, lanes)

    def put(self, numbers: Sequence[Value], place: Value) -> None:
        for row, number in enumerate(numbers):
            self.k.store(number, self.base + (self.count * row + place) * F32.bytes)


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


def overlaps_none(
    k: Kernel,
    lanes: int,
    chosen: Boxes,
    taken: Value,
    own: Sequence[Value],
    most: Value,
    pixel: bool = False,
    touching: bool = False,
) -> Value:
    """Whether the box overlaps none of those taken by more than the threshold; see
    `overlap_of`.
    """
    first, bad = k.variable(k.integer(0)), k.variable(k.integer(0))
    wide = [k.splat(number, lanes) for number in own]
    with k.while_(lambda: (first.get() < taken) & bad.get().equals(0)):
        other = [chosen.value_at(row, first.get(), lanes) for row in range(NUMBERS)]
        fits = overlap_of(k, other, wide, pixel, touching) <= k.splat(most, lanes)
        mask = k.lanes_below(taken - first.get(), lanes)
        bad.set(k.bits_of(negated(k, fits)) & k.bits_of(mask))
        first.set(first.get() + lanes)
    return bad.get().equals(0)
