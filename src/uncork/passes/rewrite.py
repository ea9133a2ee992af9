"""Helpers of passes: the readers of a tensor, and a model with some of its nodes replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from uncork.ir.model import Model, Node, Source


def readers(model: Model) -> Mapping[Source, list[Node]]:
    """The nodes that read each output, once for each time they do."""
    result: dict[Source, list[Node]] = {}
    for node in model.nodes:
        for source in node.inputs:
            result.setdefault(source, []).append(node)
    return result


def only_reader(read_by: Mapping[Source, list[Node]], node: Node) -> Node | None:
    """The only node that reads the first output of a node, and reads it once; None where there is
    none.
    """
    found = read_by.get(Source(node.id, 0), [])
    return found[0] if len(found) == 1 else None


def replaced(model: Model, new: Mapping[int, Node]) -> Model:
    """The model with new nodes under old ids, and without what nothing needs any more."""
    nodes = [new.get(node.id, node) for node in model.nodes]
    uses = Counter(source.node for node in nodes for source in node.inputs)
    borders = {*model.parameters, *model.results, *model.sinks}
    kept: list[Node] = []
    # readers come after what they read, so one pass backwards is enough
    for node in reversed(nodes):
        if node.id in borders or uses[node.id]:
            kept.append(node)
        else:
            uses.subtract(source.node for source in node.inputs)
    return replace(model, nodes=tuple(reversed(kept)))
