"""Gather and its like, and scatters. Torch refuses indices out of range; Gather reads 0."""

from __future__ import annotations

from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Elements, Value, Writer, atom
from uncork.ops._operation import Operation
from uncork.ops.gather import Gather


@lowers("Gather")
def gather(w: Writer, op: Gather, data: Value, indices: Value, axis: Value) -> str | Elements:
    """Slices of data by indices, with zeros for an index out of range; a known scalar in range is a
    subscript.
    """
    rank, where = data.rank, axis.known()
    known = indices.known()
    if rank is None or where is None:
        w.refuse("the rank of data, or the axis, is computed as the model runs")
    along = where[0] % rank
    batch = op.batch_count(w.rank(indices))
    size = data.shape[along].static_size
    least = -(size or 0) if op.counts_from_end else 0
    inside = size is not None and known is not None and all(least <= k < size for k in known)
    if inside and known is not None and data.elements is not None and not data.code and rank == 1:
        return Elements(tuple(data.elements[k] for k in known))
    if inside and known is not None and batch == 0 and indices.rank == 0:
        whole = ":, " * along
        return f"{atom(w(data))}[{whole}{known[0]}]"
    if batch == 0 and inside and indices.rank == 1 and min(known or [0]) >= 0:
        return f"{atom(w(data))}.index_select({along}, {w(indices)})"
    if batch == 0 and op.strict and op.counts_from_end:
        return w.helper("taken", data, indices, str(along))
    options: dict[str, object] = {}
    if along:
        options["axis"] = along
    if batch:
        options["batch_dims"] = batch
    if op.counts_from_end:
        options["from_end"] = True
    return w.helper("gather", data, indices, **options)


@lowers("GatherElements")
def gather_elements(w: Writer, op: Operation, data: Value, indices: Value) -> str:
    """torch.take_along_dim, with negative indices counted from the end."""
    axis = op.axis % w.rank(data)  # type: ignore[attr-defined]
    return w.helper("gather_elements", data, indices, str(axis))


@lowers("GatherND")
def gather_nd(w: Writer, op: Operation, data: Value, indices: Value) -> str:
    """Slices of data by tuples of indices."""
    joined = op.opset == 5
    return w.helper("gather_nd", data, indices, batch_dims=op.batch_dims, joined=joined)  # type: ignore[attr-defined]


@lowers("GatherTree")
def gather_tree(w: Writer, op: Operation, *inputs: Value) -> str:
    """Beams followed from their last step back to the first."""
    return w.helper("gather_tree", *inputs)


@lowers("ScatterUpdate")
def scatter_update(
    w: Writer, op: Operation, data: Value, indices: Value, updates: Value, axis: Value
) -> str:
    """A copy of data with slices replaced."""
    return w.helper("scatter_update", data, indices, updates, w.integer(axis))


@lowers("ScatterElementsUpdate")
def scatter_elements(
    w: Writer, op: Operation, data: Value, indices: Value, updates: Value, axis: Value
) -> str:
    """A copy of data with elements replaced, or reduced with the updates."""
    reduction = getattr(op, "reduction", "none")
    initial = getattr(op, "use_init_val", True)
    along = w.integer(axis)
    return w.helper(
        "scatter_elements", data, indices, updates, along, reduction=reduction, initial=initial
    )


@lowers("ScatterNDUpdate")
def scatter_nd(w: Writer, op: Operation, data: Value, indices: Value, updates: Value) -> str:
    """A copy of data with slices, by tuples of indices, replaced or reduced with the updates."""
    reduction = getattr(op, "reduction", "none")
    return w.helper("scatter_nd", data, indices, updates, reduction=reduction)


@lowers("SparseFillEmptyRows")
def sparse_fill(
    w: Writer, op: Operation, values: Value, shape: Value, indices: Value, default: Value
) -> list[str]:
    """A sparse tensor with a default element in each row that has none."""
    from uncork.export.torch.families.shapes import unpacked

    return unpacked(w, w.helper("sparse_fill_empty_rows", values, shape, indices, default))
