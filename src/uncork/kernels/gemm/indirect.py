"""Products of packed matrices with rows that lie anywhere: where each row begins, and where its
result goes, stands in tables.

Convolutions of few pixels and einsums are such products; no operation has the kernel for itself.
"""

from __future__ import annotations

import numpy as np

from uncork.kernels.gemm.spec_indirect import IndirectGemm
from uncork.kernels.runtime.packed_weights import panels_of
from uncork.types import Array


def panels(spec: IndirectGemm, matrices: Array) -> Array:
    """`matrices [B, N, K]` as panels `[B, P, K, width]`, zeros past N."""
    if len(matrices) == 1:
        return panels_of(matrices[0], spec.width)[None]
    return np.stack([panels_of(matrix, spec.width) for matrix in matrices])
