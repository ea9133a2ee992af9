"""Convolutions computed by other convolutions over planes, with data laid out anew before or
results after.

Three axes: what windows see along the first one are so many times the channels. Transposed ones:
the pixels whose places leave the same remainders by the strides see the same taps, and no zeros
between cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.convolution.geometry import Geometry, Windows, Work
from uncork.kernels.convolution.phases import Phase, are_spread, have_phases, phases_along
from uncork.kernels.epilogue import ELEMENT
from uncork.kernels.extents import decline_if, is_empty, same
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Stages,
    shares,
)
from uncork.kernels.layer import joined, staged
from uncork.kernels.movement.nd_copy import Loop, layout_copy, nd_copy, zeros
from uncork.symbolic import SizeLike

#: Products of a sum from which on it pays to bring pixels together after they were computed apart.
_LEAST = 64
#: A convolution of planes.
Planar = Callable[[Work], KernelPlan]


class Moved(Struct, frozen=True):
    """The calls of a convolution of planes with its data, its result and its own memory elsewhere
    in the step's memory.
    """

    native: KernelPlan
    source: SizeLike | None
    target: SizeLike | None
    scratch: SizeLike

    def operand(self, word: Operand) -> Operand:
        if isinstance(word, In) and word.position == 0 and self.source is not None:
            return Scratch(self.source + word.offset)
        if isinstance(word, Out) and self.target is not None:
            return Scratch(self.target + word.offset)
        return Scratch(self.scratch + word.offset) if isinstance(word, Scratch) else word

    def moved_call(self, call: KernelCall) -> KernelCall:
        spec, arguments = call
        return spec, [self.operand(word) for word in arguments]

    def stages(self, threads: int) -> tuple[list[list[KernelCall]], SizeLike]:
        """The work of so many threads, and the memory that it takes."""
        found = self.native.stages(threads)
        return [[*map(self.moved_call, stage)] for stage in found.stages], found.scratch


def over_volumes(
    found: Windows, work: Callable[[Geometry], Work], planar: Planar, lanes: int
) -> KernelPlan:
    """A convolution along three axes: planes are gathered along the first one, and planes of the
    result put in their places.
    """
    depth, rows, columns = found.axes
    groups, outputs, channels, taps = found.filters.shape[:4]
    slices = found.images * depth.count
    own = work(Geometry(slices, groups, channels * taps, outputs, rows, columns))
    decline_if(
        ELEMENT in own.end.operands,
        "no kernel ends a convolution of three spatial axes with another tensor",
    )
    native = planar(
        replace(
            own,
            filters=found.filters.reshape(
                *found.filters.shape[:2], channels * taps, *found.filters.shape[4:]
            ),
        )
    )
    g = own.geometry
    plane, made = g.data_size * 4, g.pixels * 4
    gathered = slices * groups * channels * taps * plane
    result = slices * groups * outputs * made
    moved = Moved(native, 0, gathered, gathered + result)

    def gather() -> Iterator[KernelCall]:
        cells = [
            depth.data_range(
                tap * depth.dilation, depth.count, 1 if depth.lhs_dilation > 1 else depth.stride
            )
            for tap in range(taps)
        ]
        if not all(same(some.length, depth.count) for some in cells):
            yield zeros(Scratch(0), gathered)
        each = groups * channels
        for tap, some in enumerate(cells):
            if is_empty((some.length,)):
                continue
            loops = [
                Loop(found.images, each * depth.size * plane, depth.count * each * taps * plane),
                Loop(some.length, some.step * plane, some.position_step * each * taps * plane),
                Loop(each, depth.size * plane, taps * plane),
            ]
            place = some.position * each * taps * plane + tap * plane
            yield nd_copy(In(0, some.first * plane), Scratch(place), loops, plane)

    def scatter(threads: int) -> list[KernelCall]:
        each = groups * outputs
        calls: list[KernelCall] = []
        for first, number in shares(each, threads):
            loops = [
                Loop(found.images, depth.count * each * made, depth.count * each * made),
                Loop(depth.count, each * made, made),
                Loop(number, made, depth.count * made),
            ]
            source, target = Scratch(gathered + first * made), Out(0, first * depth.count * made)
            calls.append(nd_copy(source, target, loops, made))
        return calls

    def stages(threads: int) -> Stages:
        inner, scratch = moved.stages(threads)
        return Stages(
            [*([call] for call in gather()), *inner, scatter(threads)], gathered + result + scratch
        )

    return staged(stages, native.cost, native.keep, native.kernel)


def phases_pay(found: Windows, operands: Sequence[str]) -> bool:
    """Whether there are so many zeros between the cells that leaving their products out pays."""
    if not are_spread(found.axes) or len(found.axes) > 2 or ELEMENT in operands:
        return False
    return have_phases(found.axes) and prod(found.filters.shape[2:]) >= _LEAST


def by_phases(
    found: Windows, work: Callable[[Geometry], Work], planar: Planar, lanes: int
) -> KernelPlan:
    """A transposed convolution as one convolution of planes for each remainder of positions by the
    strides.
    """
    whole = found.geometry
    groups, outputs, channels = found.filters.shape[:3]
    ordered = found.ordered(whole)
    made: list[tuple[Phase, Phase, Moved]] = []
    for down, across in phases_along((whole.rows, whole.columns)):
        own = work(Geometry(found.images, groups, channels, outputs, down.axis, across.axis))
        some = np.ascontiguousarray(ordered[:, :, :, down.taps][..., across.taps])
        native = planar(
            replace(own, filters=some, type_name=f"{own.type_name} {down.first} {across.first}")
        )
        made.append((down, across, Moved(native, None, 0, 0)))
    each = groups * outputs

    def stages(threads: int) -> Stages:
        parts: list[Stages] = []
        for down, across, moved in made:
            pixels = down.axis.count * across.axis.count
            planes = found.images * each
            size, row = planes * pixels * 4, whole.columns.count * 4
            inner, own = replace(moved, scratch=size).stages(threads)
            loops = [
                Loop(down.axis.count, across.axis.count * 4, down.step * row),
                Loop(across.axis.count, 4, across.step * 4),
            ]
            place = (down.first * whole.columns.count + across.first) * 4
            copies = [
                layout_copy(
                    Scratch(first * pixels * 4),
                    Out(0, first * whole.pixels * 4 + place),
                    [Loop(number, pixels * 4, whole.pixels * 4), *loops],
                )
                for first, number in shares(planes, threads)
            ]
            parts.append(Stages([*inner, copies], size + own))
        # Tables that only this number of threads wants are there by now.
        keep[:] = [kept for _, _, moved in made for kept in moved.native.keep]
        return joined(parts)

    keep: list[object] = []
    first = made[0][2].native
    return staged(stages, first.cost * len(made), keep, first.kernel)
