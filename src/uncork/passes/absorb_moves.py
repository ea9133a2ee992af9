"""Layers element by element read what is moved from where it lies.

A Split, a Slice or a Transpose makes a copy for a kernel that reads it along rows, too, if it is
told where they begin. It becomes a member of every layer that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.internal_ops.fused import Fused
from uncork.ir.model import Model, Node, Source
from uncork.kernels.elementwise.lowering import has_lowering
from uncork.kernels.extents import extents, has_extents
from uncork.kernels.runtime.target import Target
from uncork.passes.rewrite import all_readers, as_members, has_kernel, readers, replaced

#: Operations that move one tensor, of which their results are parts.
_MOVES = frozenset({"Moved", "Slice", "Split", "StridedSlice", "Transpose", "VariadicSplit"})
#: Rows shorter than this are better copied: the kernel would compute with parts of vectors.
_SHORT_ROW = 16


def absorb_moves(model: Model, target: Target) -> Model:
    """The model, whose shapes are those of the call, without moves of which nobody but layers
    element by element reads a result, where there are kernels for these.
    """
    read_by = readers(model)
    moves = {
        node.id: node
        for node in model.nodes
        if node.type_name in _MOVES and _is_for_rows(node) and _all_compute(model, node, read_by)
    }
    while moves:
        new: dict[int, Node] = {}
        kept: set[int] = set()
        reading = {r.id: r for node in moves.values() for r in all_readers(read_by, node)}
        for reader in reading.values():
            fused = _reading(model, reader, moves)
            if has_kernel(model, fused, target):
                new[reader.id] = fused
            else:
                kept |= {source.node for source in reader.inputs} & moves.keys()
        if not kept:
            return replaced(model, new)
        moves = {number: node for number, node in moves.items() if number not in kept}
    return model


def _is_for_rows(node: Node) -> bool:
    """Whether the results have rows that are long enough, and no values that plans know."""
    specs = [port.spec for port in node.outputs]
    if any(spec.value is not None or spec.elements or not has_extents(spec) for spec in specs):
        return False
    rows = [extents(spec)[-1:] for spec in specs]
    return all(row and not (isinstance(row[0], int) and row[0] < _SHORT_ROW) for row in rows)


def _all_compute(model: Model, node: Node, read_by: Mapping[Source, list[Node]]) -> bool:
    """Whether all that read a result compute element by element, and do not read sizes in it."""
    found = all_readers(read_by, node)
    return bool(found) and all(
        (isinstance(reader.operation, Fused) or has_lowering(reader.operation))
        and len(reader.outputs) == 1
        and reader.outputs[0].spec.value is None
        for reader in found
    )


def _reading(model: Model, reader: Node, moves: Mapping[int, Node]) -> Node:
    """A layer with the moves that it reads as its first members."""
    own = dict.fromkeys(source.node for source in reader.inputs if source.node in moves)
    outside, members = as_members([*(moves[number] for number in own), reader])
    if isinstance(reader.operation, Fused):
        places = members.pop().arguments
        made = sum(len(moves[number].outputs) for number in own)
        more = len(outside) + made - len(places)
        for member in reader.operation.members:
            arguments = (places[n] if n < len(places) else n + more for n in member.arguments)
            members.append(replace(member, arguments=tuple(arguments)))
    return replace(reader, inputs=outside, operation=Fused(members))
