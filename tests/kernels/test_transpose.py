"""Transpositions by blocks: every order of axes, sizes around the edges of blocks, and the types
that are moved.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import run_fenced
from tests.kernels._run import spec_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import host_target
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.types import ElementType, TensorSpec


def turned(data: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Element by element, by the page's formula."""
    result = np.zeros([data.shape[axis] for axis in order], data.dtype)
    for place in np.ndindex(*data.shape):
        result[tuple(place[axis] for axis in order)] = data[place]
    return result


def compare(shape: tuple[int, ...], order: tuple[int, ...], name: str = "f32") -> str:
    """The kernel that ran."""
    element_type = ElementType.parse(name)
    bits = np.random.default_rng(len(shape)).integers(
        0, 1 << 32, shape, np.uint32
    )  # NaN of every kind among them
    data = bits.view(element_type.dtype)
    specs = [spec_of(data, element_type), spec_of(np.array(order), ElementType.i64)]
    outputs = [TensorSpec(element_type, o.shape) for o in find("Transpose", 1)().describe(specs)]
    chosen = select_kernel(find("Transpose", 1)(), specs, outputs, host_target())
    assert isinstance(chosen, KernelPlan), chosen
    whole = order or tuple(range(len(shape)))[::-1]
    for first, threads in itertools.product((False, True), (1, 2, 3) if chosen.split else (1,)):
        (got,) = run_fenced(chosen, specs, outputs, first, threads)
        np.testing.assert_array_equal(got.view(np.uint32), turned(bits, whole))
    return chosen.kernel


@pytest.mark.parametrize("rows", [3, 4, 5, 7, 8, 15, 16, 17, 33])
@pytest.mark.parametrize("columns", [3, 4, 8, 9, 16, 31, 48])
def test_sizes(rows: int, columns: int) -> None:
    for name in ("f32", "i32", "u32"):
        kernel = compare((rows, columns), (1, 0), name)
        assert kernel.startswith("transpose" if min(rows, columns) > 3 else "copy_table")


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_orders(order: tuple[int, ...]) -> None:
    compare((2, 5, 6, 9), order)
    compare((5, 1, 6, 4), order)


@pytest.mark.parametrize(
    "order",
    [(), (4, 3, 2, 1, 0), (0, 2, 4, 1, 3), (1, 0, 3, 4, 2), (4, 0, 1, 2, 3), (0, 4, 1, 2, 3)],
)
def test_five_axes(order: tuple[int, ...]) -> None:
    compare((2, 4, 3, 5, 4), order)
