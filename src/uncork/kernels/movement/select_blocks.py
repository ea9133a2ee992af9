"""Selection of the kernel that changes between plain tensors and blocks of channels, by transposed
blocks.
"""

from __future__ import annotations

from uncork.internal_ops.blocks import ToBlocks
from uncork.kernels.extents import (
    certainly,
    decline_if,
    extents,
    is_empty,
    nanoseconds,
    product,
    same,
)
from uncork.kernels.kernel_plan import In, KernelPlan, Out, Scratch, Selection, Stages
from uncork.kernels.layer import Layer, staged
from uncork.kernels.movement.nd_copy import Loop, nd_copy, zeros
from uncork.kernels.movement.shared_moves import shared_move, shared_moves
from uncork.kernels.movement.transpose import arranged
from uncork.kernels.runtime.target import Target
from uncork.symbolic import SizeLike


def select_blocks(layer: Layer) -> Selection:
    operation, outputs, target = layer.operation, layer.outputs, layer.target
    into = isinstance(operation, ToBlocks)
    data = layer.input(0)
    blocked = extents(outputs[0] if into else data)
    decline_if(
        data.element_type.dtype.itemsize != 4 or is_empty(blocked),
        "no kernel for empty tensors and others than of 32 bits",
    )
    images, blocks, *others, block = blocked
    if into:
        channels = extents(data)[1]
        if not same(channels, blocks * block):
            decline_if(not certainly(blocks, 1), "no kernel for several blocks, the last not full")
            return _filled(images, (channels, block), product(others), target)
    return channels_moved((images * blocks, block, product(others)), into, target)


def _filled(
    images: SizeLike, channels: tuple[SizeLike, SizeLike], pixels: SizeLike, target: Target
) -> KernelPlan:
    """A plan that makes the only block of images, which have fewer channels than it, both in
    `channels`. The planes of each channel are laid out, then those of zeros, before all are turned.
    """
    given, block = channels
    plane, planes = pixels * 4, images * pixels * 4
    in_order = [Loop(images, given * plane, plane), Loop(given, plane, planes)]
    calls = [
        nd_copy(In(0), Scratch(0), in_order, plane),
        zeros(Scratch(given * planes), (block - given) * planes),
        arranged(
            *(target.lanes, Scratch(0), Out(0), [Loop(images, plane, block * plane)]),
            *((block, planes), (pixels, block * 4)),
        ),
    ]

    def stages(threads: int) -> Stages:
        return Stages([*shared_moves(calls, threads)], block * planes)

    return staged(stages, nanoseconds(images * block * pixels, 1 / 3))


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
