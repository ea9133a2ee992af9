"""Rows of tables summed by bags and segments, and the largest row of each segment.

Rows are added in the order of their positions, in the type of the table (f32 for f16 and bf16).
"""

from __future__ import annotations

import numpy as np

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.ir.model import Source
from uncork.ops._common.embedding import Embedding
from uncork.ops.segment_max import SegmentMax16, lowest
from uncork.types import ElementType

T = ElementType
#: An index outside of every axis.
_OUTSIDE = 2**62


@composite("EmbeddingBagOffsetsSum", "EmbeddingBagOffsets", as_given=True)
def bag_offsets(
    g: Layers,
    op: Embedding,
    table: Source,
    indices: Source,
    offsets: Source,
    default: Source | None,
    weights: Source | None,
) -> Source:
    """Sums or means of table rows by bag, by where each bag begins: position i is in bag (number of
    offsets up to i) - 1.
    """
    count, bags, starts = g.dim(indices, 0), g.dim(offsets, 0), g.wide(offsets)
    # An offset below the one before it, of which there is 0 at first, is refused.
    before = g.slice(g.concat([g.i64([0]), starts], 0), 0, -1, 0)
    starts = g.select(g.make("Less", starts, before), g.i64(_OUTSIDE), starts)
    # A place for offsets that equal the number of indices.
    room = g.broadcast(g.i64(0), g.plus(count, 1))
    begun = g.scatter(room, starts, g.broadcast(g.i64(1), bags), 0, "sum")
    owner = g.minus(g.make("CumSum", begun, g.i64(0), exclusive=False, reverse=False), 1)
    owner = g.slice(owner, 0, -1, 0)
    # Positions before the first bag go to a bag behind the last one, which is cut off, and are not
    # looked up.
    none = g.make("Less", owner, g.i64(0))
    rows = g.select(none, g.i64(0), _counted_forward(g, indices))
    return _summed(g, op, table, rows, g.select(none, bags, owner), bags, default, weights)


@composite("EmbeddingSegmentsSum", as_given=True)
def segments(
    g: Layers,
    op: Embedding,
    table: Source,
    indices: Source,
    ids: Source,
    count: Source,
    default: Source | None,
    weights: Source | None,
) -> Source:
    """Sums of table rows by segment; every position names its segment."""
    (bags,), owners = g.each(count, 1), _counted_forward(g, ids)
    owners = g.select(g.make("Less", owners, bags), owners, g.i64(_OUTSIDE))
    rows = _counted_forward(g, indices)
    return _summed(g, op, table, rows, owners, bags, default, weights)


@composite("EmbeddingBagPackedSum", "EmbeddingBagPacked", as_given=True)
def bag_packed(
    g: Layers, op: Embedding, table: Source, indices: Source, weights: Source | None
) -> Source:
    """Sums or means of table rows by bag, for bags of one size."""
    rows = _rows(g, table, _counted_forward(g, indices), weights)
    total = g.reduce("ReduceSum", rows, [1], keep=False)
    return _divided(g, total, g.dim(indices, 1)) if op.takes_mean() else total


def _counted_forward(g: Layers, indices: Source) -> Source:
    """Indices that do not count from the end: negative ones are moved outside, where they are
    refused.
    """
    known, wide = g.known(indices), g.wide(indices)
    if g.type(indices).kind == "unsigned" or (known is not None and (known >= 0).all()):
        return wide
    return g.select(g.make("Less", wide, g.i64(0)), g.i64(_OUTSIDE), wide)


def _rows(g: Layers, table: Source, places: Source, weights: Source | None) -> Source:
    """Rows of the table, weighted, in the type that they are added in."""
    kind = T.f32 if g.type(table) in (T.f16, T.bf16) else g.type(table)
    rows = g.convert(g.take(table, places, 0), kind)
    if weights is None:
        return rows
    return g.times(rows, g.with_axes_behind(g.convert(weights, kind), g.rank(table) - 1))


