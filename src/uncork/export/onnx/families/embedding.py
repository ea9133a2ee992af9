"""Embedding bags and segments: rows looked up, and scattered with addition into one row for each
bag.

Rows are added in the order of their positions, in the type of the table (f32 for f16 and bf16), as
the IR has it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from uncork.export.onnx.families.gather import counted_forward
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.export.onnx.signatures import carrier
from uncork.ops._common.embedding import Embedding
from uncork.types import ElementType, PartialShape

T = ElementType


@lowers("EmbeddingBagOffsetsSum", "EmbeddingBagOffsets")
def bag_offsets(
    g: Graph,
    op: Embedding,
    table: Tensor,
    indices: Tensor,
    offsets: Tensor,
    default: Tensor | None,
    weights: Tensor | None,
) -> Tensor:
    """Sums or means of table rows by bag, by where each bag begins: position i is in bag (number of
    offsets up to i) - 1.
    """
    starts = counted_forward(g, offsets)
    count, bags = g.dim(indices, 0), g.dim(offsets, 0)
    one = g.constant(np.array([1]))
    # A place for offsets that equal the number of indices.
    room = g.op("Expand", g.constant(np.array([0])), g.op("Add", count, one))
    begun = g.op(
        "ScatterElements", room, starts, g.op("Expand", one, bags), axis=0, reduction="add"
    )
    owner = g.op("Sub", g.op("CumSum", begun, g.constant(0, I64)), one)
    owner = g.op("Slice", owner, [0], count, [0], shape=indices.shape)
    # Positions before the first bag go to a bag behind the last one, which is cut off, and are not
    # looked up.
    outside = g.op("Less", owner, g.constant(0, I64))
    owner = g.op("Where", outside, bags, owner)
    rows = g.op("Where", outside, g.constant(0, I64), counted_forward(g, indices))
    return _summed(
        g,
        op,
        table,
        replace(rows, shape=indices.shape),
        replace(owner, shape=indices.shape),
        bags,
        default,
        weights,
    )


@lowers("EmbeddingSegmentsSum")
def segments(
    g: Graph,
    op: Embedding,
    table: Tensor,
    indices: Tensor,
    segment_ids: Tensor,
    num_segments: Tensor,
    default: Tensor | None,
    weights: Tensor | None,
) -> Tensor:
    """Sums of table rows by segment; every position names its segment."""
    count = g.vector(num_segments)
    return _summed(
        g,
        op,
        table,
        counted_forward(g, indices),
        counted_forward(g, segment_ids),
        count,
        default,
        weights,
    )


@lowers("EmbeddingBagPackedSum", "EmbeddingBagPacked")
def bag_packed(
    g: Graph, op: Embedding, table: Tensor, indices: Tensor, weights: Tensor | None
) -> Tensor:
    """Sums or means of table rows by bag, for bags of one size: the rows are summed along their
    axis.
    """
    own, wide = table.type, _accumulated(table.type)
    rank = g.rank(table)
    rows = g.cast(g.op("Gather", table, counted_forward(g, indices), axis=0), wide)
    if weights is not None:
        rows = g.op("Mul", rows, g.unsqueeze(g.cast(weights, wide), list(range(2, rank + 1))))
    if wide.is_float:
        total = g.op("ReduceSum", rows, [1], keepdims=0)
    else:
        total = _sum_of_integers(g, rows)
    if op.takes_mean():
        size = g.op("Max", g.dim(indices, 1), g.constant(np.array([1])))
        total = _divided(g, total, size)
    return replace(g.cast(total, own), shape=g.outputs[0].shape)


def _sum_of_integers(g: Graph, rows: Tensor) -> Tensor:
    """The sum along the second axis as a product with ones: onnxruntime adds integers in floating
    point.
    """
    rank = g.rank(rows)
    last = g.cast(g.transpose(rows, [0, *range(2, rank), 1]), I64)
    ones = g.op("Expand", g.constant(1, I64), g.dim(rows, 1))
    return g.cast(g.op("MatMul", last, ones), rows.type)


def _accumulated(element_type: ElementType) -> ElementType:
    return T.f32 if element_type in (T.f16, T.bf16) else element_type


def _divided(g: Graph, total: Tensor, count: Tensor) -> Tensor:
    """Sums divided by counts. Integers truncate towards zero, in a wider type that holds the
    counts.
    """
    if total.type.is_float:
        return g.op("Div", total, g.cast(count, total.type))
    wide = T.u64 if total.type is T.u64 else I64
    return g.cast(g.op("Div", g.cast(total, wide), g.cast(count, wide)), total.type)


def _summed(
    g: Graph,
    op: Embedding,
    table: Tensor,
    indices: Tensor,
    owners: Tensor,
    bags: Tensor,
    default: Tensor | None,
    weights: Tensor | None,
) -> Tensor:
    """Sums or means of table rows, one for each bag. `bags` is their number, in a vector of one
    element; one more bag takes the positions that are in none.
    """
    own, wide = table.type, _accumulated(table.type)
    rank = g.rank(table)
    if any(d == 0 for d in table.shape):
        # Without rows every bag is empty; without columns there is nothing to add.
        blank = g.op(
            "Expand",
            g.constant(np.zeros((), carrier(own).dtype), own),
            g.concat([bags, g.dims(table, 1, rank)]),
        )
        return replace(blank, shape=g.outputs[0].shape)
    flat = (
        table
        if rank == 2
        else g.op("Reshape", table, g.constant(np.array([0, -1])) if rank > 2 else [-1, 1])
    )
    if rank > 2 and table.shape[1:].is_static:
        width = int(np.prod(table.shape[1:].static))
        flat = g.reshape(table, g.concat([g.dim(table, 0), [width]]), [table.shape[0], width])
    columns = (
        g.op("Shape", flat, start=1, end=2, type=I64, shape=[1])
        if not flat.shape.rank or not flat.shape[1].is_static
        else g.dim(flat, 1)
    )
    rows = g.cast(g.op("Gather", flat, indices, axis=0), wide)
    if weights is not None:
        rows = g.op("Mul", rows, g.unsqueeze(g.cast(weights, wide), [1]))
    one_more = g.op("Add", bags, g.constant(np.array([1])))
    room = g.op(
        "Expand",
        g.constant(np.zeros((), wide.dtype), wide),
        g.op("Concat", one_more, columns, axis=0),
    )
    place = g.op("Expand", g.unsqueeze(owners, [1]), g.op("Shape", rows))
    sums = g.op("ScatterElements", room, place, rows, axis=0, reduction="add")
    sums = g.op("Slice", sums, [0], [-1], [0])
    result = sums
    if op.takes_mean() or default is not None:
        sizes = _sizes(g, owners, one_more)
        if op.takes_mean():
            result = _divided(
                g, sums, g.unsqueeze(g.op("Max", sizes, g.constant(np.array([1]))), [1])
            )
        if default is not None:
            result = _with_default(g, flat, result, sizes, default, wide)
    result = g.cast(result, own)
    if rank == 2:
        return replace(result, shape=g.outputs[0].shape)
    tail = g.dims(table, 1, rank)
    return g.op("Reshape", result, g.concat([bags, tail]), shape=g.outputs[0].shape, allowzero=1)


def _sizes(g: Graph, owners: Tensor, one_more: Tensor) -> Tensor:
    """How many positions each bag has."""
    blank = g.op("Expand", g.constant(np.array([0])), one_more)
    ones = g.op("Expand", g.constant(np.array([1])), g.op("Shape", owners))
    return g.op(
        "Slice",
        g.op("ScatterElements", blank, owners, ones, axis=0, reduction="add"),
        [0],
        [-1],
        [0],
        shape=PartialShape([None]),
    )


def _with_default(
    g: Graph, table: Tensor, sums: Tensor, sizes: Tensor, default: Tensor, wide: ElementType
) -> Tensor:
    """The sums with the default row, or zeros for -1, in empty bags; without an empty bag the
    default is not looked at.
    """
    known = default.known()
    if known == [-1]:
        return sums
    empty = g.op("Equal", sizes, g.constant(0, I64))
    number = g.vector(default)
    found = g.op("ReduceMax", g.concat([np.zeros(1, np.int64), g.cast(empty, I64)]), keepdims=1)
    none = g.op("Equal", number, g.constant(-1, I64))
    looked_up = g.op(
        "Where",
        g.op("Or", none, g.op("Equal", found, g.constant(0, I64))),
        g.constant(0, I64),
        counted_forward(g, number),
    )
    row = g.cast(g.op("Gather", table, looked_up, axis=0), wide)
    if known is None:
        row = g.op("Where", none, g.number(0, row), row)
    return g.op("Where", g.unsqueeze(empty, [1]), row, sums)
