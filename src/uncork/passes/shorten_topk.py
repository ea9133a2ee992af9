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

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.leading_best import LeadingBest
from uncork.ir.model import Model, Node, Source
from uncork.ops.topk import TopK3
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
        ports = [replace(port, spec=spec) for port, spec in zip(node.outputs, specs, strict=True)]
        new[node.id] = replace(node, operation=operation, outputs=tuple(ports))
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
            end = None if rank is None else _end(model, reader, topk.axis % rank, rank)
            if end is None:
                return {}
            ends[reader.id] = end
    return ends


def _end(model: Model, node: Node, axis: int, rank: int) -> int | None:
    """Where a Slice ends that is from 0 by steps of 1 along one axis; None of any other layer."""
    if node.type_name != "Slice":
        return None
    bounds = [model.spec(source).value for source in node.inputs[1:]]
    start, stop, step, axes = [
        None if value is None else [int(number) for number in value.reshape(-1)]
        for value in (bounds if len(bounds) == 4 else [*bounds, np.array([0])])
    ]
    if start != [0] or step != [1] or stop is None or axes is None or stop[0] <= 0:
        return None
    return stop[0] if [number % rank for number in axes] == [axis] else None
