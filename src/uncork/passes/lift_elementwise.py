"""Element-wise operations that follow a move (Transpose, Reshape) are put before it, where they end
the product or join the layer whose result is moved.

    move(product) -> activation        becomes        move(activation(product))
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from uncork.ir.model import Model, Node, Port, Source
from uncork.kernels.elementwise.lowering import has_lowering
from uncork.passes.fuse_epilogue import is_product
from uncork.passes.rewrite import only_reader, readers
from uncork.types import ElementType

#: Moves that have every element of their input once in their result.
_MOVES = frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze", "View"})


def lift_elementwise(model: Model) -> Model:
    """The model with unary operations put before the moves that they followed."""
    while chains := _chains(model):
        model = _swapped(model, chains)
    return model


def _chains(model: Model) -> list[list[Node]]:
    """The chains to rewrite: a product or element-wise layer, the moves of its result that nothing
    else reads, and a unary operation on the last of them. No two chains have a node in common but
    for an operation that is the first of another chain, which waits for the next round.
    """
    read_by = readers(model)
    result: list[list[Node]] = []
    taken: set[int] = set()
    for node in model.nodes:
        if not _moves(model, node):
            continue
        first = model.by_id[node.inputs[0].node]
        if first.id in taken or not (is_product(model, first) or _by_element(first)):
            continue
        chain: list[Node] = [first]
        reader = only_reader(read_by, first)
        while reader is not None and _moves(model, reader):
            chain.append(reader)
            reader = only_reader(read_by, reader)
        if len(chain) > 1 and reader is not None and _is_unary(model, reader, chain):
            result.append([*chain, reader])
            taken.add(reader.id)
    return result


def _moves(model: Model, node: Node) -> bool:
    """Whether a layer moves its first input, in a way that the model knows."""
    return node.type_name in _MOVES and all(
        model.spec(source).value is not None for source in node.inputs[1:]
    )


def _by_element(node: Node) -> bool:
    return len(node.outputs) == 1 and has_lowering(node.operation)


def _is_unary(model: Model, node: Node, chain: Sequence[Node]) -> bool:
    """Whether a layer computes each element of one tensor, with numbers that are the same for all;
    neither shapes nor types change.
    """
    if not _by_element(node):
        return False
    moved = Source(chain[-1].id, 0)
    others = [model.spec(source) for source in node.inputs if source != moved]
    ranks = [step.outputs[0].spec.rank for step in chain]
    given, made = chain[-1].outputs[0].spec, node.outputs[0].spec
    return (
        len(others) == len(node.inputs) - 1
        and given.element_type is made.element_type is ElementType.f32
        and given.rank == made.rank
        and all(
            spec.value is not None
            and spec.value.size == 1
            and all(rank is not None and spec.value.ndim <= rank for rank in ranks)
            for spec in others
        )
    )


def _swapped(model: Model, chains: Sequence[Sequence[Node]]) -> Model:
    """The nodes of the chains in the new order: the last node of each right after its first one,
    then the moves, all where the last one stood, under the same ids.
    """
    made = {chain[-1].id: _order(chain) for chain in chains}
    gone = {node.id for chain in chains for node in chain[1:]}
    nodes: list[Node] = []
    for node in model.nodes:
        nodes += made.get(node.id, [] if node.id in gone else [node])
    return replace(model, nodes=tuple(nodes))


def _order(chain: Sequence[Node]) -> list[Node]:
    first, *moves, last = chain
    ids = [node.id for node in (*moves, last)]
    moved = Source(moves[-1].id, 0)
    shaped = replace(last.outputs[0].spec, shape=first.outputs[0].spec.shape)
    inputs = tuple(Source(first.id, 0) if source == moved else source for source in last.inputs)
    result = [replace(last, id=ids[0], inputs=inputs, outputs=(Port(shaped),))]
    for move, before, id_ in zip(moves, ids, ids[1:], strict=False):
        inputs = (Source(before, 0), *move.inputs[1:])
        ports = last.outputs if id_ == last.id else move.outputs
        result.append(replace(move, id=id_, inputs=inputs, outputs=ports))
    return result
