"""Matrix products read constant weights as they are stored: the f32 matrix is never made.

What is recognised says `stored_values`: zero points and scales are one for all, for each column of
the product, or for each group of so many rows that follow each other. The arithmetic is in f32, or
in f16. Of experts, which are matrices in a tensor of more axes, all multiply, or those that a
Gather along the first axis takes.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.internal_ops.compressed_linear import CompressedLinear, CompressedMatrix
from uncork.internal_ops.rounded import Rounded
from uncork.ir.model import Model, Node, Source
from uncork.kernels.compressed.select import declined, rounded_to
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import multiplies_pairs
from uncork.ops.convert import Convert1
from uncork.ops.matmul import MatMul
from uncork.passes.experts_first import axes_of_matrices
from uncork.passes.match_parts import gathered_axis
from uncork.passes.rewrite import replaced
from uncork.passes.stored_values import RESHAPES, stored_values
from uncork.passes.widen_halves import EXACT
from uncork.types import ElementType


def compressed_products(model: Model, target: Target) -> Model:
    """The model with such products, where there are kernels for them, holding their weights as they
    are stored.
    """
    known: dict[tuple[Source, bool, str], tuple[CompressedMatrix | None, Node | None]] = {}
    new: dict[int, Node] = {}
    brains: frozenset[Source] | None = None
    for node in model.nodes:
        product = node.operation
        if not isinstance(product, MatMul) or product.transpose_a or not _is_linear(model, node):
            continue
        key = node.inputs[1], bool(product.transpose_b), node.hints.decompression
        if key not in known:
            chosen, after = chosen_matrices(model, key[0]) or (None, [])
            start = chosen.inputs[0] if chosen else key[0]
            stored = stored_values(model, start, after, rounds=key[2] == "as-written")
            known[key] = None if stored is None else stored.matrix(key[1]), chosen
        weights, chosen = known[key]
        if weights is not None and not (declined(weights) or _is_held(node, weights, target)):
            numbers = ElementType.f32
            if weights.element_type is ElementType.bf16:
                brains = _brains(model) if brains is None else brains
                numbers = ElementType.bf16 if node.inputs[0] in brains else numbers
            activations = rounded_to(weights, target, node.hints.activations)
            lead = model.spec(node.inputs[1]).shape.static[:-2]
            choice = None if chosen is None else chosen.operation
            given = (node.inputs[0], *([] if chosen is None else chosen.inputs[1:2]))
            operation = CompressedLinear(product, weights, numbers, activations, lead, choice)
            hints = replace(node.hints, note=_note(operation))
            new[node.id] = replace(node, inputs=given, operation=operation, hints=hints)
    return replaced(model, new)


def _is_held(node: Node, weights: CompressedMatrix, target: Target) -> bool:
    """Whether a product reads its weights of 16 bits as bf16, which `hold_halves` does."""
    allowed = node.hints.precision == "bf16" and multiplies_pairs(target)
    return allowed and weights.element_type in (ElementType.f16, ElementType.bf16)


def _note(operation: CompressedLinear) -> str:
    """What the plan says of a product: what its weights are, and what is rounded."""
    weights, activations = operation.weights, operation.activations
    rows = "" if activations == "f32" else f", rows in {activations}"
    return f"weights in {weights.element_type}{' by f16' if weights.half else ''}{rows}"


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
    small ones are; or by several, each of them so many rows.
    """
    data, matrix = (model.spec(source) for source in node.inputs)
    if data.rank is None or data.rank < 2 or data.element_type is not ElementType.f32:
        return False
    if not matrix.shape.is_static or (matrix.rank or 0) < 2 or matrix.value is not None:
        return False
    lead = matrix.shape.static[:-2]
    one = all(size == 1 for size in lead)
    known = one or all(dim.is_static for dim in data.shape.dims[:-2])
    return known or axes_of_matrices(data, lead) is not None  # which `experts_first` looks after


def chosen_matrices(model: Model, source: Source) -> tuple[Node, list[Node]] | None:
    """The Gather along the first axis that a tensor of matrices comes of, where only the call knows
    what it takes, and the layers behind it, which change types and first axes alone; None where
    there is none.
    """
    after: list[Node] = []
    matrix = model.spec(source).shape
    node = model.by_id[source.node]
    while isinstance(node.operation, (Convert1, *RESHAPES)):
        before = model.spec(node.inputs[0]).shape
        if not (before.is_static and matrix.is_static) or before.static[-2:] != matrix.static[-2:]:
            return None
        after.append(node)
        node = model.by_id[node.inputs[0].node]
    if gathered_axis(model, node) != 0:
        return None
    data, indices = (model.spec(given) for given in node.inputs[:2])
    told = indices.value is None and indices.shape.is_static and 0 not in indices.shape.static
    return (node, after[::-1]) if told and data.rank == 3 else None
