"""MatMul, Einsum, Inverse: products of matrices."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from uncork.export.onnx.families.bodies import Parts, repeated
from uncork.export.onnx.families.normalization import widened
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.export.onnx.sizes import counted, dimension, vector
from uncork.ops.einsum import Einsum
from uncork.ops.inverse import Inverse
from uncork.ops.matmul import MatMul
from uncork.types import ElementType

T = ElementType


@lowers("MatMul")
def matmul(g: Graph, op: MatMul, a: Tensor, b: Tensor) -> Tensor:
    """ONNX's MatMul. The flags transpose the last two dimensions; they leave vectors alone."""
    return g.op("MatMul", _turned(g, a, op.transpose_a), _turned(g, b, op.transpose_b))


def _turned(g: Graph, data: Tensor, flag: bool) -> Tensor:
    rank = g.rank(data) if flag else 0
    if not flag or rank < 2:
        return data
    return g.transpose(data, [*range(rank - 2), rank - 1, rank - 2])


@lowers("Einsum")
def einsum(g: Graph, op: Einsum, *operands: Tensor) -> Tensor:
    """ONNX's Einsum, with the output always written in the equation."""
    subscripts, output = op.parsed()
    own = operands[0].type
    wide = [widened(g, t) for t in operands]
    used = {label for subscript in subscripts for label in subscript}
    free = [c for c in string.ascii_letters if c not in used]
    equation = ",".join(
        _letters(op.spread(s, g.rank(t)), free) for s, t in zip(subscripts, wide, strict=True)
    )
    covered = max(
        sum(isinstance(n, int) for n in op.spread(s, g.rank(t)))
        for s, t in zip(subscripts, wide, strict=True)
    )
    rank = len(output) - 1 + covered if "..." in output else len(output)
    equation += "->" + _letters(op.spread(output, rank), free)
    return g.cast(g.op("Einsum", *wide, equation=equation), own)


def _letters(labels: Sequence[str | int], free: Sequence[str]) -> str:
    """A subscript with letters in place of an ellipsis, since onnxruntime wants an ellipsis in the
    output where there is one in the inputs.
    """
    return "".join(free[label] if isinstance(label, int) else label for label in labels)


#: Columns up to this many are eliminated one by one, without a Loop.
_UNROLLED = 32


@lowers("Inverse")
def inverse(g: Graph, op: Inverse, data: Tensor) -> Tensor:
    """Gauss-Jordan elimination with partial pivoting on [data, unit matrix], in f64; in a Loop
    where there are many columns or their number is not known.
    """
    rank, side = g.rank(data), dimension(g, data, -1)
    batches = _matrices(g, g.cast(data, T.f64))
    rows = g.unsqueeze(counted(g, side), [0, 2])
    diagonal = g.cast(g.op("Equal", rows, g.unsqueeze(counted(g, side), [0, 1])), T.f64)
    unit = g.op("Add", g.op("Mul", batches, g.constant(np.float64(0))), diagonal)
    table = g.op("Concat", batches, unit, axis=2, shape=[None, None, None])

    def step(graph: Graph, k: Tensor, tables: Sequence[Tensor]) -> Parts:
        return [_eliminated(graph, _pivoted(graph, tables[0], rows, k), rows, k)], []

    if isinstance(side, int) and side <= _UNROLLED:
        for k in range(side):
            ((table,), _) = step(g, g.constant(k, I64), [table])
    else:
        table = repeated(g, g.scalar(vector(g, side)), [table], step)[0]
    result = g.op("Slice", table, vector(g, side), [2**62], [2])
    if op.adjoint:
        result = g.op("Transpose", result, perm=[0, 2, 1])
    return g.cast(result if rank == 3 else g.reshape(result, g.shape(data)), data.type)


def _matrices(g: Graph, data: Tensor) -> Tensor:
    """Matrices with their leading dimensions joined to one."""
    rank = g.rank(data)
    if rank <= 3:
        return g.unsqueeze(data, [0]) if rank == 2 else data
    count = g.op("ReduceProd", g.dims(data, 0, rank - 2))
    return g.reshape(data, g.concat([count, g.dims(data, rank - 2, rank)]))


def _pivoted(g: Graph, table: Tensor, rows: Tensor, k: Tensor) -> Tensor:
    """The table with row k exchanged for the row from k on with the largest element in column k."""
    column = g.op("Abs", _at(g, table, k, 2))
    below = g.op("Where", g.op("Less", rows, k), g.constant(np.float64(-1)), column)
    largest = g.op("ArgMax", below, axis=1, keepdims=1)
    back = g.op("Where", g.op("Equal", rows, largest), k, rows)
    moved = g.op("Where", g.op("Equal", rows, k), largest, back)
    places = g.op("Expand", moved, g.op("Shape", table, type=I64))
    return g.op("GatherElements", table, places, axis=1, shape=table.shape)


def _eliminated(g: Graph, table: Tensor, rows: Tensor, k: Tensor) -> Tensor:
    """The table with column k turned into that of the unit matrix."""
    row = _at(g, table, k, 1)
    row = g.op("Div", row, _at(g, row, k, 2))
    here = g.op("Equal", rows, k)
    others = g.op("Where", here, g.constant(np.float64(0)), _at(g, table, k, 2))
    kept = g.op("Where", here, row, table)
    return g.op("Sub", kept, g.op("Mul", others, row), shape=table.shape)


def _at(g: Graph, table: Tensor, k: Tensor, axis: int) -> Tensor:
    """Row or column k, kept as a dimension of 1."""
    return g.op("Gather", table, g.unsqueeze(k, [0]), axis=axis)
