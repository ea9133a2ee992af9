"""Bags and segments of embeddings by F.embedding_bag, which knows no default row and no weights of
integers.
"""

from __future__ import annotations

from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
from uncork.ops._common.embedding import Embedding
from uncork.types import ElementType


def _options(
    w: Writer, op: Embedding, default: Value | None, weights: Value | None
) -> dict[str, object]:
    options: dict[str, object] = {}
    if default is not None:
        known = default.known()
        if known is None:
            options["default"] = Code(w.integer(default))
        elif known[0] != -1:
            options["default"] = known[0]
    if weights is not None:
        options["weights"] = Code(w(weights))
    if op.takes_mean():
        if w.outputs[0].element_type is ElementType.u64:
            w.approximate("a mean of u64 is that of i64")
        options["mean"] = True
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
) -> str:
    """Sums or means of table rows by bag, by where each bag begins; positions before the first
    belong to none.
    """
    options = _options(w, op, default, weights)
    return w.helper("embedding_bag_offsets", table, indices, starts, **options)


@lowers("EmbeddingBagPackedSum", "EmbeddingBagPacked")
def packed(
    w: Writer, op: Embedding, table: Value, indices: Value, weights: Value | None = None
) -> str:
    """Sums or means of table rows by bag, for bags of one size."""
    return w.helper("embedding_bag_packed", table, indices, **_options(w, op, None, weights))


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
) -> str:
    """Sums of table rows by segment; every position names its segment."""
    number = w.integer(count)
    options = _options(w, op, default, weights)
    return w.helper("embedding_segments_sum", table, indices, ids, number, **options)
