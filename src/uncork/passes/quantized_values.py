"""The tensors of a model that hold levels of a FakeQuantize: its results, and what chooses or moves
them.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.internal_ops.fused import FusedProduct
from uncork.internal_ops.pooled_values import PooledValues
from uncork.internal_ops.quantized import Grid
from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node, Source
from uncork.kernels.quantized.grids import grid_of
from uncork.ops.concat import Concat1
from uncork.ops.max_pool import MaxPool1, MaxPool8
from uncork.ops.reshape import Reshape1
from uncork.ops.squeeze import Squeeze1, Unsqueeze1
from uncork.ops.transpose import Transpose1

POOLS = (MaxPool1, MaxPool8, PooledValues)
_MOVES = (Reshape1, Squeeze1, Transpose1, Unsqueeze1, View)


def grids(model: Model) -> dict[Source, Grid]:
    """The grid of each such tensor: its limits are those of the numbers that it holds."""
    result: dict[Source, Grid] = {}
    for node in model.nodes:
        grid = _grid(model, node, result)
        if grid is not None:
            result[Source(node.id, 0)] = grid
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


def _grid(model: Model, node: Node, found: dict[Source, Grid]) -> Grid | None:
    operation = node.operation
    if isinstance(operation, POOLS):
        return found.get(node.inputs[0])
    if isinstance(operation, (*_MOVES, Concat1)):
        moved = node.inputs if isinstance(operation, Concat1) else node.inputs[:1]
        first, *others = (found.get(source) for source in moved)
        alike = first is not None and not first.channels
        return first if alike and all(other == first for other in others) else None
    grid = rounding_of(model, node)
    return None if grid is None else of_values(grid)


def of_values(grid: Grid) -> Grid:
    """The grid with the output limits as input limits, too: it rounds the numbers that codes stand
    for to themselves.
    """
    return replace(grid, input_low=grid.output_low, input_high=grid.output_high)
