"""Products of tensors of bf16 in tile instructions beside the same sums in f64, between fences.

Run as a process of its own: `python -m tests.kernels._amx_products FOLDER`, where the emulator may
be built.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from tests.kernels import _bf16, _fences
from tests.kernels.test_held import halves, known, numbers, random, rounded
from uncork import storage
from uncork.internal_ops.fused import FusedLinear, FusedMember
from uncork.internal_ops.held import HeldProduct
from uncork.ir.hints import Hints
from uncork.kernels import select
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target, host_target
from uncork.ops.arithmetic import Add
from uncork.ops.matmul import MatMul
from uncork.types import ElementType, TensorSpec

F32, BF16 = ElementType.f32, ElementType.bf16


def _product(target: Target, rows: int, inner: int, columns: int, result: ElementType) -> None:
    """A product with a bias and a residual, by one thread and by three, past whose memory nothing
    is read or written.
    """
    x, w = halves(random(rows, inner)), random(columns, inner, seed=1)
    bias, residual = random(columns, seed=2), random(rows, columns, seed=3)
    other = halves(residual) if result is BF16 else known(residual)
    members = [FusedMember(Add(), (0, 1)), FusedMember(Add(), (3, 2))]
    operation = HeldProduct(FusedLinear(MatMul(transpose_b=True), 2, members), result)
    specs = [x, known(w), known(bias), other]
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    chosen = select.select_kernel(operation, specs, outputs, target, Hints(precision="bf16"))
    assert isinstance(chosen, KernelPlan), chosen
    assert ("tiles" in chosen.kernel) == (rows > 1), chosen.kernel
    expected = numbers(x) @ rounded(w).T + bias + numbers(other)
    most = abs(numbers(x)) @ abs(rounded(w)).T + abs(bias) + abs(numbers(other))
    last = abs(expected) * 2**-8 if result is BF16 else 0
    for threads in (1, 3):
        results = _fences.run_fenced(chosen, specs, outputs, threads > 1, threads, target)
        assert results is not None
        found = storage.decode(results[0], result).astype(np.float64)
        assert (abs(found - expected) <= most * 1e-6 + last).all(), (rows, inner, columns, threads)


def main(folder: str) -> None:
    emulator = _bf16.enable_kernels(Path(folder), tiles=True)
    target = host_target(tiles=True)
    # Sizes around tiles: 16 and 32 rows, 32 numbers of an inner product, 16 and 32 columns.
    for rows, inner, columns in [
        (2, 2, 1),
        (15, 34, 17),
        (16, 64, 32),
        (17, 62, 33),
        (31, 96, 50),
        (32, 30, 64),
        (33, 32, 16),
        (65, 66, 47),
        (100, 1026, 515),
    ]:
        for result in (F32, BF16):
            before = emulator.counts()["TDPBF16PS"] if emulator else 0
            _product(target, rows, inner, columns, result)
            assert emulator is None or emulator.counts()["TDPBF16PS"] > before
        print(rows, inner, columns, "well", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
