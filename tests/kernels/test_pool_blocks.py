"""Poolings over blocks of channels, against the reference of the pooling, between forbidden
pages.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import run_fenced
from tests.kernels._run import spec_of
from tests.kernels.test_blocks import BLOCKS, LONG
from uncork.internal_ops.blocks import BlockedPooling, to_blocks
from uncork.internal_ops.held import HALF
from uncork.internal_ops.pooled_values import PooledValues
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import host_target
from uncork.kernels.select import select_kernel
from uncork.ops import Operation, find
from uncork.storage import decode, encode
from uncork.types import ElementType, TensorSpec

WINDOWS = [
    {"kernel": (3, 3), "strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)},
    {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 1)},
    {
        "kernel": (3, 3),
        "strides": (2, 2),
        "pads_begin": (0, 0),
        "pads_end": (0, 0),
        "rounding_type": "ceil",
    },
    {"kernel": (2, 5), "strides": (2, 3), "pads_begin": (1, 4), "pads_end": (0, 2)},
    {"kernel": (5, 5), "strides": (1, 1), "pads_begin": (2, 2), "pads_end": (2, 2)},
]


#: Of three axes.
DEEP = [
    {"kernel": (1, 3, 3), "strides": (1, 2, 2), "pads_begin": (0, 1, 1), "pads_end": (0, 1, 1)},
    {"kernel": (3, 3, 3), "strides": (1, 1, 1), "pads_begin": (1, 1, 1), "pads_end": (1, 1, 1)},
    {"kernel": (2, 2, 2), "strides": (2, 2, 2), "pads_begin": (0, 0, 0), "pads_end": (0, 0, 0)},
    {"kernel": (3, 1, 2), "strides": (2, 1, 1), "pads_begin": (2, 0, 0), "pads_end": (0, 0, 1)},
]


def pooled(operation: Operation, wrapped: Operation, block: int, x: np.ndarray) -> None:
    blocked = BlockedPooling(wrapped, (True,), block)
    specs = [spec_of(to_blocks(x, block), ElementType.f32)]
    outputs = [TensorSpec(o.element_type, o.shape) for o in blocked.describe(specs)]
    chosen = select_kernel(blocked, specs, outputs, host_target())
    assert isinstance(chosen, KernelPlan), chosen
    expected = operation.reference(x)
    expected = expected[0] if isinstance(expected, tuple) else expected
    for threads, first in itertools.product((1, 2), (False, True)):
        results = run_fenced(chosen, specs, outputs, first, threads)
        assert results is not None
        np.testing.assert_allclose(results[0], to_blocks(expected, block), rtol=1e-6, atol=1e-6)
    if not host_target().has("avx512bf16"):
        return  # data are held in halves only where these are multiplied
    held, codes = blocked.replace(half=True), encode(to_blocks(x, block), HALF)
    specs = [spec_of(codes, HALF)]
    (exact,) = blocked.evaluate([spec_of(decode(codes, HALF), ElementType.f32)])
    outputs = [TensorSpec(o.element_type, o.shape) for o in held.describe(specs)]
    chosen = select_kernel(held, specs, outputs, host_target())
    assert isinstance(chosen, KernelPlan), chosen
    results = run_fenced(chosen, specs, outputs, False, 2)
    assert results is not None
    np.testing.assert_allclose(decode(results[0], HALF), exact.value, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("block", [*BLOCKS, LONG])
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: str(w["kernel"]))
@pytest.mark.parametrize("size", [(3, 3), (7, 9), (14, 31)])
def test_largest_cells(window: dict, size: tuple[int, int], block: int) -> None:
    """A NaN stays one, and cells outside are never the largest."""
    x = np.random.default_rng(1).standard_normal((2, 2 * block, *size)).astype(np.float32) - 5
    x[0, 0, 1, 1] = np.nan
    x[1, 1] = -np.inf
    operation = find("MaxPool", 8)(**window)
    pooled(operation, PooledValues(operation), block, x)


@pytest.mark.parametrize("block", [*BLOCKS, LONG])
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: str(w["kernel"]))
@pytest.mark.parametrize("exclude_pad", [True, False])
def test_means(window: dict, exclude_pad: bool, block: int) -> None:
    x = np.random.default_rng(2).standard_normal((2, 2 * block, 11, 13)).astype(np.float32)
    operation = find("AvgPool", 1)(exclude_pad=exclude_pad, **window)
    pooled(operation, operation, block, x)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("window", DEEP, ids=lambda w: str(w["kernel"]))
def test_three_axes(window: dict, block: int) -> None:
    x = np.random.default_rng(3).standard_normal((2, 2 * block, 5, 6, 13)).astype(np.float32)
    for exclude_pad in (True, False):
        mean = find("AvgPool", 1)(exclude_pad=exclude_pad, **window)
        pooled(mean, mean, block, x)
    x[0, 0, 1, 1] = np.nan
    largest = find("MaxPool", 8)(**window)
    pooled(largest, PooledValues(largest), block, x)
