"""Matrix products read constant weights as they are stored: the f32 matrix is never made.

Recognised, as converters and NNCF write it, for a matrix in f32:

    Const (f16, bf16, i8, u8, i4, u4, nf4) -> Convert -> Subtract (zero points)
        -> Multiply (scales) -> Reshape -> Convert -> MatMul

every step but the first Convert may be missing; zero points and scales are one for all, for each
column of the product, or for each group of so many rows that follow each other, constants or
converted constants. The arithmetic is in f32, or in f16.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.compressed_linear import CompressedLinear, CompressedMatrix
from uncork.internal_ops.packed_const import PackedConst
from uncork.internal_ops.rounded import Rounded
from uncork.ir.model import Model, Node, Source
from uncork.kernels.compressed.select import declined
from uncork.kernels.runtime.target import Target
from uncork.ops.arithmetic import Multiply, Subtract
from uncork.ops.convert import Convert1
from uncork.ops.matmul import MatMul
from uncork.ops.parameter import Const
from uncork.ops.reshape import Reshape1
from uncork.passes.rewrite import constant_of_floats, replaced
from uncork.passes.widen_halves import EXACT
from uncork.types import Array, ElementType

_STORED = frozenset(
    ElementType.parse(name) for name in ("f16", "bf16", "i8", "u8", "i4", "u4", "nf4")
)


def compressed_products(model: Model, target: Target) -> Model:
    """The model with such products, where there are kernels for them, holding their weights as they
    are stored.
    """
    known: dict[tuple[Source, bool], CompressedMatrix | None] = {}
    new: dict[int, Node] = {}
    brains: frozenset[Source] | None = None
    for node in model.nodes:
        product = node.operation
        if not isinstance(product, MatMul) or product.transpose_a or not _is_linear(model, node):
            continue
        key = node.inputs[1], bool(product.transpose_b)
        if key not in known:
            known[key] = _matrix(model, *key)
        weights = known[key]
        if weights is not None and not declined(weights, target):
            numbers = ElementType.f32
            if weights.element_type is ElementType.bf16:
                brains = _brains(model) if brains is None else brains
                numbers = ElementType.bf16 if node.inputs[0] in brains else numbers
            operation = CompressedLinear(product, weights, numbers)
            new[node.id] = replace(node, inputs=node.inputs[:1], operation=operation)
    return replaced(model, new) if new else model


def _brains(model: Model) -> frozenset[Source]:
    """The tensors of f32 all of whose numbers are numbers of bf16."""
    found: set[Source] = set()
    for node in model.nodes:
        operation = node.operation
        if operation is None:
            continue
        if isinstance(operation, Rounded):
            exact = operation.element_type is ElementType.bf16
        elif isinstance(operation, Convert1):
            exact = model.spec(node.inputs[0]).element_type is ElementType.bf16
        else:
            singles = [s for s in node.inputs if model.spec(s).element_type is ElementType.f32]
            exact = (operation.moves_values or node.type_name in EXACT) and bool(singles)
            exact = exact and all(source in found for source in singles)
        if exact:
            found |= {
                Source(node.id, index)
                for index, port in enumerate(node.outputs)
                if port.spec.element_type is ElementType.f32
            }
    return frozenset(found)


def _is_linear(model: Model, node: Node) -> bool:
    """Whether a MatMul multiplies rows of f32 by a matrix that is not folded to a constant, as
    small ones are.
    """
    data, matrix = (model.spec(source) for source in node.inputs)
    rows = data.rank is not None and data.rank >= 2 and data.element_type is ElementType.f32
    return rows and matrix.rank == 2 and matrix.shape.is_static and matrix.value is None


def _matrix(model: Model, source: Source, transposed: bool) -> CompressedMatrix | None:
    """The compressed matrix of a product; None where the layers that make it are not of the form
    described above.
    """
    shape = model.spec(source).shape.static
    node, half = model.by_id[source.node], False
    if isinstance(node.operation, Convert1) and not isinstance(
        _before(model, node).operation, Const
    ):
        if model.spec(node.inputs[0]).element_type is not ElementType.f16:
            return None
        node, half = _before(model, node), True
    if isinstance(node.operation, Reshape1):
        node = _before(model, node)
    wide = node.outputs[0].spec.shape
    axes = _axes(wide.static, shape, transposed) if wide.is_static else None
    if axes is None:
        return None
    scales = zeros = None
    if isinstance(node.operation, Multiply):
        found = next(
            (
                (i, p)
                for i in (1, 0)
                if (p := _parameter(model, node.inputs[i], wide.static, axes)) is not None
            ),
            None,
        )
        if found is None:
            return None
        scales, node = found[1], model.by_id[node.inputs[1 - found[0]].node]
    if isinstance(node.operation, Subtract) and node.outputs[0].spec.shape == wide:
        zeros, node = _parameter(model, node.inputs[1], wide.static, axes), _before(model, node)
        if zeros is None:
            return None
    constant = _before(model, node).operation if isinstance(node.operation, Convert1) else None
    if (
        not isinstance(constant, Const)
        or constant.element_type not in _STORED
        or constant.shape != wide
    ):
        return None
    if half and constant.element_type is ElementType.bf16:  # which the first Convert would round
        return None
    sizes = wide.static
    if len(sizes) == 2:
        sizes = (sizes[0], 1, sizes[1]) if transposed else (1, *sizes)
    if isinstance(constant, PackedConst):
        codes, packed = constant.packed, sizes
    else:
        codes, packed = constant.value.reshape(sizes), None
    return CompressedMatrix(constant.element_type, codes, axes, zeros, scales, half, packed)


def _before(model: Model, node: Node) -> Node:
    return model.by_id[node.inputs[0].node]


def _axes(
    stored: tuple[int, ...], shape: tuple[int, ...], transposed: bool
) -> tuple[int, int, int] | None:
    """The axes of the constant, as one of three, that are columns, groups and places in a group."""
    if len(stored) == 2 and stored == shape:
        return (0, 1, 2) if transposed else (2, 0, 1)
    if len(stored) != 3:
        return None
    columns, groups, size = stored if transposed else (stored[2], stored[0], stored[1])
    merged = (columns, groups * size) if transposed else (groups * size, columns)
    return None if merged != shape else (0, 1, 2) if transposed else (2, 0, 1)


def _parameter(
    model: Model, source: Source, stored: tuple[int, ...], axes: tuple[int, int, int]
) -> Array | None:
    """Zero points or scales as f32 [columns or 1, groups or 1].

    None when they are not constants, or differ within a group.
    """
    value = constant_of_floats(model, source)
    if value is None or value.ndim > len(stored):
        return None
    sizes = (1,) * (len(stored) - value.ndim) + value.shape
    if any(size not in (1, whole) for size, whole in zip(sizes, stored, strict=True)):
        return None
    value = value.reshape(sizes)
    if len(stored) == 2:
        value = np.expand_dims(value, 1 if axes == (0, 1, 2) else 0)
    value = value.transpose(axes)
    return value[:, :, 0].astype(np.float32) if value.shape[2] == 1 else None