def _divided(g: Layers, total: Source, counts: Source) -> Source:
    """Sums divided by counts; integers are cut towards zero, in a type that holds the counts."""
    kind, counts = g.type(total), g.largest(counts, 1)
    wide = kind if kind.is_float else T.u64 if kind is T.u64 else T.i64
    return g.convert(g.over(*(g.convert(t, wide) for t in (total, counts))), kind)


def _summed(
    g: Layers,
    op: Embedding,
    table: Source,
    indices: Source,
    owners: Source,
    bags: Source,
    default: Source | None,
    weights: Source | None,
) -> Source:
    """Sums or means of table rows, one for each bag. `bags` is their number; one more bag takes the
    positions that are in none.
    """
    rank = g.rank(table)
    tail = [g.dim(table, axis) for axis in range(1, rank)]
    if 0 in g.sizes(table):  # every bag is empty, or there is nothing to add
        return g.broadcast(g.like(0, table), g.shape(bags, *tail))
    rows = _rows(g, table, indices, weights)
    more = g.plus(bags, 1)
    room = g.broadcast(g.like(0, rows), g.shape(more, *tail))
    places = g.broadcast(g.with_axes_behind(owners, rank - 1), g.shape_of(rows))
    sums = g.slice(g.scatter(room, places, rows, 0, "sum"), 0, -1, 0)
    defaults = default is not None and not _is_none(g, default)
    if not op.takes_mean() and not defaults:
        return sums
    sizes = g.slice(g.counts(owners, more), 0, -1, 0)
    sums = _divided(g, sums, g.with_axes_behind(sizes, rank - 1)) if op.takes_mean() else sums
    return _with_default(g, table, sums, sizes, default) if default and defaults else sums


def _is_none(g: Layers, default: Source) -> bool:
    known = g.known(default)
    return known is not None and bool((known == -1).all())


def _with_default(g: Layers, table: Source, sums: Source, sizes: Source, default: Source) -> Source:
    """The sums with the default row, or zeros for -1, in empty bags; without an empty bag the
    default is not looked at.
    """
    (number,), empty = g.each(default, 1), g.make("Equal", sizes, g.i64(0))
    none = g.make("Equal", number, g.i64(-1))
    full = g.make("LogicalNot", g.reduce("ReduceLogicalOr", empty, [0]))
    place = _counted_forward(g, number)
    place = g.select(g.make("LogicalOr", none, full), g.i64(0), place)
    row = _rows(g, table, place, None)
    if g.known(default) is None:
        row = g.select(g.with_axes_behind(none, g.rank(table) - 1), g.like(0, row), row)
    return g.select(g.with_axes_behind(empty, g.rank(table) - 1), row, sums)


@composite("SegmentMax", as_given=True)
def segment_max(
    g: Layers, op: SegmentMax16, data: Source, ids: Source, count: Source | None
) -> Source:
    """The largest row of each segment. Rows past the last segment go to one more, which is cut off;
    segments without rows are filled afterwards.
    """
    own, rank, places = g.type(data), g.rank(data), _counted_forward(g, ids)
    rows = g.convert(data, T.f32) if own in (T.f16, T.bf16) else data
    if count is None:
        found = g.reduce("ReduceMax", g.concat([g.i64([-1]), places], 0), [0])
        segments = g.plus(found, 1)
    else:
        (segments,) = g.each(count, 1)
    within = g.make("Less", places, g.i64(_OUTSIDE))
    places = g.select(within, g.least(places, segments), places)
    kind, more = g.type(rows), g.plus(segments, 1)
    least = -np.inf if kind.is_float else int(np.iinfo(kind.dtype).min)
    tail = [g.dim(data, axis) for axis in range(1, rank)]
    room = g.broadcast(g.like(least, rows), g.shape(more, *tail))
    spread = g.broadcast(g.with_axes_behind(places, rank - 1), g.shape_of(rows))
    largest = g.slice(g.scatter(room, spread, rows, 0, "max"), 0, -1, 0)
    empty = g.make("Equal", g.slice(g.counts(places, more), 0, -1, 0), g.i64(0))
    fill = g.like(0 if op.fill_mode == "zero" else lowest(own), rows)
    return g.select(g.with_axes_behind(empty, rank - 1), fill, largest)
