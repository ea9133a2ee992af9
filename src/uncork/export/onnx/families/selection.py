"""TopK, Unique, NonZero, OneHot, Select, Bucketize, SearchSorted, Range, Eye and the filling of
empty rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from uncork.export.onnx.families.arithmetic import placed
from uncork.export.onnx.families.convert import converted, decoded
from uncork.export.onnx.families.shapes import numbers
from uncork.export.onnx.graph import BOOLEAN, I64, Graph, Operand, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._operation import Operation
from uncork.ops.bucketize import Bucketize3
from uncork.ops.eye import Eye9
from uncork.ops.non_zero import NonZero3
from uncork.ops.one_hot import OneHot1, OneHot16
from uncork.ops.range import _Range
from uncork.ops.search_sorted import SearchSorted15
from uncork.ops.select import Select1
from uncork.ops.topk import TopK3
from uncork.ops.unique import Unique10
from uncork.types import ElementType, PartialShape

T = ElementType
ONE = np.ones(1, np.int64)


@lowers("TopK")
def topk(g: Graph, op: TopK3, data: Tensor, k: Tensor) -> list[Tensor]:
    """ONNX's TopK; for sort by index the places are put in order and the values gathered again."""
    count = g.vector(k)
    if data.type is T.u64:
        # The order of the numbers with the highest bit turned over is that of signed ones.
        top = g.constant(np.uint64(2**63))
        values, places = topk(g, op, g.cast(g.op("BitwiseXor", data, top), I64), k)
        return [g.op("BitwiseXor", g.cast(values, T.u64), top), places]
    values, places = g.ops(
        "TopK",
        data,
        count,
        types=[None, I64],
        axis=op.axis,
        largest=int(op.mode == "max"),
        sorted=1,
    )
    if op.sort == "index":
        places = g.ops("TopK", places, count, types=[None, I64], axis=op.axis, largest=0, sorted=1)[
            0
        ]
        values = g.op("GatherElements", data, places, axis=op.axis)
    return [values, g.cast(places, op.index_element_type)]


@lowers("Unique")
def unique(g: Graph, op: Unique10, data: Tensor, axis: Tensor | None) -> list[Tensor]:
    """ONNX's Unique."""
    along = None if axis is None else numbers(g, axis, "axis")[0]
    if data.shape.is_static and data.shape.size == 0:
        g.refuse("onnxruntime ends without a word where Unique has slices without elements")
    outputs = g.ops("Unique", data, types=[None, I64, I64, I64], axis=along, sorted=int(op.sorted))
    index, count = op.index_element_type, op.count_element_type
    types = (data.type, index, index, count)
    return [outputs[0], *(g.cast(t, to) for t, to in zip(outputs[1:], types[1:], strict=True))]


@lowers("NonZero")
def non_zero(g: Graph, op: NonZero3, data: Tensor) -> Tensor:
    """ONNX's NonZero on what is not 0; a scalar gives no places, since it has no axis."""
    mask = converted(g, decoded(g, data), BOOLEAN)
    if data.rank == 0:
        found = g.op("NonZero", g.op("Reshape", mask, ONE))
        return g.cast(g.op("Slice", found, [0], [0], [0]), op.output_type)
    return g.cast(g.op("NonZero", mask, shape=g.outputs[0].shape), op.output_type)


@lowers("OneHot")
def one_hot(
    g: Graph, op: OneHot1, indices: Tensor, depth: Tensor, on: Tensor, off: Tensor
) -> Tensor:
    """A comparison of the indices with all classes, since ONNX's OneHot counts negative indices
    from the end.
    """
    along = op.axis % (g.rank(indices) + 1)
    if indices.type is T.u64:
        indices = g.op("Min", indices, g.constant(2**63 - 1, T.u64))
    place = g.cast(indices, I64)
    size = g.scalar(g.cast(depth, I64))
    if isinstance(op, OneHot16) and op.negative_indices_mode == "normalize":
        place = g.op(
            "Where", g.op("Less", place, g.constant(0, I64)), g.op("Add", place, size), place
        )
    known = depth.known()
    classes = g.constant(np.arange(known[0])) if known else _range(g, size)
    classes = g.unsqueeze(
        replace(classes, shape=PartialShape([None])), list(range(1, g.rank(indices) - along + 1))
    )
    same = g.op("Equal", g.unsqueeze(replace(place, shape=indices.shape), [along]), classes)
    if on.type is T.string:
        same = g.op("Expand", same, g.op("Shape", same))
    return g.op("Where", same, on, off, shape=g.outputs[0].shape)


def _range(g: Graph, count: Tensor) -> Tensor:
    return g.op("Range", g.constant(0, I64), count, g.constant(1, I64))


@lowers("Select")
def select(g: Graph, op: Select1, cond: Tensor, then: Tensor, other: Tensor) -> Tensor:
    """ONNX's Where."""
    cond, other = placed(g, op, then, cond), placed(g, op, then, other)
    if then.type is T.string:
        shapes = [
            g.op("Shape", g.cast(t, I64) if t.type is not T.string else g.op("Equal", t, t))
            for t in (cond, then, other)
        ]
        blank = [g.op("Expand", g.constant(0, I64), s) for s in shapes]
        shape = g.op("Shape", g.op("Add", g.op("Add", blank[0], blank[1]), blank[2]))
        cond, then, other = (g.op("Expand", t, shape) for t in (cond, then, other))
    return g.op("Where", cond, then, other, shape=g.outputs[0].shape)


