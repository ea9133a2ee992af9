"""Gather, GatherElements, GatherND. An index out of range reads zeros in Gather, and is refused in
the others.

ONNX counts every negative index from the end and refuses all others outside.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from uncork.export.onnx.families.shapes import numbers
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.gather import Gather
from uncork.ops.gather_elements import GatherElements6
from uncork.ops.gather_nd import GatherND8
from uncork.types import Dimension, ElementType, PartialShape


@lowers("Gather")
def gather(g: Graph, op: Gather, data: Tensor, indices: Tensor, axis: Tensor) -> Tensor:
    """Slices of data by indices. An index out of range gives zeros; negative ones count from the
    end from Gather-8 on.
    """
    along = numbers(g, axis, "axis")[0] % g.rank(data)
    batch = op.batch_count(g.rank(indices))
    known = indices.known()
    size = data.shape[along].static_size
    refuses = op.strict and op.counts_from_end  # as ONNX does
    if refuses or (
        known is not None
        and size is not None
        and all((-size if op.counts_from_end else 0) <= i < size for i in known)
    ):
        return _picked(g, data, indices, along, batch)
    return _with_zeros(g, op, data, indices, along, batch)


def _with_zeros(
    g: Graph, op: Gather, data: Tensor, indices: Tensor, along: int, batch: int
) -> Tensor:
    if indices.type is ElementType.u64:
        # Beyond the signed numbers nothing is inside any axis.
        indices = g.op("Min", indices, g.constant(2**63 - 1, indices.type))
    place, size = g.cast(indices, I64), g.scalar(g.dim(data, along))
    zero = g.constant(0, I64)
    below = g.op("Less", place, zero)
    if op.counts_from_end and indices.type.kind == "signed":
        place = g.op("Where", below, g.op("Add", place, size), place)
        below = g.op("Less", place, zero)
    outside = g.op("Or", below, g.op("GreaterOrEqual", place, size))
    outside, place = (replace(t, shape=indices.shape) for t in (outside, place))
    # onnxruntime's Where of strings goes wrong where the mask is stretched.
    if not data.shape[along].contains(0) and data.type is not ElementType.string:
        inside = replace(g.op("Where", outside, zero, place), shape=indices.shape)
        found = _picked(g, data, inside, along, batch)
        spread = g.unsqueeze(outside, _around(g, data, outside, along, batch))
        return g.op("Where", spread, g.number(0, data), found)
    # The axis may be empty: one more place at its end holds the zeros.
    inside = replace(g.op("Where", outside, size, place), shape=indices.shape)
    return _picked(g, _with_blank(g, data, along), inside, along, batch)


def _around(g: Graph, data: Tensor, outside: Tensor, along: int, batch: int) -> list[int]:
    """The axes of size 1 that broadcast the mask [batch.., indices..] to the output [batch..,
    middle.., indices.., tail..].
    """
    count = g.rank(outside)
    middle, tail = along - batch, g.rank(data) - along - 1
    return [*range(batch, batch + middle), *range(count + middle, count + middle + tail)]


def _blank(g: Graph, data: Tensor) -> Tensor:
    """The value that an index out of range reads: zero, or the empty string."""
    return g.constant(np.array("", object)) if data.type.kind == "string" else g.number(0, data)


def _with_blank(g: Graph, data: Tensor, along: int) -> Tensor:
    rank = g.rank(data)
    shape = g.concat([[1] if i == along else g.dim(data, i) for i in range(rank)])
    blank = _blank(g, data)
    dims = PartialShape([d + 1 if i == along else d for i, d in enumerate(data.shape)])
    return g.op("Concat", data, g.op("Expand", blank, shape), axis=along, shape=dims)


def _picked(g: Graph, data: Tensor, indices: Tensor, along: int, batch: int) -> Tensor:
    """Slices of data by indices in range: ONNX's Gather, or with batches its GatherND on transposed
    data.
    """
    indices = indices if indices.type in (ElementType.i32, I64) else g.cast(indices, I64)
    # onnxruntime's Gather copies the first string of a row only.
    if not batch and data.type is not ElementType.string:
        return g.op("Gather", data, indices, axis=along, shape=g.outputs[0].shape)
    order = [*range(batch), along, *range(batch, along), *range(along + 1, g.rank(data))]
    front = g.transpose(data, order)
    picked = g.op("GatherND", front, g.unsqueeze(g.cast(indices, I64), [-1]), batch_dims=batch)
    # Now [batch.., indices.., middle.., tail..].
    count, middle = g.rank(indices), along - batch
    back = [
        *range(batch),
        *range(count, count + middle),
        *range(batch, count),
        *range(count + middle, count + g.rank(data) - batch - 1),
    ]
    return g.transpose(picked, back)


def counted_forward(g: Graph, indices: Tensor) -> Tensor:
    """Indices in i64 that do not count from the end: negative ones are moved far out of range, so
    that ONNX refuses them as the IR does.
    """
    known = indices.known()
    wide = g.cast(indices, I64)
    if indices.type.kind == "unsigned" or (known is not None and all(i >= 0 for i in known)):
        return wide
    return replace(
        g.op("Where", g.op("Less", wide, g.constant(0, I64)), g.constant(2**62, I64), wide),
        shape=indices.shape,
    )


@lowers("GatherElements")
def gather_elements(g: Graph, op: GatherElements6, data: Tensor, indices: Tensor) -> Tensor:
    """ONNX's GatherElements."""
    return g.op("GatherElements", data, indices, axis=op.axis)


@lowers("GatherND")
def gather_nd(g: Graph, op: GatherND8, data: Tensor, indices: Tensor) -> Tensor:
    """ONNX's GatherND, with batch dimensions of 1 stretched before it; GatherND-5 joins the batch
    dimensions.
    """
    batch = op.batch_dims
    wide = g.cast(indices, I64)
    if batch:
        data, wide = _stretched(g, data, wide, batch)
    size = indices.shape[-1].static_size if indices.rank is not None else None
    if size == 0:
        g.refuse("tuples of no index")
    result = g.op("GatherND", data, wide, batch_dims=batch)
    if op.opset == 5 and batch > 1:
        spec = g.outputs[0].shape
        if spec.is_static:
            return g.reshape(result, np.array(spec.static, np.int64))
        rest = g.op("Shape", result, start=batch, type=I64)
        lead = g.op("ReduceProd", g.op("Shape", result, start=0, end=batch, type=I64), keepdims=1)
        return g.op("Reshape", result, g.op("Concat", lead, rest, axis=0), allowzero=1)
    return result


def _stretched(g: Graph, data: Tensor, indices: Tensor, batch: int) -> tuple[Tensor, Tensor]:
    first, second = data.shape[:batch], indices.shape[:batch]
    if first.is_static and second.is_static and first == second:
        return data, indices
    if not any(_may_stretch(a, b) for a, b in zip(first, second, strict=True)):
        return data, indices
    lead = g.op("Max", g.dims(data, 0, batch), g.dims(indices, 0, batch))
    results = []
    for tensor in (data, indices):
        rest = np.ones(g.rank(tensor) - batch, np.int64)
        results.append(g.op("Expand", tensor, g.concat([lead, rest])))
    return results[0], results[1]


def _may_stretch(a: Dimension, b: Dimension) -> bool:
    return (a.contains(1) and b != 1) or (b.contains(1) and a != 1)
