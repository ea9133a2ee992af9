"""Products of packed matrices with rows that lie anywhere: where each row begins, and where its
result goes, stands in tables.

Convolutions of few pixels and einsums are such products; no operation has the kernel for itself.
"""

from __future__ import annotations

import numpy as np

from uncork.kernels.gemm.spec_indirect import Products
from uncork.kernels.kernel_plan import KernelCall, Operand
from uncork.types import Array


def panels(spec: Products, matrices: Array) -> Array:
    """`matrices [B, N, K]` as panels `[B, P, K, width]`, zeros past N."""
    batches, columns, inner = matrices.shape
    count = -(-columns // spec.width)
    packed = np.zeros((batches, count * spec.width, inner), np.float32)
    packed[:, :columns] = matrices
    return np.ascontiguousarray(
        packed.reshape(batches, count, spec.width, inner).transpose(0, 1, 3, 2)
    )


def multiplied(spec: Products, operands: dict[str, Operand]) -> KernelCall:
    """A call of the kernel."""
    return spec, [operands[name] for name in spec.arguments]
