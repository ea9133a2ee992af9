"""Products of rows of digits and weights as they are stored in tile instructions, between fences:
beside sums in f64, and bit by bit beside the kernels of VNNI, whose sums are as exact.

Run as a process of its own: `python -m tests.kernels._amx_stored FOLDER`, where the emulator may be
built.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.kernels import _bf16, _fences
from tests.kernels._compressed import matrix
from tests.kernels.test_compressed_dots import hold
from uncork.internal_ops.compressed_linear import CompressedLinear, CompressedMatrix
from uncork.kernels import select
from uncork.kernels.compressed.spec_dots import DotRows
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target, host_target
from uncork.ops import find

#: Columns, inner size, size of a group: around the edges of panels, lines, runs and tiles.
_SIZES = [(5, 8, 0), (70, 264, 0), (51, 160, 32), (33, 192, 96), (64, 384, 128), (16, 1024, 512)]
_ROWS = (16, 17, 31, 40)
_KINDS = [("i8", ""), ("u8", "whole"), ("i4", ""), ("u4", "whole"), ("u4", "small")]


def _cases() -> Iterator[tuple[CompressedMatrix, int, str]]:
    generator, rows = np.random.default_rng(1), itertools.cycle(_ROWS)
    for (i, (stored, zeros)), (j, size) in itertools.product(enumerate(_KINDS), enumerate(_SIZES)):
        columns, inner, group = size
        weights = matrix(generator, stored, columns, inner, group, zeros)
        yield weights, next(rows), ("f32", "i16", "i8")[(i + j) % 3]


def _results(
    operation: CompressedLinear, x: np.ndarray, target: Target
) -> tuple[np.ndarray, DotRows]:
    """What kernels of a target give, which is the same whoever makes its parts."""
    specs = [_fences.spec(x)]
    outputs = operation.describe(specs)
    chosen = select.select_kernel(operation, specs, outputs, target)
    assert isinstance(chosen, KernelPlan), chosen
    ways = [(first, threads) for first in (False, True) for threads in (1, 3)]
    found = [_fences.run_fenced(chosen, specs, outputs, *way, target) for way in ways]
    assert len({tuple(_fences.bits(results) or ()) for results in found}) == 1
    assert found[0] is not None
    return found[0][0], next(s for s, _ in chosen.calls if isinstance(s, DotRows))


def main(folder: str) -> None:
    emulator = _bf16.enable_kernels(Path(folder), tiles=True)
    _fences._CANARY = 0xFF
    generator = np.random.default_rng(2)
    for weights, rows, activations in _cases():
        x = generator.standard_normal((rows, weights.inner)).astype(np.float32)
        x *= 10.0 ** generator.integers(-3, 4, x.shape).astype(np.float32)
        if rows == 31:
            x[7, -1], x[30, 0] = np.inf, np.nan
        product = find("MatMul", 1)(transpose_b=True)
        operation = CompressedLinear(product, weights, activations=activations)
        before = emulator.counts()["TDPBSUD"] if emulator else 0
        got, spec = _results(operation, x, host_target(tiles=True))
        assert spec.by == "tiles", spec.name
        assert emulator is None or emulator.counts()["TDPBSUD"] > before
        without, other = _results(operation, x, host_target())
        assert not other.by
        np.testing.assert_array_equal(got.view(np.int32), without.view(np.int32))
        if activations == "f32":
            whole = np.isfinite(x).all(1)
            hold(got[whole], weights, x[whole], spec.unit)
    print("well")


if __name__ == "__main__":
    main(sys.argv[1])
