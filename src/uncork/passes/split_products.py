"""A product with stored weights whose columns are cut into equal parts is one product for each: each
part is written where it is read, and ends with what follows it alone.

    CompressedLinear -> Add of a constant -> Reshape to [.., parts, ..] -> Transpose -> Split by
        parts -> Squeeze

The keys, queries and values of attention come from one such product in many encoders. The Add and
the Transpose may be missing; nothing else may read what lies between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.ir.model import Model, Node, Source
from uncork.ops.arithmetic import Add
from uncork.ops.reshape import Reshape1
from uncork.ops.split import Split1
from uncork.ops.squeeze import Squeeze1
from uncork.passes.match_moves import transpose_order
from uncork.passes.rewrite import NewLayers, only_before, readers, replaced
from uncork.types import Array, ElementType


class _Cut(Struct, frozen=True):
    """A product, the constant that is added, the sizes of the axes that its columns become, how
    many axes come before these, the order in which they are brought, and what reads each part.
    """

    product: Node
    bias: Array | None
    sizes: Sequence[int]
    lead: int
    order: Sequence[int]
    parts: Sequence[Sequence[Node]]


def split_products(model: Model) -> Model:
    """The model with such products apart."""
    read_by = readers(model)
    layers = NewLayers(model)
    new: dict[int, list[Node]] = {}
    moved: dict[Source, Source] = {}
    for node in model.nodes:
        cut = _cut(model, read_by, node)
        if cut is not None:
            for number, reading in enumerate(cut.parts):
                part = _part(layers, cut, number)
                moved |= {Source(reader.id, 0): part for reader in reading}
            new[node.id] = layers.taken()
    return replaced(model, new, moved)


def _cut(model: Model, read_by: Mapping[Source, list[Node]], node: Node) -> _Cut | None:
    """The product whose columns a Split cuts."""
    if not isinstance(node.operation, Split1):
        return None
    axis = model.spec(node.inputs[1]).value
    rank = model.spec(node.inputs[0]).rank
    before = only_before(model, read_by, node, 0)
    if axis is None or rank is None or before is None:
        return None
    order = transpose_order(model, before)
    if order is None:
        order = tuple(range(rank))
    else:
        before = only_before(model, read_by, before, 0)
    if before is None or not isinstance(before.operation, Reshape1):
        return None
    shape = before.outputs[0].spec.shape
    place = order[int(axis.reshape(-1)[0]) % rank]
    lead = len(model.spec(before.inputs[0]).shape.dims) - 1
    sizes = shape.dims[lead:]
    if place != lead or not all(size.is_static for size in sizes):
        return None
    before = only_before(model, read_by, before, 0)
    bias = None
    if before is not None and isinstance(before.operation, Add):
        bias = _constant(model, before)
        before = None if bias is None else only_before(model, read_by, before, 0)
    if before is None or not isinstance(before.operation, CompressedLinear):
        return None
    weights, columns = before.operation.weights, np.prod([int(size) for size in sizes])
    parts = [_squeezes(model, read_by, Source(node.id, n)) for n in range(len(node.outputs))]
    whole = (
        len(before.inputs) == 1
        and len(parts) == int(sizes[0])
        and columns == weights.columns
        and weights.can_be_cut
        and shape.dims[:lead] == model.spec(Source(before.id, 0)).shape.dims[:-1]
    )
    if not whole or not all(parts):
        return None
    return _Cut(before, bias, [int(size) for size in sizes], lead, order, parts)


def _constant(model: Model, node: Node) -> Array | None:
    """The numbers, one for each column or one for all, that an Add adds to its first input."""
    value = model.spec(node.inputs[1]).value
    columns = model.spec(node.inputs[0]).shape.dims[-1]
    if value is None or value.size == 0 or value.shape[-1:] != (value.size,):
        return None
    whole = columns.is_static and value.size in (1, int(columns))
    return np.broadcast_to(value.reshape(-1), (int(columns),)) if whole else None


def _squeezes(model: Model, read_by: Mapping[Source, list[Node]], source: Source) -> list[Node]:
    """The layers that drop the axis of a part, where only such read it."""
    split = model.by_id[source.node]
    reading = list(read_by.get(source, ()))
    axis = model.spec(split.inputs[1]).known.reshape(-1)
    rank = len(split.outputs[0].spec.shape.dims)
    for reader in reading:
        axes = model.spec(reader.inputs[1]).value if len(reader.inputs) == 2 else None
        alone = axes is not None and axes.size == 1
        if not isinstance(reader.operation, Squeeze1) or not alone:
            return []
        if axes.reshape(-1)[0] % rank != axis[0] % rank:
            return []
    return reading


def _part(layers: NewLayers, cut: _Cut, number: int) -> Source:
    """The product of a part of the columns, moved to where it is read."""
    product, operation = cut.product, cut.product.operation
    assert isinstance(operation, CompressedLinear)
    first, _, *sizes = (cut.lead, *cut.sizes)
    count = int(np.prod(sizes))
    columns = slice(number * count, (number + 1) * count)
    name = f"{product.name}/{number}"
    own = operation.replace(weights=operation.weights.cut(columns))
    part = layers.put(own, *product.inputs, name=name)
    if cut.bias is not None:
        bias = layers.constant(cut.bias[columns], ElementType.f32, f"{name}/summand")
        part = layers.put(Add(auto_broadcast="numpy"), part, bias, name=f"{name}/sum")
    node = layers.nodes[-1]
    shape = layers.spec(part).shape
    part = layers.viewed(node, part, [*shape.dims[:first], *sizes])
    order = [place - (place > first) for place in cut.order if place != first]
    return layers.ordered(node, part, range(len(order)), order)
