"""Changes of layout beside transposes are one move: channels that come last lie in rows of blocks.

Around convolutions of transformers tensors are transposed, `[N, pixels, C]` to `[N, C, H, W]`, and
back behind them. Where such a convolution is done over blocks of channels, its transpose and the
change of layout together move whole blocks of neighbours, which is about what the transpose took.
"""

from __future__ import annotations

from collections.abc import Mapping

from uncork.internal_ops.blocks import FromBlocks, ToBlocks
from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import same
from uncork.kernels.select import is_view
from uncork.passes.match_moves import sizes_of, transpose_order
from uncork.passes.rewrite import NewLayers, readers, replaced
from uncork.types import PartialShape


def block_borders(model: Model) -> Model:
    """The model with one move in the place of each change of layout, in full blocks, and the
    transpose that it follows or that follows it.
    """
    read_by, layers = readers(model), NewLayers(model)
    made: dict[int, list[Node]] = {}
    for node in model.nodes:
        operation = node.operation
        if not isinstance(operation, (FromBlocks, ToBlocks)) or not operation.layout.is_full:
            continue
        if isinstance(operation, ToBlocks):
            if _taken_in(model, layers, node, operation.layout.block):
                made[node.id] = layers.taken()
            continue
        for behind in transposes_behind(model, read_by, Source(node.id, 0)):
            _taken_out(layers, node, behind)
            made[behind.id] = layers.taken()
    return replaced(model, made)


def transpose_before(model: Model, source: Source) -> Node | None:
    """The transpose of channels that come last which makes a tensor, perhaps in another shape of
    its pixels; None where there is none.
    """
    node = model.by_id[source.node]
    while _keeps_channels(model, node):
        node = model.by_id[node.inputs[0].node]
    return node if _order_in(model, node) else None


def transposes_behind(
    model: Model, read_by: Mapping[Source, list[Node]], source: Source
) -> list[Node]:
    """The transposes that put the channels of a tensor last again, perhaps from another shape of
    its pixels; none where anything else reads the tensor.
    """
    found: list[Node] = []
    for reader in read_by.get(source, ()):
        if _order_out(model, reader):
            found.append(reader)
            continue
        below = (
            transposes_behind(model, read_by, Source(reader.id, 0))
            if _keeps_channels(model, reader)
            else []
        )
        if not below:
            return []
        found += below
    return found


def _order_in(model: Model, node: Node) -> bool:
    """Whether a layer puts the last axis behind the first one, and all else stays in order."""
    order = transpose_order(model, node)
    rank = len(order) if order else 0
    return rank > 2 and order == (0, rank - 1, *range(1, rank - 1))


def _order_out(model: Model, node: Node) -> bool:
    """Whether a layer puts the second axis last, and all else stays in order."""
    order = transpose_order(model, node)
    rank = len(order) if order else 0
    return rank > 2 and order == (0, *range(2, rank), 1)


def _keeps_channels(model: Model, node: Node) -> bool:
    """Whether a layer gives pixels other sizes, behind images and channels that stay."""
    if not is_view(node.operation):
        return False
    before, after = sizes_of(model, node.inputs[0]), sizes_of(model, Source(node.id, 0))
    return (
        before is not None
        and after is not None
        and min(len(before), len(after)) > 2
        and all(same(one, other) for one, other in zip(before[:2], after[:2], strict=True))
    )


def _taken_in(model: Model, layers: NewLayers, node: Node, block: int) -> bool:
    """Add what takes the blocks of a tensor from where its channels come last; False where they do
    not.
    """
    before = transpose_before(model, node.inputs[0])
    if before is None:
        return False
    source = before.inputs[0]
    images, *pixels, channels = layers.spec(source).shape.dims
    blocks = PartialShape([int(channels) // block, block]).dims
    viewed = layers.viewed(node, source, [images, *pixels, *blocks])
    rank = len(pixels) + 3
    moved = layers.transposed(node, viewed, [0, rank - 2, *range(1, rank - 2), rank - 1])
    layers.viewed(node, moved, node.outputs[0].spec.shape.dims)
    layers.finish(node)
    return True


def _taken_out(layers: NewLayers, node: Node, behind: Node) -> None:
    """Add, in the place of a transpose, what puts channels last that lie in the blocks which a
    change of layout reads.
    """
    (source,) = node.inputs
    images, *pixels, channels = behind.outputs[0].spec.shape.dims
    blocks, block = layers.spec(source).shape.dims[1], layers.spec(source).shape.dims[-1]
    viewed = layers.viewed(behind, source, [images, blocks, *pixels, block])
    rank = len(pixels) + 3
    moved = layers.transposed(behind, viewed, [0, *range(2, rank - 1), 1, rank - 1])
    layers.viewed(behind, moved, [images, *pixels, channels])
    layers.finish(behind)
