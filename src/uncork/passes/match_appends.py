"""The matcher of variables that only grow: a call assigns the value from before and something new.

    Assign(v, Concat(axis, [g(ReadValue v), new, ..]))

g is nothing, or a Gather by an input of the model: then it picks the rows that go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from uncork.ir.model import Model, Node, Source
from uncork.ops.concat import Concat1
from uncork.ops.state import ReadValue3
from uncork.passes.match_parts import gathered_axis
from uncork.passes.rewrite import readers
from uncork.types import ElementType


class RowSelection(Struct, frozen=True):
    """The rows of a value that go on, as Gather picks them along an axis.

    `input` is the number of the model's input that tells which.
    """

    node: Node
    axis: int
    input: int


class Append(Struct, frozen=True):
    """A variable that grows along an axis: `join` is the Concat that adds to what `read` gives.

    Where rows are picked, `shape_is_read` says that a layer asks for the shape from before.
    """

    variable: str
    read: Node
    join: Node
    axis: int
    selection: RowSelection | None = None
    shape_is_read: bool = False


def appends(model: Model, assigned: Mapping[str, Source]) -> list[Append]:
    """The variables of a checked model that grow, of those that are `assigned`, with what."""
    read_by = readers(model)
    reads: dict[str, list[Node]] = {}
    for node in model.nodes:
        if isinstance(node.operation, ReadValue3):
            reads.setdefault(node.operation.variable_id, []).append(node)
    result = []
    for variable, source in assigned.items():
        nodes = reads.get(variable, [])
        if (
            len(nodes) == 1
            and (append := _append(model, read_by, nodes[0], model.by_id[source.node])) is not None
        ):
            result.append(append)
    return result


def _append(
    model: Model, read_by: Mapping[Source, Sequence[Node]], read: Node, join: Node
) -> Append | None:
    if (
        not isinstance(join.operation, Concat1)
        or not isinstance(read.operation, ReadValue3)
        or len(join.inputs) < 2
    ):
        return None
    spec, rank = read.outputs[0].spec, join.outputs[0].spec.rank
    if (
        rank is None
        or spec.element_type is ElementType.string
        or any(model.spec(source).rank != rank for source in join.inputs)
    ):
        return None
    axis = join.operation.axis % rank
    if spec.shape[axis].is_static:  # which says that nothing is ever added
        return None
    append = Append(read.operation.variable_id, read, join, axis)
    first = join.inputs[0]
    if first == Source(read.id, 0):
        return append
    selection = _row_selection(model, model.by_id[first.node])
    if (
        selection is None
        or selection.node.inputs[0] != Source(read.id, 0)
        or selection.axis == axis
    ):
        return None
    others = [node for node in read_by.get(Source(read.id, 0), ()) if node is not selection.node]
    if any(node.type_name != "ShapeOf" for node in others):
        return None
    return Append(append.variable, read, join, axis, selection, bool(others))


def _row_selection(model: Model, node: Node) -> RowSelection | None:
    """A Gather of whole rows by an input of the model."""
    axis = gathered_axis(model, node)
    if axis is None or model.spec(node.inputs[1]).rank != 1:
        return None
    given = node.inputs[1].node
    known = given in model.parameters
    return RowSelection(node, axis, model.parameters.index(given)) if known else None
