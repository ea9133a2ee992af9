"""MatMul, Einsum, Inverse: products of matrices."""

from __future__ import annotations

import string
from collections.abc import Sequence

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
    used = {label for subscript in subscripts for label in subscript}
    free = [c for c in string.ascii_letters if c not in used]
    equation = ",".join(_letters(op.spread(s, g.rank(t)), free) for s, t in zip(subscripts, wide))
    covered = max(sum(isinstance(n, int) for n in op.spread(s, g.rank(t))) for s, t in zip(subscripts, wide))
    rank = len(output) - 1 + covered if "..." in output else len(output)
    equation += "->" + _letters(op.spread(output, rank), free)
    return g.cast(g.op("Einsum", *wide, equation=equation), own)


def _letters(labels: Sequence[str | int], free: Sequence[str]) -> str:
    """The dimensions of an ellipsis as letters too: onnxruntime wants one in the output where there is one in the inputs."""
    return "".join(free[label] if isinstance(label, int) else label for label in labels)
