"""Moves of what other moves made are one: nothing is copied twice.

A Concat of two slices rolls a tensor or turns its halves, one of four slices with steps takes
blocks apart, and exporters write a slice for each axis. A move whose results only moves read is
made a member of these, which take their pieces from where they lie.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.internal_ops.fused import Moved
from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import has_extents
from uncork.kernels.runtime.target import Target
from uncork.passes.rewrite import as_members, has_kernel, readers, replaced

_MOVES = frozenset({"Concat", "Slice", "Split", "StridedSlice", "Transpose", "VariadicSplit"})
#: Members of one layer at most: each piece of a result goes through all of them.
_MOST_MEMBERS = 64


def join_moves(model: Model, target: Target) -> Model:
    """The model, whose shapes are those of the call, with moves in the place of those that read
    nothing but other moves, where there are kernels for these.
    """
    read_by = readers(model)
    moves = {node.id: node for node in model.nodes if _is_move(node)}
    inner = {number for number, node in moves.items() if _only_moved(node, read_by, moves)}
    copying = _copying(moves, inner)
    position = {number: place for place, number in enumerate(moves)}
    new: dict[int, Node] = {}
    waiting = [node for number, node in moves.items() if number not in inner]
    tried = {node.id for node in waiting}
    while waiting:
        node = waiting.pop()
        before = {source.node for source in _data(node) if source.node in inner}
        if not before:
            continue
        joined = _joined(node, inner, moves, position) if node.id in copying else None
        if joined is not None and has_kernel(model, joined, target):
            new[node.id] = joined
        else:
            waiting += [moves[number] for number in sorted(before - tried)]
            tried |= before
    return replaced(model, new)


def _is_move(node: Node) -> bool:
    """Whether a layer moves values that no plan knows, of sizes that plans know."""
    return node.type_name in _MOVES and all(
        port.spec.value is None and not port.spec.elements and has_extents(port.spec)
        for port in node.outputs
    )


def _only_moved(
    node: Node, read_by: Mapping[Source, list[Node]], moves: Mapping[int, Node]
) -> bool:
    """Whether all that read a result are moves, and move it."""
    found = [
        (source, reader)
        for source in (Source(node.id, number) for number in range(len(node.outputs)))
        for reader in read_by.get(source, [])
    ]
    return bool(found) and all(
        reader.id in moves and source in _data(reader) and source not in _others(reader)
        for source, reader in found
    )


def _data(node: Node) -> tuple[Source, ...]:
    """What a move moves."""
    return node.inputs if node.type_name == "Concat" else node.inputs[:1]


def _others(node: Node) -> tuple[Source, ...]:
    return () if node.type_name == "Concat" else node.inputs[1:]


def _joined(
    node: Node, inner: set[int], moves: Mapping[int, Node], position: Mapping[int, int]
) -> Node | None:
    """A move with those before it as members, each at its position in the model; None where these
    are too many.
    """
    if len(node.outputs) != 1:
        return None
    found = {node.id: node}
    waiting = [node]
    while waiting:
        for source in _data(waiting.pop()):
            if source.node in inner and source.node not in found:
                found[source.node] = moves[source.node]
                waiting.append(moves[source.node])
        if len(found) > _MOST_MEMBERS:  # a chain of thousands is not walked from each of its layers
            return None
    outside, members = as_members(
        [found[number] for number in sorted(found, key=position.__getitem__)]
    )
    return replace(node, inputs=outside, operation=Moved(members))


def _copying(moves: Mapping[int, Node], inner: set[int]) -> set[int]:
    """The moves that copy what they read whatever happens before them. Tensors that are joined may
    be made in their places.
    """
    copying: set[int] = set()
    for number, node in moves.items():  # each after those that it reads
        if node.type_name != "Concat" or all(
            source.node in inner and source.node in copying for source in _data(node)
        ):
            copying.add(number)
    return copying
