"""Quantized depthwise convolutions as calls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from uncork.kernels.convolution.tiles import tiles_of
from uncork.kernels.extents import nanoseconds
from uncork.kernels.kernel_plan import KernelCall, KernelPlan, Stages, shares
from uncork.kernels.layer import staged
from uncork.kernels.quantized.layout import CodesWork, Laid
from uncork.kernels.quantized.spec import DepthwiseOfCodes
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.runtime.target import Target
from uncork.symbolic import SizeLike
from uncork.types import Array

#: Pixels of a tile, where there are 32 vector registers and 16: neighbours at a stride of 1, and
#: else, when they share fewer cells.
_MANY_PIXELS, _FEW_PIXELS = (8, 5), (4, 2)
#: Rough products in a nanosecond, per lane of a vector.
_RATE = 3.0


class _DepthwiseCalls(Laid):
    """The calls of one convolution."""

    def __init__(self, work: CodesWork, target: Target) -> None:
        lanes = target.lanes
        while lanes > 4 and lanes > work.outputs:
            lanes //= 2
        super().__init__(work, lanes, 1)
        g = self.g
        pixels = _MANY_PIXELS if target.vector_registers > 16 else _FEW_PIXELS
        self.widths, self.counts = tiles_of(g.columns.count, pixels[g.columns.stride > 1])
        self.packed_weights = packed(
            [work.weights.codes], ("apart", self.channels, g.weights), self._packed
        )
        self.channel = self.channel_arrays(self.channels)
        self.keep += [self.packed_weights, self.channel]

    def _packed(self) -> list[Array]:
        """The weights as numbers of f32, `[tap, channel]`."""
        found = np.zeros((self.g.rows.taps * self.g.columns.taps, self.channels), np.float32)
        found[:, : self.work.outputs] = self.work.codes.reshape(self.work.outputs, -1).T
        return [found]

    def compute(
        self, images: tuple[SizeLike, SizeLike], rows: tuple[SizeLike, SizeLike]
    ) -> KernelCall:
        """The call that computes some rows of the result."""
        g, work = self.g, self.work
        end = work.end.spec
        spec = DepthwiseOfCodes(
            self.lanes, g.rows.taps, g.columns.taps, g.columns.stride, g.columns.dilation,
            self.channels, self.widths, end,
        )  # fmt: skip
        channel, across = address_of(self.channel), self.channel.shape[1] * 4
        return spec(
            **self.row_operands(images, rows, 0),
            weights=address_of(self.packed_weights.arrays[0]),
            start=channel,
            scale=channel + across,
            shift=channel + 2 * across,
            tap_row=g.rows.dilation * self.row,
            **({f"tiles_{kind}": count for kind, count in enumerate(self.counts)}),
        )

    def stages(self, threads: int) -> Stages:
        found: list[list[KernelCall]] = []
        for images in self.images:
            found += [[call] for call in self.lay_out(images)]
            found.append(list(self._shared(images, threads)))
        return Stages(found, self.laid_out)

    def _shared(self, images: tuple[SizeLike, SizeLike], threads: int) -> Iterator[KernelCall]:
        for rows in shares(self.g.rows.count, threads):
            yield self.compute(images, rows)


def depthwise_sums(work: CodesWork, target: Target) -> KernelPlan:
    """The calls of a quantized depthwise convolution."""
    maker = _DepthwiseCalls(work, target)
    g = work.geometry
    cost = nanoseconds(g.images * g.pixels, work.outputs * g.inner / (_RATE * maker.lanes))
    return staged(maker.stages, cost, maker.keep)
