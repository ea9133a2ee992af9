"""The domain `uncork`: what `from_torch` has torch's exporter write where ONNX has no operator."""

from __future__ import annotations

from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import OWN, lowering
from uncork.types import ElementType

T = ElementType
_SUM, _MEAN, _MAX = 0, 1, 2


@lowering("EmbeddingBag", domain=OWN)
def _embedding_bag(call: Call) -> Source:
    """torch.nn.functional.embedding_bag: bags by where each one starts."""
    graph, table, ids, starts = call.graph, call[0], call[1], call[2]
    weights = call.optional(3)
    if graph.type(ids) is not graph.type(starts):
        ids, starts = graph.convert(ids, T.i64), graph.convert(starts, T.i64)
    # Where a bag ends is never read: a last offset that only says so is not needed.
    padding = call.integer("padding_idx", -1)
    if padding >= 0:
        ids, starts, weights = _without(graph, padding, ids, starts, weights)
    if call.integer("include_last_offset"):
        last = graph.slice(starts, -1, 1 << 40, 0)
        starts = graph.slice(starts, 0, -1, 0)
        ids = _until(graph, ids, last)
        weights = None if weights is None else _until(graph, weights, last)
    mode = call.integer("mode")
    if mode == _MAX:
        return _maximum(graph, table, ids, starts)
    inputs = [table, ids, starts]
    if weights is not None:
        inputs += [graph.like(-1, ids), weights]
    name = "mean" if mode == _MEAN else "sum"
    return graph.make("EmbeddingBagOffsets", *inputs, reduction=name)


def _until(graph: Graph, data: Source, stop: Source) -> Source:
    first, step = graph.like(0, stop), graph.like(1, stop)
    return graph.make(
        "Slice", data, graph.reshape(first, [1]), stop, graph.reshape(step, [1]), graph.i64([0])
    )


def _without(
    graph: Graph, padding: int, ids: Source, starts: Source, weights: Source | None
) -> tuple[Source, Source, Source | None]:
    """The bags without one id: where they start then is how many before them are kept."""
    kept = graph.make("NotEqual", ids, graph.like(padding, ids))
    places = graph.make("NonZero", kept, output_type=T.i64)
    places = graph.reshape(places, [-1])
    before = graph.make("SearchSorted", places, starts, output_type=graph.type(starts))
    chosen = None if weights is None else graph.gather(weights, places, 0)
    return graph.gather(ids, places, 0), before, chosen


def _maximum(graph: Graph, table: Source, ids: Source, starts: Source) -> Source:
    """The greatest of each bag, number by number; zeros where there is none."""
    places = graph.range(graph.size_of(ids, 0), graph.type(starts))
    bags = graph.make("SearchSorted", starts, places, right_mode=True)
    bags = graph.minus(bags, 1)
    count = graph.reshape(graph.size_of(starts, 0), [])
    rows = graph.gather(table, ids, 0)
    return graph.make("SegmentMax", rows, bags, count, fill_mode="zero", opset=16)
