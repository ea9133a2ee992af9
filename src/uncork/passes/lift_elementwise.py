"""Element-wise operations that follow a move (Transpose, Reshape) are put before it, where they end
the product or join the layer whose result is moved.

    move(product) -> activation        becomes        move(activation(product))
    reshape(product) + [H, D]                         reshape(product + [H * D])

Other operands are numbers that are the same for all elements; or, where nothing changes its place,
constants along the columns of the product. Behind a Transpose such an operation stays: most are
followed by others that stay as well, and what is moved first is narrower in bf16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.ir.model import Model, Node, Port, Source
from uncork.kernels.elementwise.lowering import has_lowering
from uncork.passes.fuse_epilogue import channel_axis, is_product
from uncork.passes.rewrite import NewLayers, only_reader, readers
from uncork.types import Array, ElementType, PartialShape

#: Moves that have every element of their input once in their result.
_MOVES = frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze", "View"})


class _Chain(Struct, frozen=True):
    """A product or element-wise layer, the moves of its result that nothing else reads, and an
    operation on the last of them, with the constants that it takes before the moves.
    """

    first: Node
    moves: Sequence[Node]
    last: Node
    constants: dict[Source, Array]


def lift_elementwise(model: Model) -> Model:
    """The model with such operations put before the moves that they followed."""
    while chains := _chains(model):
        model = _swapped(model, chains)
    return model


def _chains(model: Model) -> list[_Chain]:
    """The chains to rewrite. No two have a node in common but for an operation that is the first of
    another chain, which waits for the next round.
    """
    read_by = readers(model)
    result: list[_Chain] = []
    taken: set[int] = set()
    for node in model.nodes:
        if not _moves(model, node):
            continue
        first = model.by_id[node.inputs[0].node]
        if first.id in taken or not (is_product(model, first) or _by_element(first)):
            continue
        moves: list[Node] = []
        reader = only_reader(read_by, first)
        while reader is not None and _moves(model, reader):
            moves.append(reader)
            reader = only_reader(read_by, reader)
        constants = _constants(model, first, moves, reader) if reader is not None else None
        if reader is not None and constants is not None:
            result.append(_Chain(first, moves, reader, constants))
            taken.add(reader.id)
    return result


def _moves(model: Model, node: Node) -> bool:
    """Whether a layer moves its first input, in a way that the model knows."""
    return node.type_name in _MOVES and all(
        model.spec(source).value is not None for source in node.inputs[1:]
    )


def _by_element(node: Node) -> bool:
    return len(node.outputs) == 1 and has_lowering(node.operation)


def _constants(
    model: Model, first: Node, moves: Sequence[Node], node: Node
) -> dict[Source, Array] | None:
    """The other operands of a layer that computes each element of one tensor with constants, as
    they are before the moves; None where it computes with anything else, or where shapes or types
    change.
    """
    if not moves or not _by_element(node):
        return None
    moved = Source(moves[-1].id, 0)
    others = [source for source in node.inputs if source != moved]
    given, made = moves[-1].outputs[0].spec, node.outputs[0].spec
    if (
        len(others) != len(node.inputs) - 1
        or not given.element_type is made.element_type is ElementType.f32
        or given.rank is None
        or given.rank != made.rank
    ):
        return None
    ranks = [move.outputs[0].spec.rank for move in (first, *moves)]
    result: dict[Source, Array] = {}
    for source in others:
        value = model.spec(source).value
        if value is not None and value.size > 1:
            value = _before(first, moves, value)
        elif value is None or value.size == 0 or any(n is None or value.ndim > n for n in ranks):
            return None
        if value is None:
            return None
        result[source] = value
    return result


def _before(first: Node, moves: Sequence[Node], value: Array) -> Array | None:
    """A constant that stretches to the last move's result, as one along the columns of the first
    layer's result, or along any dimension of what is no product; None where there is none.
    """
    source, result = (node.outputs[0].spec.shape for node in (first, moves[-1]))
    if source.rank is None or any(move.type_name == "Transpose" for move in moves):
        return None
    own: Sequence[int] = (1,) * (len(result.dims) - value.ndim) + value.shape
    if len(own) > len(result.dims):
        return None
    sizes, made, axis = _known(source), _known(result), channel_axis(first)
    for column in range(source.rank) if axis is None else [axis % source.rank]:
        behind = _dimensions(made, len(made), sizes[column + 1 :])
        along = None if behind is None else _dimensions(made, behind, [sizes[column]])
        if behind is None or along is None:
            continue
        stretched = [1] * along + made[along:behind] + [1] * (len(own) - behind)
        if all(n in (1, most) for n, most in zip(own, stretched, strict=True)):
            return np.broadcast_to(value.reshape(own), stretched).reshape(
                -1, *[1] * (source.rank - 1 - column)
            )
    return None


def _known(shape: PartialShape) -> list[int]:
    """The sizes of a shape, 0 for those that the call tells."""
    return [dim.size if isinstance(dim.size, int) else 0 for dim in shape.dims]


def _dimensions(sizes: Sequence[int], end: int, others: Sequence[int]) -> int | None:
    """The first of the fewest dimensions before `end` that have as many elements as the others;
    None where there are none, or only the call knows.
    """
    wanted = math.prod(others)
    first, count = end, 1
    while 0 < count < wanted and first:
        first -= 1
        count *= sizes[first]
    return first if count == wanted else None


def _swapped(model: Model, chains: Sequence[_Chain]) -> Model:
    """The nodes of the chains in the new order: the last node of each right after its first one,
    then the moves, all where the last one stood, under the same ids.
    """
    layers = NewLayers(model)
    made = {chain.last.id: _order(layers, chain) for chain in chains}
    gone = {node.id for chain in chains for node in (*chain.moves, chain.last)}
    nodes: list[Node] = []
    for node in model.nodes:
        nodes += made.get(node.id, [] if node.id in gone else [node])
    return replace(model, nodes=tuple(nodes))


def _order(layers: NewLayers, chain: _Chain) -> list[Node]:
    first, moves, last = chain.first, chain.moves, chain.last
    ids = [node.id for node in (*moves, last)]
    operands = {
        Source(moves[-1].id, 0): Source(first.id, 0),
        **{
            source: layers.constant(value, layers.spec(source).element_type)
            for source, value in chain.constants.items()
        },
    }
    shaped = replace(last.outputs[0].spec, shape=first.outputs[0].spec.shape)
    inputs = tuple(operands[source] for source in last.inputs)
    result = [*layers.taken(), replace(last, id=ids[0], inputs=inputs, outputs=(Port(shaped),))]
    for move, before, id_ in zip(moves, ids, ids[1:], strict=False):
        inputs = (Source(before, 0), *move.inputs[1:])
        ports = last.outputs if id_ == last.id else move.outputs
        result.append(replace(move, id=id_, inputs=inputs, outputs=ports))
    return result
