"""Which kernel multiplies f32 matrices: with constant weights, a bias and an activation, or two matrices of the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from uncork.internal_ops.fused import FusedLinear
from uncork.kernels.epilogue import PLAIN, Epilogue
from uncork.kernels.extents import certainly, extents, is_empty, nanoseconds, product, same_extents
from uncork.kernels.gemm.spec_matmul import MASKED, Linear
from uncork.kernels.kernel_plan import In, KernelCall, KernelPlan, Operand, Out, Scratch, Selection, Stages, shares
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import selects
from uncork.kernels.select_epilogue import epilogue_of, operands_for
from uncork.ops import Operation
from uncork.ops.matmul import MatMul
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType, TensorSpec

#: Inner products longer than this are left to NumPy's BLAS: a panel of them no longer fits the second-level cache.
_LONGEST = 4096
#: Products of this many multiplications and more, with a matrix of the call, too: packing it costs more than BLAS's start.
_LARGE = 1 << 22
#: Threads share rows by whole blocks of the microkernel, so that every sum is made as by one thread.
_BLOCK = 8


def specialised(width: int, columns: SizeLike, end: Epilogue = PLAIN, packed: bool = True) -> Linear:
    """The kernel for vectors of `width` lanes and a number of columns; where only the call knows it, the last panel is masked."""
    if not isinstance(columns, int):
        return Linear(2, MASKED, width, end, packed)
    vectors = max(1, min(3, -(-columns // width)))
    return Linear(vectors, columns % (vectors * width), width, end, packed)


def pack(spec: Linear, matrix: Array) -> Array:
    """`matrix [K, N]` as panels `[P, K, width]`, zeros past N."""
    inner, columns = matrix.shape
    panels = -(-columns // spec.width)
    packed = np.zeros((panels * spec.width, inner), np.float32)
    packed[:columns] = matrix.T
    return np.ascontiguousarray(packed.reshape(panels, spec.width, inner).transpose(0, 2, 1))


def unsuited(matmul: MatMul, left: Sequence[SizeLike], right: Sequence[SizeLike]) -> str:
    """Why no kernel multiplies matrices of these sizes; nothing where one does."""
    if len(left) < 2 or len(right) < 2 or matmul.transpose_a:
        return "no kernel for vectors and a transposed first matrix"
    if (isinstance(left[-1], int) and left[-1] > _LONGEST) or is_empty((*left, *right)):
        return "no kernel for empty or very long inner products"
    if len(right) > 2 and not same_extents(left[:-2], right[:-2]):
        return "no kernel for batches that stretch"
    return ""


@selects(MatMul, FusedLinear)
def select_linear(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec], target: Target) -> Selection:
    a, b = inputs[0], inputs[1]
    assert a is not None and b is not None
    matmul = operation.product if isinstance(operation, FusedLinear) else operation
    assert isinstance(matmul, MatMul)
    if a.element_type is not ElementType.f32:
        return f"no kernel for {a.element_type}"
    left, right = extents(a), extents(b)
    if reason := unsuited(matmul, left, right):
        return reason
    inner = left[-1]
    columns = right[-2] if matmul.transpose_b else right[-1]
    end, others = epilogue_of(operation, inputs, outputs[0], -1)
    rows, batches = left[-2], product(left[:-2])
    if len(right) == 2:
        rows, batches = rows * batches, 1  # one matrix for all batches: they are rows of one product
    spec = specialised(target.lanes, columns, end, packed=b.value is not None and len(right) == 2)
    keep: list[object] = []
    table = rows * 8
    matrix: list[Operand]
    if spec.packed:
        assert b.value is not None
        value, transposed = b.value, matmul.transpose_b
        packing = packed([value], (replace(spec, end=PLAIN), transposed), lambda: [pack(spec, value.T if transposed else value)])
        keep.append(packing)
        matrix, scratch = [packing.arrays[0].ctypes.data, 0, 0, 0], table
    else:
        if isinstance(work := rows * inner * columns, int) and work >= _LARGE:
            return "NumPy's BLAS is faster for large matrices of the call"
        strides = (4, inner * 4) if matmul.transpose_b else (columns * 4, 4)
        matrix, scratch = [In(1), *strides, inner * columns * 4], table + (columns + (spec.width - 1)) // spec.width * spec.width * inner * 4

    def rows_of(first: SizeLike, count: SizeLike) -> KernelCall:
        """The product of some rows, of every batch."""
        words: list[Operand] = [In(0, first * inner * 4), inner * 4, rows * inner * 4, *matrix]
        words += [Out(0, first * columns * 4), batches, count, inner, columns, Scratch(first * 8), Scratch(table)]
        words += operands_for(end, others, 0, first * columns * 4)
        assert len(words) == len(spec.arguments)
        return spec, words

    def split(threads: int) -> Stages:
        return Stages([[rows_of(first, count) for first, count in shares(rows, threads, _BLOCK)]], scratch)

    cost = nanoseconds(batches * rows * inner * columns, 1 / 30)
    # A matrix of the call is brought into order by every call of the kernel, and rows of a batch lie apart.
    whole = not spec.packed or not certainly(batches, 1)
    return KernelPlan(spec.name, [rows_of(0, rows)], scratch=scratch, keep=keep, cost=cost, split=None if whole else split)
