"""Fusion of element-wise operations that feed each other: no result between them is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from uncork.internal_ops.fused import Fused
from uncork.ir.model import Model, Node, Source
from uncork.kernels.elementwise.lowering import has_lowering
from uncork.kernels.elementwise.select import PendingMember, expression
from uncork.kernels.extents import KernelDeclined, extents, has_extents, same_extents
from uncork.kernels.runtime.target import Target
from uncork.passes.rewrite import as_members, readers, replaced
from uncork.symbolic import Size

#: The most operations, and the most inputs, of one step: kernels stay quick to compile, and their
#: values in registers.
_MOST_MEMBERS, _MOST_INPUTS = 24, 12
#: Elements of a row from which on a value for the whole row may be computed beside it.
_LONG_ROW = 16


def fuse_elementwise(model: Model, target: Target) -> Model:
    """Trees of element-wise operations as one `Fused` node each, under the last one's id and all
    their names.

    The shapes of the model must be those of the call. A result that anything outside the tree reads
    stays a step of its own, and so does one that the tree would compute several times over because
    its reader stretches it.
    """
    candidates = {
        node.id: index
        for index, node in enumerate(model.nodes)
        if _is_candidate(model, node, target)
    }
    if len(candidates) < 2:
        return model
    read_by = readers(model)
    new: dict[int, Node] = {}
    gone: set[int] = set()
    for root in reversed(model.nodes):
        if root.id in gone or root.id not in candidates:
            continue
        members = _grown(model, root, candidates, read_by)
        fused = (
            _fused(model, sorted(members.values(), key=lambda node: candidates[node.id]), target)
            if len(members) > 1
            else None
        )
        if fused is not None:
            new[root.id] = fused
            gone.update(members)
    return replaced(model, new)


def _is_candidate(model: Model, node: Node, target: Target) -> bool:
    if not has_lowering(node.operation) or len(node.outputs) != 1:
        return False
    specs = [node.outputs[0].spec, *(model.spec(source) for source in node.inputs)]
    if specs[0].value is not None or not all(has_extents(spec) for spec in specs):
        return False
    if _tells_sizes(node):
        return False
    return _fits(model, [node], {}, target)


def _tells_sizes(node: Node) -> bool:
    """Whether sizes may be made of the numbers that a layer computes: they are read where it stores
    them.
    """
    elements = node.outputs[0].spec.elements or ()
    return any(
        symbol.origin.node == node.id
        for element in elements
        if isinstance(element, Size)
        for symbol in element.symbols
    )


def _grown(
    model: Model, root: Node, candidates: Mapping[int, int], read_by: Mapping[Source, list[Node]]
) -> dict[int, Node]:
    """The root and everything before it that only the tree reads."""
    members = {root.id: root}
    outside = dict.fromkeys(root.inputs)
    too_wide: set[Source] = set()

    def joins(source: Source) -> bool:
        if (
            source.node not in candidates
            or source in too_wide
            or not all(reader.id in members for reader in read_by[source])
        ):
            return False
        shape, whole = extents(model.spec(source)), extents(root.outputs[0].spec)
        # The same number of dimensions: nobody may read it aligned in another way than at the
        # right.
        if len(shape) != len(whole):
            return False
        # One value for all of a long row is computed once a row, before it.
        if same_extents(shape, whole):
            return True
        row = whole[-1] if whole else 0
        return (
            len(shape) > 1
            and same_extents(shape, (*whole[:-1], 1))
            and (not isinstance(row, int) or row >= _LONG_ROW)
        )

    while len(members) < _MOST_MEMBERS:
        found = next((source for source in outside if joins(source)), None)
        if found is None:
            break
        node = model.by_id[found.node]
        wider = dict.fromkeys((*(source for source in outside if source != found), *node.inputs))
        if len(wider) > _MOST_INPUTS:
            too_wide.add(found)
        else:
            members[node.id] = node
            outside = wider
    return members


def _fits(
    model: Model, nodes: Sequence[Node], places: Mapping[Source, tuple[bool, int]], target: Target
) -> bool:
    """Whether there is a kernel for these operations as one expression."""
    try:
        expression([_part(model, node, places) for node in nodes], target)
    except KernelDeclined:
        return False
    return True


def _part(model: Model, node: Node, places: Mapping[Source, tuple[bool, int]]) -> PendingMember:
    inputs = tuple(places.get(source, (True, index)) for index, source in enumerate(node.inputs))
    return PendingMember(
        node.checked_operation,
        inputs,
        tuple(model.spec(source) for source in node.inputs),
        node.outputs[0].spec,
    )


def _fused(model: Model, members: list[Node], target: Target) -> Node | None:
    outside, fused = as_members(members)
    places = {source: (True, number) for number, source in enumerate(outside)}
    places |= {Source(node.id, 0): (False, number) for number, node in enumerate(members)}
    if not _fits(model, members, places, target):
        return None
    name = " + ".join(node.name for node in members)
    return replace(members[-1], name=name, inputs=outside, operation=Fused(fused))
