"""The strided copies that rearrange a tensor, for open sizes as well: operations that view it in
more dimensions, permute these, and view the result in fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from uncork.kernels.extents import extents
from uncork.kernels.movement.nd_copy import Copy, permuted
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.ops.shuffle_channels import ShuffleChannels1
from uncork.ops.space_to_depth import DepthToSpace1, SpaceToDepth1
from uncork.types import TensorSpec

Specs = Sequence[TensorSpec]


def depth_to_space_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy]:
    """The copy of DepthToSpace: blocks move from the channels into each spatial axis."""
    block, first = _block(operation)
    batch, _, *sizes = extents(inputs[0])
    depth, count = extents(outputs[0])[1], len(sizes)
    blocks = [block] * count
    view = [batch, *blocks, depth, *sizes] if first else [batch, depth, *blocks, *sizes]
    channels, within = (1 + count, 1) if first else (1, 2)
    pairs = [axis for k in range(count) for axis in (2 + count + k, within + k)]
    return permuted(inputs[0], view, [0, channels, *pairs])


def space_to_depth_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy]:
    """The copy of SpaceToDepth: blocks of each spatial axis move into the channels."""
    block, first = _block(operation)
    batch, _, *sizes = extents(outputs[0])
    view = [batch, extents(inputs[0])[1], *(n for size in sizes for n in (size, block))]
    spatial = list(range(2, len(view), 2))
    within = [axis + 1 for axis in spatial]
    return permuted(
        inputs[0], view, [0, *within, 1, *spatial] if first else [0, 1, *within, *spatial]
    )


def shuffle_channels_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy]:
    """The copy of ShuffleChannels: the groups of an axis and the places in a group are
    transposed.
    """
    shuffle = cast(ShuffleChannels1, operation)
    sizes = list(extents(inputs[0]))
    axis = normalised_axis(operation, shuffle.axis, len(sizes))
    view = [*sizes[:axis], shuffle.group, sizes[axis] // shuffle.group, *sizes[axis + 1 :]]
    order = list(range(len(view)))
    order[axis : axis + 2] = axis + 1, axis
    return permuted(inputs[0], view, order)


def _block(operation: Operation) -> tuple[int, bool]:
    """The size of a block, and whether blocks come before the channels."""
    assert isinstance(operation, (DepthToSpace1, SpaceToDepth1))
    return operation.block_size, operation.mode == "blocks_first"
