"""The tensors of a model that hold levels of a FakeQuantize: its results, and what chooses or moves
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.fused import FusedProduct
from uncork.internal_ops.pooled_values import PooledValues
from uncork.internal_ops.quantized import Grid
from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node, Source
from uncork.kernels.quantized.grids import grid_of
from uncork.ops._common.indices import normalised_axis
from uncork.ops.concat import Concat1
from uncork.ops.interpolate import InterpolateByInputs
from uncork.ops.max_pool import MaxPool1, MaxPool8
from uncork.ops.pad import Pad12
from uncork.ops.reshape import Reshape1
from uncork.ops.squeeze import Squeeze1, Unsqueeze1
from uncork.ops.transpose import Transpose1
from uncork.passes.match_parts import SPLITS, padding, split_axis

POOLS = (MaxPool1, MaxPool8, PooledValues)
#: Layers that choose among the elements of one tensor.
CHOOSING = (*POOLS, *SPLITS, InterpolateByInputs)
MOVES = (Reshape1, Squeeze1, Transpose1, Unsqueeze1, View)


def grids(model: Model) -> dict[Source, Grid]:
    """The grid of each such tensor: its limits are those of the numbers that it holds."""
    result: dict[Source, Grid] = {}
    for node in model.nodes:
        for number in range(len(node.outputs)):
            source = Source(node.id, number)
            grid = _grid(model, source, result)
            if grid is not None:
                result[source] = grid
    return result


def rounding_of(model: Model, node: Node) -> Grid | None:
    """The grid of a FakeQuantize, or of one that ends a product, with its own limits."""
    operation = node.operation
    if node.hints.in_f32:
        return None
    if not isinstance(operation, FusedProduct):
        limits = [model.spec(source) for source in node.inputs[1:]]
        return grid_of(operation, limits, node.outputs[0].spec.rank if node.outputs else None)
    member = operation.members[-1]
    others = len(node.inputs) - operation.given
    if not all(1 <= number <= others for number in member.arguments[1:]):
        return None
    limits = [
        model.spec(node.inputs[operation.given + number - 1]) for number in member.arguments[1:]
    ]
    return grid_of(member.operation, limits, node.outputs[0].spec.rank)


def _grid(model: Model, source: Source, found: dict[Source, Grid]) -> Grid | None:
    node = model.by_id[source.node]
    operation = node.operation
    if isinstance(operation, SPLITS):
        return _part(model, source, found.get(node.inputs[0]))
    if source.output:
        return None
    if isinstance(operation, InterpolateByInputs) and not _takes_nearest(model, node):
        return None
    if isinstance(operation, CHOOSING):
        return found.get(node.inputs[0])
    if isinstance(operation, Concat1):
        return _joined(model, node, [found.get(source) for source in node.inputs])
    if isinstance(operation, MOVES):
        moved = found.get(node.inputs[0])
        return None if moved is None or moved.channels else moved
    if isinstance(operation, Pad12):
        return _padded(model, node, found.get(node.inputs[0]))
    grid = rounding_of(model, node)
    return None if grid is None else of_values(grid)


def _joined(model: Model, node: Node, grids: Sequence[Grid | None]) -> Grid | None:
    """The grid of tensors that lie one after the other: that of all, or, where they are channels,
    one with limits of its own for each channel.
    """
    known = [grid for grid in grids if grid is not None]
    if len(known) < len(grids) or any(grid.levels != known[0].levels for grid in known):
        return None
    if not known[0].channels and all(grid == known[0] for grid in known):
        return known[0]
    if not is_joined(model, node):
        return None
    counts = [int(model.spec(source).shape[1]) for source in node.inputs]
    limits = (
        [np.broadcast_to(getattr(grid, name), n) for grid, n in zip(known, counts, strict=True)]
        for name in Grid.__struct_fields__[1:]
    )
    return Grid(known[0].levels, *(tuple(np.concatenate(parts).tolist()) for parts in limits))


def is_joined(model: Model, node: Node) -> bool:
    """Whether a layer is a Concat of known numbers of channels of images."""
    operation = node.operation
    if not isinstance(operation, Concat1):
        return False
    shapes = [model.spec(source).shape for source in node.inputs]
    rank = shapes[0].rank
    return (
        rank is not None
        and rank > 2
        and normalised_axis(operation, operation.axis, rank) == 1
        and all(shape.rank == rank and shape[1].is_static for shape in shapes)
    )


def _padded(model: Model, node: Node, grid: Grid | None) -> Grid | None:
    """The grid of what a Pad makes of a tensor on one: the same where zeros are levels of it, and
    nothing is beside channels that have limits of their own.
    """
    if grid is None or grid.zero is None or padding(model, node) != 0:
        return None
    around = [model.spec(source).value for source in node.inputs[1:3]]
    alone = not grid.channels or all(
        numbers is not None and len(numbers) > 1 and numbers[1] == 0 for numbers in around
    )
    return grid if alone else None


def _takes_nearest(model: Model, node: Node) -> bool:
    """Whether an Interpolate gives elements of its data."""
    operation, rank = node.operation, model.spec(node.inputs[0]).rank
    assert isinstance(operation, InterpolateByInputs)
    return (
        rank is not None
        and operation.mode == "nearest"
        and not any(begin or end for begin, end in operation.pads(rank))
    )


def _part(model: Model, source: Source, grid: Grid | None) -> Grid | None:
    """The grid of a part of a tensor, of which channels that are cut have their own limits."""
    if grid is None or not grid.channels:
        return grid
    node = model.by_id[source.node]
    axis = split_axis(model, node)
    if axis != 1:
        return None if axis is None else grid
    sizes = [port.spec.shape[1] for port in node.outputs[: source.output + 1]]
    if not all(size.is_static for size in sizes):
        return None
    first, end = (sum(map(int, sizes[:n])) for n in (source.output, source.output + 1))
    limits = (getattr(grid, name) for name in Grid.__struct_fields__[1:])
    return Grid(
        grid.levels,
        *(limit[first:end] if isinstance(limit, tuple) else limit for limit in limits),
    )


def of_values(grid: Grid) -> Grid:
    """The grid with the output limits as input limits, too: it rounds the numbers that codes stand
    for to themselves.
    """
    return replace(grid, input_low=grid.output_low, input_high=grid.output_high)
