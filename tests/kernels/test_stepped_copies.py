"""Copies of single elements that lie some steps apart, forwards and backwards, in memory between
pages that nobody may touch: results are NumPy's.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import run_fenced
from tests.kernels._run import spec_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.movement.select_nd_copy import select_nd_copy
from uncork.kernels.movement.spec import NdCopy
from uncork.kernels.runtime.target import host_target, levels_here
from uncork.kernels.select import select_kernel
from uncork.ops.pad import Pad12
from uncork.ops.slice import Slice8
from uncork.types import ElementType, TensorSpec

TARGETS = {str(target.lanes): target for target in levels_here()}
STEPS = (-5, -4, -3, -2, -1, 2, 3, 4, 5)
#: Around the edges of vectors of 16, 32 and 64 bytes, of elements of 1 to 8 bytes.
COUNTS = (1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130)


def taken(
    data: np.ndarray, name: str, step: int, axis: int
) -> tuple[KernelPlan, list[TensorSpec], list[TensorSpec]]:
    """The strided copies of a slice of a whole axis."""
    begin, end = (0, 1 << 40) if step > 0 else (-1, -(1 << 40))
    numbers = [spec_of(np.array([n]), ElementType.i64) for n in (begin, end, step, axis)]
    specs = [spec_of(data, ElementType.parse(name)), *numbers]
    operation = Slice8()
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    chosen = select_nd_copy(operation, specs, outputs)
    assert isinstance(chosen, KernelPlan), chosen
    return chosen, specs, outputs


def made(
    plan: KernelPlan,
    specs: list[TensorSpec],
    outputs: list[TensorSpec],
    first: bool,
    lanes: str,
) -> list[np.ndarray]:
    found = run_fenced(plan, specs, outputs, first, target=TARGETS[lanes])
    assert found is not None
    return found


def numbers(shape: tuple[int, ...], name: str) -> np.ndarray:
    """Bits of every kind in an array of this type."""
    dtype = ElementType.parse(name).dtype
    size = int(np.prod(shape)) * dtype.itemsize
    return np.random.default_rng(size).integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


@pytest.mark.parametrize("name", ["u8", "f16", "i32", "i64"])
@pytest.mark.parametrize("lanes", TARGETS)
def test_slices_along_rows(name: str, lanes: str) -> None:
    for step, count, first in itertools.product(STEPS, COUNTS, (False, True)):
        # The last element is the last one of its row.
        data = numbers((3, (count - 1) * abs(step) + 1), name)
        plan, specs, outputs = taken(data, name, step, 1)
        (got,) = made(plan, specs, outputs, first, lanes)
        np.testing.assert_array_equal(got.view(np.uint8), data[:, ::step].copy().view(np.uint8))


@pytest.mark.parametrize("lanes", TARGETS)
def test_edges_are_repeated(lanes: str) -> None:
    operation = Pad12(pad_mode="edge")
    for width, first in itertools.product((1, 3, 4, 5, 16, 17, 40), (False, True)):
        data = numbers((2, 3), "i32")
        pads = [spec_of(np.array([0, n]), ElementType.i64) for n in (width, 1)]
        specs = [spec_of(data, ElementType.i32), *pads]
        outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
        plan = select_nd_copy(operation, specs, outputs)
        assert isinstance(plan, KernelPlan)
        (got,) = made(plan, specs, outputs, first, lanes)
        np.testing.assert_array_equal(got, np.pad(data, ((0, 0), (width, 1)), "edge"))


def test_large_slices_go_by_vectors() -> None:
    """A table would move each element by itself."""
    data = numbers((64, 128), "f32")
    end = -(1 << 40)
    some = [spec_of(np.array([n]), ElementType.i64) for n in (-1, end, -1, 1)]
    specs = [spec_of(data, ElementType.f32), *some]
    operation = Slice8()
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    plan = select_kernel(operation, specs, outputs, host_target())
    assert isinstance(plan, KernelPlan)
    assert plan.kernel == NdCopy(2, 4, -1).name == "nd_copy_2_4_reversed"
