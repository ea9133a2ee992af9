"""Selection of the kernel that changes between plain tensors and blocks of channels, by transposed
blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.internal_ops.blocks import ChannelLayout, FromBlocks, ToBlocks
from uncork.kernels.extents import decline_if, extents, is_empty, nanoseconds, product
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Out,
    Scratch,
    Selection,
    Stages,
)
from uncork.kernels.layer import Layer, staged
from uncork.kernels.movement.nd_copy import Loop, nd_copy, zeros
from uncork.kernels.movement.shared_moves import shared_move, shared_moves
from uncork.kernels.movement.transpose import arranged
from uncork.kernels.runtime.target import Target
from uncork.symbolic import SizeLike


def select_blocks(layer: Layer) -> Selection:
    operation, outputs = layer.operation, layer.outputs
    assert isinstance(operation, (ToBlocks, FromBlocks))
    into, layout = isinstance(operation, ToBlocks), operation.layout
    data = layer.input(0)
    images, blocks, *others, block = extents(outputs[0] if into else data)
    decline_if(
        data.element_type.dtype.itemsize != 4 or is_empty((images, blocks, *others, block)),
        "no kernel for empty tensors and others than of 32 bits",
    )
    pixels = product(others)
    if layout.is_full:
        return channels_moved((images * blocks, block, pixels), into, layer.target)
    moves = _Runs(layout, images, pixels, layer.target.lanes)
    calls = [*(moves.into() if into else moves.out())]

    def stages(threads: int) -> Stages:
        return Stages([*shared_moves(calls, threads)], moves.working if into else 0)

    return staged(stages, nanoseconds(images * layout.channels * pixels, 1 / 3))


class _Runs:
    """The calls that move runs of channels, a run after the other: its blocks that are full, then
    what begins the last one.
    """

    def __init__(
        self, layout: ChannelLayout, images: SizeLike, pixels: SizeLike, widest: int
    ) -> None:
        self.layout, self.images, self.pixels, self.widest = layout, images, pixels, widest
        self.plane = pixels * 4
        #: An image in both layouts.
        self.plain, self.blocked = sum(layout.runs) * self.plane, layout.channels * self.plane
        #: The bytes of a block that is not full, of all images, with its zeros.
        self.working = layout.block * images * self.plane

    def _parts(self) -> Iterator[tuple[int, int, int, int]]:
        """Channels that become neighbouring blocks, or the beginning of one: the first, also among
        those with zeros, how many blocks they are, and the channels of each.
        """
        block, plain, blocked = self.layout.block, 0, 0
        for run in self.layout.runs:
            whole, left = divmod(run, block)
            if whole:
                yield plain, blocked, whole, block
            if left:
                yield plain + whole * block, blocked + whole * block, 1, left
            plain, blocked = plain + run, blocked + (whole + bool(left)) * block

    def into(self) -> Iterator[KernelCall]:
        """Planes of what fills no block are laid out, then those of zeros, before all are turned:
        one part is laid out after the other.
        """
        block, plane, planes = self.layout.block, self.plane, self.images * self.plane
        pixels = self.pixels, block * 4
        for plain, blocked, blocks, channels in self._parts():
            source, target = In(0, plain * plane), Out(0, blocked * plane)
            if channels == block:
                loops = [
                    Loop(self.images, self.plain, self.blocked),
                    Loop(blocks, block * plane, block * plane),
                ]
                yield arranged(self.widest, source, target, loops, (block, plane), pixels)
                continue
            in_order = [Loop(self.images, self.plain, plane), Loop(channels, plane, planes)]
            yield nd_copy(source, Scratch(0), in_order, plane)
            yield zeros(Scratch(channels * planes), (block - channels) * planes)
            loops = [Loop(self.images, plane, self.blocked)]
            yield arranged(self.widest, Scratch(0), target, loops, (block, planes), pixels)

    def out(self) -> Iterator[KernelCall]:
        block, plane = self.layout.block, self.plane
        for plain, blocked, blocks, channels in self._parts():
            loops = [
                Loop(self.images, self.blocked, self.plain),
                Loop(blocks, block * plane, block * plane),
            ]
            source, target = In(0, blocked * plane), Out(0, plain * plane)
            sides = (self.pixels, block * 4), (channels, plane)
            yield arranged(self.widest, source, target, loops, *sides)


def channels_moved(
    sizes: tuple[SizeLike, SizeLike, SizeLike], last: bool, target: Target
) -> KernelPlan:
    """A plan that moves the channels of (images, channels, pixels) behind the pixels, or, unless
    `last`, from behind the pixels back before them; elements of 32 bits.
    """
    images, channels, pixels = sizes
    size = channels * pixels * 4
    # Channels are apart in the plain tensor, and neighbours where they are last; pixels the other
    # way round.
    of_channels, of_pixels = (channels, pixels * 4), (pixels, channels * 4)

    sides = (of_channels, of_pixels) if last else (of_pixels, of_channels)
    call = arranged(target.lanes, In(0), Out(0), [Loop(images, size, size)], *sides)
    return shared_move(call, nanoseconds(images * channels * pixels, 1 / 6))
