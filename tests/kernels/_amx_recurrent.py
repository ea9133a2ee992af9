"""Sequences in bf16 on tile instructions, held to what `test_recurrent_bf16` holds the kernels
without them to, and between fences.

Run as a process of its own: `python -m tests.kernels._amx_recurrent FOLDER`, where the emulator may
be built.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from tests.kernels import _bf16 as bf16
from tests.kernels import _fences
from uncork.ir.hints import Hints
from uncork.kernels import select
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target, host_target
from uncork.types import TensorSpec


def _between_fences(target: Target) -> None:
    """No reads and writes outside, one thread and three."""
    generator = np.random.default_rng(1)
    for label, operation, specs in _fences.recurrent(generator):
        outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
        for precision in ("bf16", "bf16x3"):
            chosen = select.select_kernel(
                operation, specs, outputs, target, Hints(precision=precision)
            )
            assert isinstance(chosen, KernelPlan), chosen
            assert "bf16_" in chosen.kernel or precision == "bf16x3"
            expected = operation.evaluate(specs)
            for first, threads in ((False, 1), (True, 3)):
                results = _fences.run_fenced(chosen, specs, outputs, first, threads, target)
                assert results is not None
                for got, wanted in zip(results, expected, strict=True):
                    np.testing.assert_allclose(
                        got, wanted.value, atol=5e-2 if precision == "bf16" else 1e-4, err_msg=label
                    )


def main(folder: str) -> None:
    emulator = bf16.enable_kernels(Path(folder), tiles=True)
    target = host_target(tiles=True)
    from tests.kernels.test_recurrent_bf16 import CELLS, compare_extremes, compare_with_the_walk

    # Sizes around a tile: 16 rows, 32 numbers of an inner product, 16 columns. A batch of 1 makes
    # the products with X in tiles only.
    for cell in CELLS:
        for shape in [
            (1, 9, 1, 1),
            (1, 20, 33, 17),
            (2, 5, 5, 33),
            (15, 2, 32, 32),
            (16, 3, 31, 64),
            (17, 9, 65, 31),
            (33, 2, 3, 48),
        ]:
            before = emulator.counts()["TDPBF16PS"] if emulator else 0
            plan = compare_with_the_walk(cell, shape, target)
            assert f"bf16_{'all' if shape[0] > 1 else 'ahead'}" in plan, plan
            assert emulator is None or emulator.counts()["TDPBF16PS"] > before
            print(cell, shape, "well", flush=True)
        compare_extremes(cell, target)
    _between_fences(target)
    print("fences well")


if __name__ == "__main__":
    main(sys.argv[1])