def _comparable(g: Graph, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both tensors in a type that holds their values."""
    a, b = decoded(g, a), decoded(g, b)
    if a.type is b.type:
        return a, b
    if a.type.is_integer and b.type.is_integer and T.u64 not in (a.type, b.type):
        return g.cast(a, I64), g.cast(b, I64)
    if any(t.type.is_integer and t.type.bits == 64 for t in (a, b)):
        g.approximate("64-bit integers are compared with other numbers in f64")
    return g.cast(a, T.f64), g.cast(b, T.f64)


def _counted(g: Graph, smaller: Tensor) -> Tensor:
    # onnxruntime takes no negative axis where there are no elements.
    return g.op("ReduceSum", g.cast(smaller, I64), [g.rank(smaller) - 1], keepdims=0)


@lowers("Bucketize")
def bucketize(g: Graph, op: Bucketize3, data: Tensor, buckets: Tensor) -> Tensor:
    """The number of boundaries that are smaller; NaN lies behind all."""
    values, bounds = _comparable(g, data, buckets)
    below = g.op(
        "Less" if op.with_right_bound else "LessOrEqual", bounds, g.op("Unsqueeze", values, [-1])
    )
    found = _counted(g, below)
    if values.type.is_float:
        found = g.op("Where", g.op("IsNaN", values), g.scalar(g.dim(buckets, 0)), found)
    return replace(g.cast(found, op.output_type), shape=data.shape)


@lowers("SearchSorted")
def search_sorted(g: Graph, op: SearchSorted15, rows: Tensor, values: Tensor) -> Tensor:
    """The number of elements of the row that are smaller; NaN is greater than every number."""
    rows, values = decoded(g, rows), decoded(g, values)
    table = rows if g.rank(rows) == 1 else g.op("Unsqueeze", rows, [-2])
    wanted = g.op("Unsqueeze", values, [-1])
    below = g.op("LessOrEqual" if op.right_mode else "Less", table, wanted)
    if values.type.is_float:
        above = g.op("IsNaN", wanted)
        if not op.right_mode:
            above = g.op("And", above, g.op("Not", g.op("IsNaN", table)))
        below = g.op("Or", below, above)
    return replace(g.cast(_counted(g, below), op.output_type), shape=values.shape)


@lowers("Range")
def range_(g: Graph, op: _Range, *bounds: Tensor) -> Tensor:
    """ONNX's Range, of whole numbers in i64 and of all others in f64, each rounded once."""
    to = g.outputs[0].element_type
    wide = I64 if to.is_integer else T.f64
    plain = [g.scalar(converted(g, decoded(g, b), wide)) for b in bounds]
    return replace(g.cast(g.op("Range", *plain), to), shape=g.outputs[0].shape)


@lowers("Eye")
def eye(
    g: Graph, op: Eye9, rows: Tensor, columns: Tensor, diagonal: Tensor, batch: Tensor | None
) -> Tensor:
    """1 where column - row is the number of the diagonal, else 0."""
    height, width, shift = (g.scalar(g.cast(t, I64)) for t in (rows, columns, diagonal))
    places = g.op("Add", g.op("Unsqueeze", _range(g, height), [1]), shift)
    matrix = converted(g, g.op("Equal", places, _range(g, width)), op.output_type)
    if batch is None or batch.known() == []:
        return matrix
    return g.op("Expand", matrix, g.concat([g.vector(batch), g.op("Shape", matrix, type=I64)]))


@lowers("SparseFillEmptyRows")
def fill_empty_rows(
    g: Graph, op: Operation, values: Tensor, dense: Tensor, indices: Tensor, default: Tensor
) -> list[Tensor]:
    """One entry more for each empty row, then all in the order of their places; equal places keep
    their order.
    """
    own = indices.type
    places, sizes = g.cast(indices, I64), g.vector(dense)
    rows = g.op("Slice", places, [0], [1], [1])
    height = g.op("Slice", sizes, [0], [1], shape=[1])
    flags = g.op("Expand", g.constant(ONE), height)
    row = g.op("Squeeze", rows, [1])
    seen = g.op("Expand", g.constant(0, I64), g.op("Shape", row))
    empty = g.op("ScatterElements", flags, row, seen, axis=0)
    missing = g.op("Transpose", g.op("NonZero", empty), perm=[1, 0])
    added = g.op("Pad", missing, [0, 0, 0, 1])
    every = g.op("Concat", places, added, axis=0)
    count = g.op("Shape", missing, start=0, end=1, type=I64)
    filled = g.op("Concat", values, g.op("Expand", default, count), axis=0)
    width = g.op("Max", g.op("Slice", sizes, [1], [2]), g.constant(ONE))
    factors = g.op("Concat", width, g.constant(ONE), axis=0)
    key = g.op("ReduceSum", g.op("Mul", every, factors), [1], keepdims=0)
    total = g.op("Shape", key, type=I64)
    order = g.ops("TopK", key, total, types=[None, I64], largest=0, sorted=1)[1]
    ordered: list[Operand] = [g.op("Gather", t, order, axis=0) for t in (every, filled)]
    first, second = ordered
    assert isinstance(first, Tensor) and isinstance(second, Tensor)
    return [g.cast(first, own), second, g.cast(empty, BOOLEAN)]
