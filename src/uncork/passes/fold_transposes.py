"""A product reads its second matrix by columns where a transpose only brought these to rows.

`torch.matmul(a, b.transpose(-1, -2))` is written as a Transpose and a MatMul. Kernels of products
read a matrix either way; a transpose of its own is one copy more. Where it moves other axes, too,
what is left of it copies whole rows: heads of `[batch, steps, heads, size]`, say, which are
brought forward.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.ir.model import Model, Node, Source
from uncork.ops.matmul import MatMul
from uncork.passes.match_moves import transpose_order
from uncork.passes.rewrite import NewLayers, readers


def fold_transposes(model: Model) -> Model:
    """The model with such transposes in the flag of the products that read them."""
    read_by = readers(model)
    orders = {
        Source(node.id, 0): order
        for node in model.nodes
        if (order := _to_rows(model, node)) is not None
        and all(_as_second(reader, node) for reader in read_by.get(Source(node.id, 0), []))
    }
    if not orders:
        return model
    layers = NewLayers(model)
    #: What products read in the place of a transpose.
    read: dict[Source, Source] = {}
    for node in model.nodes:
        output = Source(node.id, 0)
        if output in orders:
            *others, rows, columns = orders[output]
            order = [*others, columns, rows]
            data = node.inputs[0]
            plain = order == sorted(order)
            read[output] = data if plain else layers.transposed(node, data, order)
        elif any(source in read for source in node.inputs):
            operation = node.checked_operation
            assert isinstance(operation, MatMul)
            first, second = node.inputs
            turned = MatMul(
                transpose_a=operation.transpose_a, transpose_b=not operation.transpose_b
            )
            inputs = (first, read[second])
            layers.nodes.append(replace(node, inputs=inputs, operation=turned, attributes={}))
        else:
            layers.nodes.append(node)
    return layers.model()


def _to_rows(model: Model, node: Node) -> list[int] | None:
    """The order of a transpose that brings the last axis next to the last; None for all else."""
    order = transpose_order(model, node)
    if order is None or len(order) < 2 or order[-2] != len(order) - 1:
        return None
    return list(order)


def _as_second(reader: Node, transpose: Node) -> bool:
    """Whether a layer is a product whose second matrix, and nothing else, is what a transpose
    makes.
    """
    return isinstance(reader.operation, MatMul) and [
        source.node == transpose.id for source in reader.inputs
    ] == [False, True]
