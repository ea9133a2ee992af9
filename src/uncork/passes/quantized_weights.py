"""Constant weights of quantized layers remember the small numbers that they are made of.

Recognised, as NNCF and POT write them, for filters of a convolution or the matrix of a product:

    Const (i8, u8) -> Convert -> Subtract (zero points) -> Multiply (scales) -> Reshape
    Const (f32, f16) -> FakeQuantize -> Reshape

some steps may be missing. What counts is the value: each output's weights are whole numbers of one
byte times one scale.
"""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.made_constant import Remade
from uncork.internal_ops.quantized import TOLERANCE, QuantizedConstant, QuantizedWeights
from uncork.ir.model import Model, Node, Source
from uncork.ops import Operation
from uncork.ops.arithmetic import Multiply, Subtract
from uncork.ops.convert import Convert1
from uncork.ops.convolution import Convolution1
from uncork.ops.fake_quantize import FakeQuantize
from uncork.ops.matmul import MatMul
from uncork.ops.parameter import Const
from uncork.ops.reshape import Reshape1
from uncork.passes.known_values import computed_value
from uncork.passes.quantized_values import grids
from uncork.passes.rewrite import as_constant, made_constants, readers, replaced
from uncork.types import Array, ElementType, PartialShape


def quantized_weights(model: Model) -> Model:
    """The model with such constants, where the data of their layers are quantized, too."""
    known, read_by = grids(model), readers(model)
    new: dict[int, Node] = {}
    for node in model.nodes:
        if isinstance(node.operation, (Convolution1, MatMul)) and node.inputs[0] in known:
            source = node.inputs[1]
            found = weights_of(model, source, node.operation) if source.node not in new else None
            if found is not None:
                alone = all(_multiplies(reader, source) for reader in read_by[source])
                new[source.node] = _constant(model, source, found, not alone)
    return replaced(model, new)


def _multiplies(node: Node, source: Source) -> bool:
    """Whether the layer reads these weights as weights, and only so."""
    read = [index for index, given in enumerate(node.inputs) if given == source]
    return isinstance(node.operation, (Convolution1, MatMul)) and read == [1]


def made_weights(model: Model) -> Model:
    """The model with such constants as numbers where layers still read them."""
    return made_constants(model, QuantizedConstant)


def weights_of(model: Model, source: Source, product: Operation) -> QuantizedWeights | None:
    """The small numbers that weights of a product are made of."""
    if isinstance(model.by_id[source.node].operation, Const):
        return None
    scale, whole = _scale(model, source), computed_value(model, source)
    if scale is None or whole is None or whole.dtype != np.float32 or not np.isfinite(whole).all():
        return None
    shape, last = whole.shape, False
    if isinstance(product, Convolution1):
        outputs = int(np.prod(shape[: product.lead - 1]))
    else:
        assert isinstance(product, MatMul)
        if whole.ndim != 2:
            return None
        last = not product.transpose_b
        outputs = shape[-1] if last else shape[0]
    scale = np.broadcast_to(scale, shape)
    value, scale = ((a.T if last else a).reshape(outputs, -1) for a in (whole, scale))
    if value.size == 0 or (scale != scale[:, :1]).any() or not np.isfinite(scale).all():
        return None
    scales = np.where(scale[:, 0] == 0, np.float32(1), scale[:, 0]).astype(np.float32)
    steps = value / scales[:, np.newaxis]
    codes = np.rint(steps)
    if np.abs(steps - codes).max() > TOLERANCE or codes.min() < -128 or codes.max() > 127:
        return None
    codes = codes.astype(np.int8)
    if isinstance(product, Convolution1):
        codes = codes.reshape(outputs, *shape[product.lead - 1 :])
    return QuantizedWeights(codes, scales, shape, last)


def _scale(model: Model, source: Source) -> Array | None:
    """The factor of the whole numbers that a tensor is made of, which broadcasts to it; None where
    it is not known.
    """
    node = model.by_id[source.node]
    operation, inputs = node.operation, node.inputs
    if isinstance(operation, Convert1):
        before = model.spec(inputs[0])
        return (
            np.ones((), np.float32) if before.element_type.is_integer else _scale(model, inputs[0])
        )
    if isinstance(operation, Subtract):
        return _scale(model, inputs[0])
    if isinstance(operation, Multiply):
        for one, other in (inputs, inputs[::-1]):
            numbers, scale = _scale(model, one), computed_value(model, other)
            if numbers is not None and scale is not None:
                return np.asarray(numbers * scale.astype(np.float32))
        return None
    if isinstance(operation, FakeQuantize):
        low, high = (computed_value(model, limit) for limit in inputs[3:])
        if low is None or high is None or operation.auto_broadcast != "numpy":
            return None
        return np.asarray((high - low) / np.float32(operation.levels - 1))
    if isinstance(operation, Reshape1):
        scale, shapes = _scale(model, inputs[0]), [model.spec(s).shape for s in (inputs[0], source)]
        if scale is None or not all(shape.is_static for shape in shapes):
            return None
        return np.broadcast_to(scale, shapes[0].static).reshape(shapes[1].static)
    return None


def _constant(model: Model, source: Source, weights: QuantizedWeights, kept: bool) -> Node:
    """The node of the quantized constant; `kept` says that other layers need its value, too."""
    node, shape = model.by_id[source.node], PartialShape(weights.shape)

    def make() -> Array:
        value = computed_value(model, source)
        assert value is not None
        return value

    operation = QuantizedConstant(
        element_type=ElementType.f32,
        shape=shape,
        weights=weights,
        make=Remade(make),
        kept=make() if kept else None,
    )
    return as_constant(node, operation)
