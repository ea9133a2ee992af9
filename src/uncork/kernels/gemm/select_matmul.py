"""Which kernel multiplies f32 matrices: with constant weights, a bias and an activation, or two matrices of the call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uncork.internal_ops.fused import FusedLinear
from uncork.kernels.runtime.kernel_cache import STORE, has_feature, lanes
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.select import Choice, In, KernelCall, Native, Operand, Out, Room, Stages, chooses, shares
from uncork.ops import Operation
from uncork.ops.matmul import MatMul
from uncork.types import Array, ElementType, TensorSpec

#: Inner products longer than this are left to NumPy's BLAS: a panel of them no longer fits the second-level cache.
_LONGEST = 4096
#: Products of this many multiplications and more, with a matrix of the call, too: packing it costs more than BLAS's start.
_LARGE = 1 << 22
#: Threads share rows by whole blocks of the microkernel, so that every sum is made as by one thread.
_BLOCK = 8


@dataclass(frozen=True, slots=True)
class Linear:
    """What a kernel is specialised for. A panel is `vectors` vectors of columns; `tail` columns are left for the last one."""

    vectors: int
    tail: int
    lanes: int
    bias: bool = False
    activation: str = ""
    #: The second matrix comes packed (see `pack`), not as an array of the call.
    packed: bool = True

    @property
    def name(self) -> str:
        flags = f"{'_bias' if self.bias else ''}{'_' + self.activation if self.activation else ''}{'_packed' if self.packed else ''}"
        return f"linear_{self.vectors}x{self.lanes}_{self.tail}{flags}"

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes


#: Addresses, strides in bytes, counts. `rows` of one batch; `table` has room for as many addresses, `panels` for a packed matrix.
ARGUMENTS = (
    "a", "a_row", "a_batch", "b", "b_inner", "b_column", "b_batch", "bias", "output", "batches", "rows", "inner", "columns", "table", "panels",
)  # fmt: skip


def specialised(columns: int, bias: bool = False, activation: str = "", packed: bool = True) -> Linear:
    """The kernel for a number of columns."""
    width = lanes()
    vectors = max(1, min(3, -(-columns // width)))
    return Linear(vectors, columns % (vectors * width), width, bias, activation, packed)


def pack(spec: Linear, matrix: Array) -> Array:
    """`matrix [K, N]` as panels `[P, K, width]`, zeros past N."""
    inner, columns = matrix.shape
    panels = -(-columns // spec.width)
    packed = np.zeros((panels * spec.width, inner), np.float32)
    packed[:columns] = matrix.T
    return np.ascontiguousarray(packed.reshape(panels, spec.width, inner).transpose(0, 2, 1))


def _linear(spec: Linear) -> int:
    def make() -> str:
        from uncork.kernels.gemm.emit_matmul import emit_linear

        return emit_linear(spec, has_feature("avx512f"))

    return STORE.function(spec.name, repr(spec), make)


@chooses(MatMul, FusedLinear)
def choose_linear(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    a, b = inputs[0], inputs[1]
    assert a is not None and b is not None
    product = operation.product if isinstance(operation, FusedLinear) else operation
    assert isinstance(product, MatMul)
    if a.element_type is not ElementType.f32:
        return f"no kernel for {a.element_type}"
    if not a.shape.is_static or not b.shape.is_static:
        return "shapes are known at the call only"
    left, right = a.shape.static, b.shape.static
    if len(left) < 2 or len(right) < 2 or product.transpose_a:
        return "no kernel for vectors and a transposed first matrix"
    inner = left[-1]
    columns = right[-2] if product.transpose_b else right[-1]
    if inner > _LONGEST or not inner or not columns or 0 in left or 0 in right:
        return "no kernel for empty or very long inner products"
    bias = inputs[2] if len(inputs) > 2 else None
    activation = operation.activation if isinstance(operation, FusedLinear) else None
    word = "" if activation is None else activation.type_name.lower()
    rows, batches = left[-2], math.prod(left[:-2])
    if len(right) == 2:
        rows, batches = rows * batches, 1  # one matrix for all batches: they are rows of one product
    elif left[:-2] != right[:-2]:
        return "no kernel for batches that stretch"
    spec = specialised(columns, bias is not None, word, packed=b.value is not None and len(right) == 2)
    keep: list[object] = []
    table = rows * 8
    matrix: list[Operand]
    if spec.packed:
        assert b.value is not None
        value, transposed = b.value, product.transpose_b
        packing = packed([value], (spec, transposed), lambda: [pack(spec, value.T if transposed else value)])
        keep.append(packing)
        matrix, room = [packing.arrays[0].ctypes.data, 0, 0, 0], table
    else:
        if rows * inner * columns >= _LARGE:
            return "NumPy's BLAS is faster for large matrices of the call"
        strides = (4, inner * 4) if product.transpose_b else (columns * 4, 4)
        matrix, room = [In(1), *strides, inner * columns * 4], table + -(-columns // spec.width) * spec.width * inner * 4
    function = _linear(spec)

    def rows_of(first: int, count: int) -> KernelCall:
        """The product of some rows, of every batch."""
        words: list[Operand] = [In(0, first * inner * 4), inner * 4, rows * inner * 4, *matrix, In(2) if bias is not None else 0]
        words += [Out(0, first * columns * 4), batches, count, inner, columns, Room(first * 8), Room(table)]
        assert len(words) == len(ARGUMENTS)
        return function, words

    def split(threads: int) -> Stages:
        return Stages([[rows_of(first, count) for first, count in shares(rows, threads, _BLOCK)]], room)

    cost = batches * rows * inner * columns / 30
    # A matrix of the call is brought into order by every call of the kernel, and rows of a batch lie apart.
    whole = not spec.packed or batches > 1
    return Native(spec.name, [rows_of(0, rows)], room=room, keep=keep, cost=cost, split=None if whole else split)
