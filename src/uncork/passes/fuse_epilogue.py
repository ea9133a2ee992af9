"""Element-wise operations that end a product with constant weights, or a normalisation, become its
epilogue: bias, activation, residual, any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from uncork.internal_ops.compressed_linear import CompressedLinear, FusedCompressedLinear
from uncork.internal_ops.fused import (
    FusedConvolution,
    FusedLinear,
    FusedNormalization,
    FusedProduct,
)
from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import extents, has_extents
from uncork.kernels.gemm.select_matmul import unsuited
from uncork.kernels.select_epilogue import ending
from uncork.ops.matmul import MatMul
from uncork.passes.known_values import is_known
from uncork.passes.rewrite import as_members, readers, replaced
from uncork.types import ElementType

_NORMALISATIONS = frozenset({"ChannelNormalization", "GroupNormalization"})
#: By the type of a product: what it becomes with its end, and the axis of its result along which
#: its columns or channels lie.
_PRODUCTS: Mapping[str, tuple[type[FusedProduct], int]] = {
    "MatMul": (FusedLinear, -1),
    "CompressedLinear": (FusedCompressedLinear, -1),
    **dict.fromkeys(_NORMALISATIONS, (FusedNormalization, 1)),
    **dict.fromkeys(
        (
            "Convolution",
            "ConvolutionBackpropData",
            "GroupConvolution",
            "GroupConvolutionBackpropData",
        ),
        (FusedConvolution, 1),
    ),
}
#: The most operations, and the most other tensors, at the end of one product: what a kernel holds
#: in registers beside the sums.
_MOST_MEMBERS, _MOST_OTHERS = 12, 4


def fuse_epilogue(model: Model) -> Model:
    """The model with each product fused with the operations that follow it, under the last one's
    id, as far as nothing else reads the results in between.
    """
    products = [node for node in model.nodes if is_product(model, node)]
    new = {fused.id: fused for _, fused in ended(model, products, lambda source: True)}
    return replaced(model, new)


def ended(
    model: Model, products: Sequence[Node], counts: Callable[[Source], bool]
) -> list[tuple[Node, Node]]:
    """The products, of those given, that operations follow: each in order with the fused node of
    both, which has the last one's id.

    `counts` says which other tensors a kernel would hold in registers.
    """
    read_by = readers(model)
    order = {node.id: index for index, node in enumerate(model.nodes)}
    new: list[tuple[Node, Node]] = []
    gone: set[int] = set()
    # The last product first: of two that are added it takes the sum, and has the other one's result
    # at hand.
    for node in reversed(products):
        members = _closed(node, _following(model, node, order, read_by, gone, counts), read_by)
        if members:
            new.append((node, _fused(node, members)))
            gone.update(member.id for member in members)
    return new


def is_product(model: Model, node: Node) -> bool:
    """Whether a kernel multiplies with constant weights or normalises, so that what follows may end
    it.
    """
    if node.type_name not in _PRODUCTS or node.operation is None:
        return False
    data = model.spec(node.inputs[0])
    if data.element_type is not ElementType.f32:
        return False
    if isinstance(node.operation, CompressedLinear):
        return True
    if node.type_name in _NORMALISATIONS:
        return has_extents(data)
    weights = model.spec(node.inputs[1])
    if not is_known(model, node.inputs[1]):
        return False
    if not isinstance(node.operation, MatMul) or not (has_extents(data) and has_extents(weights)):
        return True
    # What a reference multiplies is better ended by a kernel.
    return not unsuited(node.operation, extents(data), extents(weights))


def channel_axis(node: Node) -> int | None:
    """The axis of a product's result along which its columns or channels lie; None of what is no
    product.
    """
    return _PRODUCTS[node.type_name][1] if node.type_name in _PRODUCTS else None


def _following(
    model: Model,
    product: Node,
    order: Mapping[int, int],
    read_by: Mapping[Source, list[Node]],
    gone: set[int],
    counts: Callable[[Source], bool],
) -> list[Node]:
    """The operations, in order, that a kernel could do at the end of a product."""
    _, axis = _PRODUCTS[product.type_name]
    result = product.outputs[0].spec
    inside = {Source(product.id, 0)}
    others: set[Source] = set()
    results: list[Node] = []
    waiting = {reader.id: reader for reader in read_by.get(Source(product.id, 0), ())}
    while waiting and len(results) < _MOST_MEMBERS:
        node = waiting.pop(min(waiting, key=order.__getitem__))
        own = [source in inside for source in node.inputs]
        outside = {source for source in node.inputs if source not in inside and counts(source)}
        if node.id in gone or len(node.outputs) != 1 or len(others | outside) > _MOST_OTHERS:
            continue
        made = node.outputs[0].spec
        if made.rank != result.rank or made.element_type is not result.element_type:
            continue  # a conversion, or a comparison
        if (
            ending(
                node.operation, [model.spec(source) for source in node.inputs], own, result, axis
            )
            is None
        ):
            continue
        results.append(node)
        others |= outside
        inside.add(Source(node.id, 0))
        waiting |= {reader.id: reader for reader in read_by.get(Source(node.id, 0), ())}
    return results


def _closed(
    product: Node, following: list[Node], read_by: Mapping[Source, list[Node]]
) -> list[Node]:
    """The most of these operations with no result in between that anything else reads."""
    for count in range(len(following), 0, -1):
        members = following[:count]
        ids = {member.id for member in members}
        between = [product, *members[:-1]]
        if all(
            reader.id in ids for node in between for reader in read_by.get(Source(node.id, 0), ())
        ):
            return members
    return []


def _fused(product: Node, members: list[Node]) -> Node:
    made, _ = _PRODUCTS[product.type_name]
    (_, *others), fused = as_members(members, [Source(product.id, 0)])
    operation = made(product.checked_operation, len(product.inputs), fused)
    inputs = (*product.inputs, *others)
    return replace(members[-1], inputs=inputs, operation=operation, hints=product.hints)
