"""MatMul, Einsum, Inverse: products of matrices."""

from __future__ import annotations

from uncork.export.onnx.families.normalization import widened
from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.einsum import Einsum
from uncork.ops.matmul import MatMul


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
    equation = ",".join("".join(s) for s in subscripts) + "->" + "".join(output)
    return g.cast(g.op("Einsum", *wide, equation=equation), own)
