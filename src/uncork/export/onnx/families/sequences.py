"""Decoding of sequences: the greedy path of CTC, and beams followed back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from uncork.export.onnx.families.bodies import Parts, repeated
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._operation import Operation
from uncork.types import ElementType

T = ElementType
#: One step of following beams back: from the graph, the step and its beams to those of the step
#: before and what the step has.
Back = Callable[[Graph, Tensor, Tensor], tuple[Tensor, Tensor]]


@lowers("GatherTree")
def gather_tree(
    g: Graph, op: Operation, ids: Tensor, parents: Tensor, lengths: Tensor, end: Tensor
) -> Tensor:
    """The beams followed back from the last step; each row has steps up to its length."""
    wide = g.cast(lengths, I64)
    beam = g.op("Range", g.constant(0, I64), g.scalar(g.dim(ids, 2)), g.constant(1, I64))
    first = g.op("Expand", beam, g.dims(ids, 1, 3), shape=[None, None])

    def back(graph: Graph, t: Tensor, beam: Tensor) -> tuple[Tensor, Tensor]:
        """The beams of the step before t, and the ids of step t."""
        live = graph.op("Unsqueeze", graph.op("Greater", wide, t), [1])
        row = graph.op("Gather", ids, t, axis=0)
        found = graph.op("Where", live, graph.op("GatherElements", row, beam, axis=1), end)
        up = graph.cast(graph.op("Gather", parents, t, axis=0), I64)
        above = graph.op("GatherElements", up, beam, axis=1)
        return graph.op("Where", live, above, first), found

    steps = ids.shape[0].static_size if ids.rank == 3 else None
    path = _unrolled(g, steps, first, back) if steps else _followed(g, ids, first, back)
    ended = g.op("CumSum", g.cast(g.op("Equal", path, end), I64), g.constant(0, I64))
    return g.op("Where", g.op("Greater", ended, g.constant(0, I64)), end, path)


def _unrolled(g: Graph, steps: int, beam: Tensor, back: Back) -> Tensor:
    found: list[Tensor] = []
    for t in reversed(range(steps)):
        beam, row = back(g, g.constant(np.array(t)), beam)
        found.insert(0, g.op("Unsqueeze", row, [0]))
    return g.op("Concat", *found, axis=0)


def _followed(g: Graph, ids: Tensor, beam: Tensor, back: Back) -> Tensor:
    """The beams followed back by a Loop, whose rows stand in reverse. Of no steps the Loop does not
    tell the other sizes.
    """
    steps = g.scalar(g.dim(ids, 0))

    def step(graph: Graph, i: Tensor, beams: Sequence[Tensor]) -> Parts:
        last = graph.op("Sub", steps, graph.constant(1, I64))
        before, row = back(graph, graph.op("Sub", last, i), beams[0])
        return [before], [row]

    rows = repeated(g, steps, [beam], step)[1]
    turned = g.op("Slice", rows, [-1], [-(2**62)], [0], [-1])
    return g.reshape(turned, g.shape(ids))
