"""Convolutions of three axes over blocks of channels: slices are gathered so that each window sees
one plane of more channels.

Slices whose windows see the same taps along the first axis are computed together: taps in the
padding are not multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from uncork.kernels.convolution.blocked_work import BlockedWork
from uncork.kernels.convolution.blocks import direct_over_blocks
from uncork.kernels.convolution.blocks_apart import filter_bytes, tile_for, winograd_over_blocks
from uncork.kernels.convolution.by_planes import Moved
from uncork.kernels.convolution.geometry import Geometry, Windows, Work, all_finite, known
from uncork.kernels.convolution.tap_regions import runs_of_taps
from uncork.kernels.convolution.tiles import is_few
from uncork.kernels.epilogue import ELEMENT
from uncork.kernels.extents import is_known
from uncork.kernels.kernel_plan import In, KernelCall, KernelPlan, Out, Scratch, Stages, shares
from uncork.kernels.layer import staged
from uncork.kernels.movement.nd_copy import Loop, zeros
from uncork.kernels.movement.transpose import blocks_fit, transpose_call
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import bounded

#: More images would be too many calls.
_MOST_IMAGES = 8
#: Slices that see other taps are computed apart where that saves such a part of the products.
_SAVED = 0.2
#: Bytes that are gathered at a time, where one slice needs no more, and of transformed filters.
_SCRATCH_BYTES, _MOST_FILTERS = 1 << 24, 1 << 26


class _Slices(Struct, frozen=True):
    """Slices of the result, and the taps along the first axis that they see, each as (first,
    number).
    """

    slices: tuple[int, int]
    taps: tuple[int, int]


def fits_blocks(found: Windows, operands: Sequence[str], inner: int, lanes: int) -> bool:
    """Whether the convolution can run over blocks of `inner` channels of its data and `lanes` of
    its result; 0: there are none.
    """
    if (
        not inner
        or not lanes
        or ELEMENT in operands
        or any(axis.is_open or axis.lhs_dilation > 1 for axis in found.axes)
    ):
        return False
    if not is_known(found.images) or known(found.images) > _MOST_IMAGES or len(found.filters) > 1:
        return False
    _, rows, columns = found.axes
    plane = Geometry(1, 1, inner, lanes, rows, columns)
    turned = blocks_fit(min(inner, lanes), plane.data_size) and blocks_fit(
        min(inner, lanes), plane.pixels
    )
    return turned and not is_few(plane) and all_finite(found.filters)


class _VolumeCalls:
    """The calls of one convolution."""

    def __init__(
        self,
        found: Windows,
        work: Callable[[Geometry], Work],
        inner: int,
        lanes: int,
        direct_sums: bool,
        target: Target,
    ) -> None:
        self.found, self.work, self.inner, self.lanes = found, work, inner, lanes
        self.direct_sums, self.target = direct_sums, target
        self.depth, self.rows, self.columns = found.axes
        _, self.outputs, self.channels = found.filters.shape[:3]
        self.plane_size = known(self.rows.size) * known(self.columns.size)
        self.pixels = known(self.rows.count) * known(self.columns.count)
        self.natives = [(run, self._planes(run)) for run in self._runs()]
        self.keep: list[object] = []

    def _runs(self) -> Iterator[_Slices]:
        """The runs of slices that are computed together."""
        count, taps = known(self.depth.count), self.depth.taps
        apart = [_Slices(slices, some) for slices, some in runs_of_taps(self.depth)]
        products = sum(run.slices[1] * run.taps[1] for run in apart)
        if products > (1 - _SAVED) * count * taps or any(not run.taps[1] for run in apart):
            apart = [_Slices((0, count), (0, taps))]
        for run in apart:
            pieces = -(
                -known(self.found.images) * run.slices[1] * self._gathered(run) // _SCRATCH_BYTES
            )
            for first, number in shares(run.slices[1], pieces):
                yield _Slices((run.slices[0] + first, number), run.taps)

    def _gathered(self, run: _Slices) -> int:
        """Bytes of a plane of all channels that a window of a run sees."""
        gathered: int = run.taps[1] * self.channels * self.plane_size * 4
        return gathered

    def _planes(self, run: _Slices) -> KernelPlan:
        """The convolution of the planes of a run."""
        first, taps = run.taps
        images = known(self.found.images) * run.slices[1]
        g = Geometry(images, 1, taps * self.channels, self.outputs, self.rows, self.columns)
        filters = np.moveaxis(self.found.filters[0][:, :, first : first + taps], 2, 1)
        filters = np.ascontiguousarray(filters).reshape(
            1, self.outputs, g.channels, g.rows.taps, g.columns.taps
        )
        own = self.work(g)
        blocked = BlockedWork(
            g,
            filters,
            own.source,
            self.inner,
            self.lanes,
            *bounded(own.end, own.others),
            (own.type_name, run.taps),
        )
        side = 0 if self.direct_sums else tile_for(g, self.target)
        if side and filter_bytes(g, side) <= _MOST_FILTERS:
            return winograd_over_blocks(blocked, side, self.target)
        return direct_over_blocks(blocked, self.target)

    def gather(self, run: _Slices) -> Iterator[KernelCall]:
        """What the windows of a run see, `[images * slices, taps * blocks, rows, columns,
        inner]`.
        """
        images, slices, taps = known(self.found.images), run.slices[1], run.taps[1]
        plane, image, block = (
            self.plane_size * 4,
            self._gathered(run),
            self.plane_size * self.inner * 4,
        )
        blocks, size = self.channels // self.inner, known(self.depth.size)
        begins = [
            run.slices[0] * self.depth.stride + (run.taps[0] + tap) * self.depth.dilation
            for tap in range(taps)
        ]
        seen = [self.depth.data_range(begin, slices, self.depth.stride) for begin in begins]
        if any(known(seen_range.length) < slices for seen_range in seen):
            yield zeros(Scratch(0), images * slices * image)
        for index in range(images):
            for tap, seen_range in enumerate(seen):
                if not known(seen_range.length):
                    continue
                source = In(0, (index * self.channels * size + seen_range.first) * plane)
                target = Scratch(
                    (index * slices + seen_range.position) * image + tap * blocks * block
                )
                loops = [
                    Loop(
                        seen_range.length, seen_range.step * plane, seen_range.position_step * image
                    ),
                    Loop(blocks, self.inner * size * plane, block),
                ]
                yield transpose_call(
                    self.target.lanes,
                    source,
                    target,
                    loops,
                    (self.inner, size * plane),
                    (self.plane_size, self.inner * 4),
                )

    def scatter(self, run: _Slices, made: int) -> list[KernelCall]:
        """The calls that copy the slices of a run, which lie from `made` on, to their places in the
        result.
        """
        plane, block = self.pixels * 4, self.pixels * self.lanes * 4
        slices, count, blocks = run.slices[1], known(self.depth.count), self.outputs // self.lanes
        calls: list[KernelCall] = []
        for index in range(known(self.found.images)):
            source = Scratch(made + index * slices * self.outputs * plane)
            target = Out(0, (index * self.outputs * count + run.slices[0]) * plane)
            loops = [
                Loop(slices, self.outputs * plane, plane),
                Loop(blocks, block, self.lanes * count * plane),
            ]
            sides = (self.pixels, self.lanes * 4), (self.lanes, count * plane)
            calls.append(transpose_call(self.target.lanes, source, target, loops, *sides))
        return calls

    def stages(self, threads: int) -> Stages:
        calls: list[list[KernelCall]] = []
        most = 0
        for run, native in self.natives:
            images = known(self.found.images) * run.slices[1]
            made = images * self._gathered(run)
            scratch = made + images * self.outputs * self.pixels * 4
            inner, own = Moved(native, 0, made, scratch).stages(threads)
            calls += [*([call] for call in self.gather(run)), *inner, self.scatter(run, made)]
            most = max(most, scratch + known(own))
        self.keep[:] = [kept for _, native in self.natives for kept in native.keep]
        return Stages(calls, most)


def over_volumes_in_blocks(
    found: Windows,
    work: Callable[[Geometry], Work],
    inner: int,
    lanes: int,
    direct_sums: bool,
    target: Target,
) -> KernelPlan:
    """The calls of a convolution that `fits_blocks`."""
    maker = _VolumeCalls(found, work, inner, lanes, direct_sums, target)
    cost = sum(
        float(native.cost) for _, native in maker.natives if isinstance(native.cost, (int, float))
    )
    return staged(maker.stages, cost, maker.keep, maker.natives[0][1].kernel)
