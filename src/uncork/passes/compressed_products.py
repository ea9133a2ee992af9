"""Matrix products read constant weights as they are stored: the f32 matrix is never made.

What is recognised says `stored_values`: zero points and scales are one for all, for each column of
the product, or for each group of so many rows that follow each other. The arithmetic is in f32, or
in f16.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.internal_ops.compressed_linear import CompressedLinear, CompressedMatrix
from uncork.internal_ops.rounded import Rounded
from uncork.ir.model import Model, Node, Source
from uncork.kernels.compressed.select import declined, rounded_to
from uncork.kernels.runtime.target import Target
from uncork.ops.convert import Convert1
from uncork.ops.matmul import MatMul
from uncork.passes.rewrite import replaced
from uncork.passes.stored_values import stored_values
from uncork.passes.widen_halves import EXACT
from uncork.types import ElementType


def compressed_products(model: Model, target: Target) -> Model:
    """The model with such products, where there are kernels for them, holding their weights as they
    are stored.
    """
    known: dict[tuple[Source, bool, str], CompressedMatrix | None] = {}
    new: dict[int, Node] = {}
    brains: frozenset[Source] | None = None
    for node in model.nodes:
        product = node.operation
        if not isinstance(product, MatMul) or product.transpose_a or not _is_linear(model, node):
            continue
        key = node.inputs[1], bool(product.transpose_b), node.hints.decompression
        if key not in known:
            stored = stored_values(model, key[0])
            found = None if stored is None else stored.matrix(key[1])
            if found is not None and found.half and key[2] == "f32":
                found = replace(found, half=False)
            known[key] = found
        weights = known[key]
        if weights is not None and not declined(weights, target):
            numbers = ElementType.f32
            if weights.element_type is ElementType.bf16:
                brains = _brains(model) if brains is None else brains
                numbers = ElementType.bf16 if node.inputs[0] in brains else numbers
            activations = rounded_to(weights, target, node.hints.activations)
            operation = CompressedLinear(product, weights, numbers, activations)
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
