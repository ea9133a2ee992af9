"""Bags and segments of embeddings by F.embedding_bag, which knows no integers and no rows of
several dimensions: bags of these are taken apart.
"""

from __future__ import annotations

from uncork.export.torch.composed import composed
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
from uncork.ops._common.embedding import Embedding
from uncork.types import ElementType


def _is_torch(table: Value) -> bool:
    """Whether F.embedding_bag has such bags."""
    return table.rank in (2, None) and table.type in (ElementType.f32, ElementType.f64)


def _options(w: Writer, default: Value | None, weights: Value | None) -> dict[str, Code]:
    options = {} if weights is None else {"weights": Code(w(weights))}
    if default is not None and default.known() != [-1]:
        options["default"] = Code(w.integer(default))
    return options


@lowers("EmbeddingBagOffsetsSum", "EmbeddingBagOffsets")
def offsets(
    w: Writer,
    op: Embedding,
    table: Value,
    indices: Value,
    starts: Value,
    default: Value | None = None,
    weights: Value | None = None,
) -> str | list[Value]:
    """Sums or means of table rows by bag, by where each bag begins; positions before the first
    belong to none.
    """
    if not _is_torch(table):
        return composed(w, op, table, indices, starts, default, weights)
    options = _options(w, default, weights)
    given = (table, indices, starts)
    return w.helper("embedding_bag_offsets", *given, mean=op.takes_mean(), **options)


@lowers("EmbeddingBagPackedSum", "EmbeddingBagPacked")
def packed(
    w: Writer, op: Embedding, table: Value, indices: Value, weights: Value | None = None
) -> str | list[Value]:
    """Sums or means of table rows by bag, for bags of one size."""
    if not _is_torch(table):
        return composed(w, op, table, indices, weights)
    return w.helper("embedding_bag_packed", table, indices, weights, mean=op.takes_mean())


@lowers("EmbeddingSegmentsSum")
def segments(
    w: Writer,
    op: Embedding,
    table: Value,
    indices: Value,
    ids: Value,
    count: Value,
    default: Value | None = None,
    weights: Value | None = None,
) -> str | list[Value]:
    """Sums of table rows by segment; every position names its segment."""
    if not _is_torch(table):
        return composed(w, op, table, indices, ids, count, default, weights)
    given, options = (table, indices, ids, w.integer(count)), _options(w, default, weights)
    return w.helper("embedding_segments_sum", *given, **options)
