"""Selection of the kernel that changes between plain tensors and blocks of channels, by transposed
blocks.
"""

from __future__ import annotations

from uncork.internal_ops.blocks import ToBlocks
from uncork.kernels.extents import decline_if, extents, is_empty, nanoseconds, product
from uncork.kernels.kernel_plan import In, KernelPlan, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.movement.nd_copy import Loop
from uncork.kernels.movement.shared_moves import shared_move
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
    return channels_moved((images * blocks, block, product(others)), into, target)


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
