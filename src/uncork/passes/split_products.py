"""A product with constant weights whose columns are cut into equal parts is one product for each
part, which is written where it is read, and ends with what follows it alone.

    MatMul or CompressedLinear -> Add of a constant -> Reshape to [.., parts, ..] -> Transpose
        -> Split by parts -> Squeeze

The keys, queries and values of attention come from one such product in many encoders. The Add and
the Transpose may be missing; nothing else may read what lies between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.internal_ops.made_constant import Remade
from uncork.internal_ops.quantized import QuantizedConstant
from uncork.ir.model import Model, Node, Source
from uncork.ops.arithmetic import Add
from uncork.ops.matmul import MatMul
from uncork.ops.parameter import Const
from uncork.ops.reshape import Reshape1
from uncork.ops.split import Split1
from uncork.ops.squeeze import Squeeze1
from uncork.passes.match_moves import transpose_order
from uncork.passes.match_parts import split_axis
from uncork.passes.rewrite import NewLayers, only_before, readers, replaced
from uncork.types import Array, Dimension, ElementType, PartialShape

_F32 = ElementType.f32


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
    axis, before = split_axis(model, node), only_before(model, read_by, node, 0)
    if axis is None or before is None:
        return None
    order = transpose_order(model, before)
    reshape = before if order is None else only_before(model, read_by, before, 0)
    order = order or tuple(range(len(node.outputs[0].spec.shape.dims)))
    if reshape is None or not isinstance(reshape.operation, Reshape1):
        return None
    found = _product(model, read_by, reshape)
    if found is None:
        return None
    product, bias = found
    made, shape = product.outputs[0].spec, reshape.outputs[0].spec.shape
    lead = len(made.shape.dims) - 1
    sizes = shape.dims[lead:]
    if order[axis] != lead or not all(size.is_static for size in sizes):
        return None
    parts = [_squeezes(model, read_by, Source(node.id, n)) for n in range(len(node.outputs))]
    counts = [int(size) for size in sizes]
    whole = (
        len(parts) == counts[0]
        and math.prod(counts) == made.shape[-1].size
        and shape.dims[:lead] == made.shape.dims[:-1]
    )
    return _Cut(product, bias, counts, lead, order, parts) if whole and all(parts) else None


def _product(
    model: Model, read_by: Mapping[Source, list[Node]], node: Node
) -> tuple[Node, Array | None] | None:
    """The product that only this layer reads, and the constant that is added to it first."""
    before, bias = only_before(model, read_by, node, 0), None
    if before is not None and isinstance(before.operation, Add):
        bias = _constant(model, before)
        before = None if bias is None else only_before(model, read_by, before, 0)
    made = None if before is None else before.outputs[0].spec
    if before is None or made is None or made.rank is None:
        return None
    return (before, bias) if made.element_type is _F32 and _has_columns(model, before) else None


def _has_columns(model: Model, node: Node) -> bool:
    """Whether a layer is a product with weights that can be cut."""
    operation = node.operation
    if isinstance(operation, CompressedLinear):
        return len(node.inputs) == 1 and not operation.lead and operation.weights.can_be_cut
    if not isinstance(operation, MatMul):
        return False
    constant = model.by_id[node.inputs[1].node].operation
    return isinstance(constant, Const) and len(constant.shape.dims) == 2


def _constant(model: Model, node: Node) -> Array | None:
    """The numbers, one for each column or one for all, that an Add adds to its first input."""
    value, columns = model.spec(node.inputs[1]).value, model.spec(node.inputs[0]).shape[-1].size
    rank = len(model.spec(node.inputs[0]).shape.dims)
    if value is None or value.ndim > rank or not isinstance(columns, int):
        return None
    of_columns = value.size == 1 or value.shape[-1:] == (value.size,) == (columns,)
    return np.broadcast_to(value.reshape(-1), (columns,)) if of_columns else None


def _squeezes(model: Model, read_by: Mapping[Source, list[Node]], source: Source) -> list[Node]:
    """The layers that drop the axis of a part, where only such read it."""
    split = model.by_id[source.node]
    reading = list(read_by.get(source, ()))
    rank = len(split.outputs[0].spec.shape.dims)
    axis = split_axis(model, split)
    for reader in reading:
        if not isinstance(reader.operation, Squeeze1) or len(reader.inputs) != 2:
            return []
        axes = model.spec(reader.inputs[1]).value
        if axes is None or axes.size != 1 or int(axes.item()) % rank != axis:
            return []
    return reading


def _part(layers: NewLayers, cut: _Cut, number: int) -> Source:
    """The product of a part of the columns, moved to where it is read."""
    product = cut.product
    first, _, *sizes = (cut.lead, *cut.sizes)
    count = math.prod(sizes)
    columns = slice(number * count, (number + 1) * count)
    name = f"{product.name}/{number}"
    operation, inputs = product.checked_operation, list(product.inputs)
    if isinstance(operation, CompressedLinear):
        operation = operation.replace(weights=operation.weights.cut(columns))
    else:
        inputs[1] = layers.put(_some_columns(layers.old, product, columns), name=f"{name}/weights")
    part = layers.put(operation, *inputs, name=name)
    if cut.bias is not None:
        bias = layers.constant(cut.bias[columns], _F32, f"{name}/summand")
        part = layers.put(Add(auto_broadcast="numpy"), part, bias, name=f"{name}/sum")
    node = layers.nodes[-1]
    shape = layers.spec(part).shape
    part = layers.viewed(node, part, [*shape.dims[:first], *map(Dimension.of, sizes)])
    order = [place - (place > first) for place in cut.order if place != first]
    return layers.ordered(node, part, range(len(order)), order)


def _some_columns(model: Model, product: Node, columns: slice) -> Const:
    """The constant of some columns of a MatMul."""
    constant = model.by_id[product.inputs[1].node].operation
    assert isinstance(constant, Const)
    last = not getattr(product.operation, "transpose_b", False)
    part = (slice(None), columns) if last else (columns,)
    if not isinstance(constant, QuantizedConstant):
        return Const.of_array(constant.element_type, np.ascontiguousarray(constant.value[part]))
    weights = constant.weights.cut(columns)
    return QuantizedConstant(
        element_type=constant.element_type,
        shape=PartialShape(weights.shape),
        weights=weights,
        make=Remade(lambda: np.ascontiguousarray(constant.value[part])),
        kept=None if constant.kept is None else np.ascontiguousarray(constant.kept[part]),
    )
