"""Sorted rows of which only the first are read: a TopK makes no more than these.

    values, indices = TopK(data, k)
    Slice(values, 0, n)                                    is the first output of LeadingBest
    Slice(indices, 0, n)                                   is the second

A frontend writes a sort as a TopK of whole rows. The first n of these are found without an order of
the others.

Recognised: all that reads the TopK are slices from 0 by steps of 1, along its axis alone, to a
constant; it gives the best first.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.internal_ops.leading_best import LeadingBest
from uncork.ir.model import Model, Node, Source
from uncork.ops.topk import TopK3
from uncork.passes.match_parts import only_cut
from uncork.passes.rewrite import readers, replaced


def shorten_topk(model: Model) -> Model:
    """The model with `LeadingBest` in place of every such TopK; slices of all of it are gone."""
    new: dict[int, Node] = {}
    same: dict[Source, Source] = {}
    read_by = readers(model)
    for node in model.nodes:
        if not isinstance(node.operation, TopK3) or node.operation.sort == "index":
            continue
        ends = _ends(model, node, node.operation, read_by)
        if not ends:
            continue
        most = max(ends.values())
        operation = LeadingBest(node.operation, most)
        specs = operation.describe([model.spec(source) for source in node.inputs])
        new[node.id] = replace(node, operation=operation, outputs=node.ports(specs))
        for reader, end in ends.items():
            if end == most:
                same[Source(reader, 0)] = model.by_id[reader].inputs[0]
    return replaced(model, new, same)


def _ends(
    model: Model, node: Node, topk: TopK3, read_by: Mapping[Source, list[Node]]
) -> dict[int, int]:
    """Where each slice of the results ends, by its node; empty where others read them, too."""
    rank = model.spec(node.inputs[0]).rank
    ends: dict[int, int] = {}
    for output in range(2):
        for reader in read_by.get(Source(node.id, output), []):
            cut = only_cut(model, reader)
            if cut is None or rank is None or cut.stop <= 0:
                return {}
            if (cut.axis, cut.start, cut.step) != (topk.axis % rank, 0, 1):
                return {}
            ends[reader.id] = cut.stop
    return ends
