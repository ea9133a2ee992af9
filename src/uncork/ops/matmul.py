"""MatMul-1: products of matrices, with batches.

    output[n.., i, j] = sum over k of a[n.., i, k] * b[n.., k, j]

Page: operation-specs/matrix/matmul-1. The flags transpose the last two dimensions of tensors of
rank 2 and more; a vector is a row on the left and a column on the right, and its added dimension is
dropped from the result; batch dimensions stretch by NumPy's rule. Integers wrap modulo 2**bits.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.broadcast import broadcast_shapes
from uncork.ops._operation import Operation, register
from uncork.ops._ports import ARITHMETIC, Attribute, Input, Output, boolean
from uncork.types import Array, PartialShape, TensorSpec


@register("MatMul", 1)
class MatMul(Operation):
    """`a [n.., i, k]` (or `[k]`), `b [n.., k, j]` (or `[k]`); transposed as the flags say."""

    multiplies = True
    a = Input(ARITHMETIC, "T")
    b = Input(ARITHMETIC, "T")
    output = Output("T")
    transpose_a = Attribute(boolean, default=False)
    transpose_b = Attribute(boolean, default=False)

    def infer(self, a: TensorSpec, b: TensorSpec) -> PartialShape:
        for spec, name in ((a, "a"), (b, "b")):
            self.require(
                spec.rank != 0, "input '{}': expected at least one dimension, got a scalar", name
            )
        if a.rank is None or b.rank is None:
            return PartialShape()
        rows, inner_a = ([], a.shape[0]) if a.rank == 1 else ([a.shape[-2]], a.shape[-1])
        inner_b, columns = (b.shape[0], []) if b.rank == 1 else (b.shape[-2], [b.shape[-1]])
        if self.transpose_a and rows:
            rows, inner_a = [inner_a], rows[0]
        if self.transpose_b and columns:
            inner_b, columns = columns[0], [inner_b]
        flags = "".join(
            f", {n} transposed"
            for n, flag in (("a", self.transpose_a), ("b", self.transpose_b))
            if flag
        )
        fits = inner_a.agrees(inner_b)
        self.require(
            fits,
            "the inner dimensions differ: {} of a, {} of b (a {}, b {}{})",
            inner_a,
            inner_b,
            a.shape,
            b.shape,
            flags,
        )
        batches = broadcast_shapes(self, [a.shape[:-2], b.shape[:-2]], ["batch of a", "batch of b"])
        return batches + rows + columns

    def reference(self, a: Array, b: Array) -> Array:
        if self.transpose_a and a.ndim > 1:
            a = np.swapaxes(a, -1, -2)
        if self.transpose_b and b.ndim > 1:
            b = np.swapaxes(b, -1, -2)
        return np.asarray(np.matmul(a, b))
