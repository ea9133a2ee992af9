"""MatMul, Einsum, Inverse: products of matrices."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from uncork.export.onnx.families.normalization import widened
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.einsum import Einsum
from uncork.ops.inverse import Inverse
from uncork.ops.matmul import MatMul
from uncork.types import ElementType

T = ElementType


@lowers("MatMul")
def matmul(g: Graph, op: MatMul, a: Tensor, b: Tensor) -> Tensor:
    """The flags transpose the last two dimensions; of vectors they mean nothing."""
    return g.op("MatMul", _turned(g, a, op.transpose_a), _turned(g, b, op.transpose_b))


def _turned(g: Graph, data: Tensor, flag: bool) -> Tensor:
    rank = g.rank(data) if flag else 0
    if not flag or rank < 2:
        return data
    return g.transpose(data, [*range(rank - 2), rank - 1, rank - 2])


@lowers("Einsum")
def einsum(g: Graph, op: Einsum, *operands: Tensor) -> Tensor:
    """ONNX's own, with the output written out."""
    subscripts, output = op.parsed()
    own = operands[0].type
    wide = [widened(g, t) for t in operands]
    used = {label for subscript in subscripts for label in subscript}
    free = [c for c in string.ascii_letters if c not in used]
    equation = ",".join(_letters(op.spread(s, g.rank(t)), free) for s, t in zip(subscripts, wide))
    covered = max(
        sum(isinstance(n, int) for n in op.spread(s, g.rank(t))) for s, t in zip(subscripts, wide)
    )
    rank = len(output) - 1 + covered if "..." in output else len(output)
    equation += "->" + _letters(op.spread(output, rank), free)
    return g.cast(g.op("Einsum", *wide, equation=equation), own)


def _letters(labels: Sequence[str | int], free: Sequence[str]) -> str:
    """The dimensions of an ellipsis as letters too: onnxruntime wants one in the output where there
    is one in the inputs.
    """
    return "".join(free[label] if isinstance(label, int) else label for label in labels)


#: Larger matrices would take thousands of nodes.
_LARGEST = 32


@lowers("Inverse")
def inverse(g: Graph, op: Inverse, data: Tensor) -> Tensor:
    """Gauss's elimination on [data, unit matrix], the largest element of each column brought to the
    diagonal, in f64.
    """
    side = data.shape[-1].static_size if data.rank is not None else None
    if side is None or side > _LARGEST:
        g.refuse(f"inverses of matrices of unknown size, or of more than {_LARGEST} rows")
    rank = g.rank(data)
    batches = g.op("Reshape", g.cast(data, T.f64), [-1, side, side], shape=[None, side, side])
    unit = g.op("Add", g.op("Mul", batches, g.constant(np.float64(0))), g.constant(np.eye(side)))
    table = g.op("Concat", batches, unit, axis=2, shape=[None, side, 2 * side])
    for k in range(side):
        table = _eliminated(g, _pivoted(g, table, k), k, side)
    result = g.slice(table, side, 2 * side, 2)
    if op.adjoint:
        result = g.op("Transpose", result, perm=[0, 2, 1])
    return g.cast(
        result if rank == 3 else g.op("Reshape", result, g.shape(data), shape=data.shape), data.type
    )


def _pivoted(g: Graph, table: Tensor, k: int) -> Tensor:
    """Row k and the row from k on with the largest element in column k changed places."""
    below = g.op("Abs", g.op("Slice", table, [k, k], [2**31, k + 1], [1, 2]))
    largest = g.op("Add", g.op("ArgMax", below, axis=1, keepdims=1), g.constant(k, I64))
    places = g.constant(np.arange(int(table.shape[1])).reshape(1, -1, 1))
    here = g.op("Equal", places, largest)
    moved = g.op(
        "Where",
        g.op("Equal", places, g.constant(k, I64)),
        largest,
        g.op("Where", here, g.constant(k, I64), places),
    )
    return g.op(
        "GatherElements",
        table,
        g.op("Expand", moved, g.op("Shape", table, type=I64)),
        axis=1,
        shape=table.shape,
    )


def _eliminated(g: Graph, table: Tensor, k: int, side: int) -> Tensor:
    """Column k made that of the unit matrix."""
    row = g.slice(table, k, k + 1, 1)
    row = g.op("Div", row, g.slice(row, k, k + 1, 2))
    others = g.op(
        "Mul",
        g.slice(table, k, k + 1, 2),
        g.constant((np.arange(side) != k).astype(np.float64).reshape(1, -1, 1)),
    )
    kept = g.op("Where", g.constant((np.arange(side) == k).reshape(1, -1, 1)), row, table)
    return g.op("Sub", kept, g.op("Mul", others, row), shape=table.shape)
