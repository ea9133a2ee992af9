"""Look-ups of each distinct id, whose rows are then spread to all places, become look-ups of every
id.

    different, _, places, _ = Unique(ids)
    Gather(different, places)                              is ids
    Gather(Gather(table, different), places)               is Gather(table, ids)
    EmbeddingSegmentsSum(Gather(table, different), places, ..)
                                                           is EmbeddingSegmentsSum(table, ids, ..)

and so for bags by offsets. To find equal ids costs more than to read a row a second time.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.errors import UncorkError
from uncork.ir.model import Model, Node, Source
from uncork.passes.match_parts import gathered_axis
from uncork.passes.rewrite import replaced

#: Layers that take rows of their first input by their second, and where they have a row for what is
#: empty: a place among the different ids, which is no id.
_TAKES: Mapping[str, int | None] = {
    "EmbeddingBagOffsets": 3,
    "EmbeddingBagOffsetsSum": 3,
    "EmbeddingSegmentsSum": 4,
    "Gather": None,
}


def undo_unique(model: Model) -> Model:
    """The model with every such layer reading ids; a Unique that nobody else reads is gone."""
    new: dict[int, Node] = {}
    same: dict[Source, Source] = {}
    for node in model.nodes:
        if node.type_name not in _TAKES or (ids := _ids(model, node)) is None:
            continue
        if node.inputs[0] == Source(_behind_converts(model, node.inputs[1]).node, 0):
            if node.type_name == "Gather":
                same[Source(node.id, 0)] = ids
        elif (taking := _taking(model, node, ids)) is not None:
            new[node.id] = taking
    return replaced(model, new, same)


def _ids(model: Model, node: Node) -> Source | None:
    """The original ids of the Unique by whose places (inverse indices) this layer takes rows; None
    where it does not.
    """
    places = _behind_converts(model, node.inputs[1])
    unique = model.by_id[places.node]
    if unique.type_name != "Unique" or places.output != 2:
        return None
    ids = unique.inputs[0]
    spec = model.spec(ids)
    # of floats, those that are equal may differ in their sign; a constant may have rules of its own
    if spec.rank != 1 or not spec.element_type.is_integer or spec.value is not None:
        return None
    return ids if node.type_name != "Gather" or gathered_axis(model, node) == 0 else None


def _behind_converts(model: Model, source: Source) -> Source:
    """The tensor from before conversions between i32 and i64: places fit both."""
    while True:
        node = model.by_id[source.node]
        types = [model.spec(tensor).element_type.name for tensor in (source, *node.inputs[:1])]
        if node.type_name not in ("Convert", "ConvertLike") or not {*types} <= {"i32", "i64"}:
            return source
        source = node.inputs[0]


def _taking(model: Model, node: Node, ids: Source) -> Node | None:
    """The layer that takes rows by ids directly from the table; None where it reads anything else
    than rows of distinct ids.
    """
    default = _TAKES[node.type_name]
    if default is not None and len(node.inputs) > default:
        number = model.spec(node.inputs[default]).value
        if number is None or number != -1:
            return None
    rows = model.by_id[node.inputs[0].node]
    unique = Source(_behind_converts(model, node.inputs[1]).node, 0)
    if gathered_axis(model, rows) != 0 or rows.inputs[1] != unique:
        return None
    taking = replace(node, inputs=(rows.inputs[0], ids, *node.inputs[2:]))
    if node.type_name == "Gather":  # which ids there may be is for the layer that took them
        taking = replace(taking, operation=rows.operation)
    try:
        outputs = taking.checked_operation.describe(
            [model.spec(source) for source in taking.inputs]
        )
    except UncorkError:  # its integers must be of one type
        return None
    types = [port.spec.element_type for port in node.outputs]
    return taking if [spec.element_type for spec in outputs] == types else None
