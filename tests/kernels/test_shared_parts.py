"""Large steps by parts, also for far more threads than here: enough of them, of about one size, and
with the bits of one thread, whichever part is made first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import bits, run_fenced
from uncork.internal_ops.blocks import BlockedConvolution, BlockedPooling
from uncork.internal_ops.pooled_values import PooledValues
from uncork.kernels.kernel_plan import KernelPlan, grid, parts_along, shares
from uncork.kernels.runtime.target import host_target
from uncork.kernels.select import select_kernel
from uncork.ops import Operation, find
from uncork.symbolic import Facts, Origin, Size
from uncork.types import ElementType, PartialShape, TensorSpec

MANY = 64
LANES = host_target().lanes
#: An operation, its inputs, which of them only the call knows, and the least parts for 64 threads.
Case = tuple[Operation, list[np.ndarray], int]


def some(*shape: int, type_: Any = np.float32) -> np.ndarray:
    numbers = np.random.default_rng(len(shape)).standard_normal(shape)
    return (numbers * (9 if np.dtype(type_).kind in "iu" else 1)).astype(type_)


def places(*shape: int, below: int) -> np.ndarray:
    return np.random.default_rng(5).integers(-below, below, shape)


def scalar(number: int) -> np.ndarray:
    return np.array(number)


def around(pad: int, stride: int = 1) -> dict[str, list[int]]:
    return {
        "strides": [stride] * 2,
        "dilations": [1, 1],
        "pads_begin": [pad] * 2,
        "pads_end": [pad] * 2,
    }


def blocked(taps: int, blocks: int, outputs: int, size: int, group: bool = False) -> Case:
    """A convolution over blocks of channels."""
    shape = (
        (blocks * LANES, 1, 1, taps, taps)
        if group
        else (outputs * LANES, blocks * LANES, taps, taps)
    )
    name = "GroupConvolution" if group else "Convolution"
    plain = find(name, 1)(**around(taps // 2))
    data = some(1, blocks, size, size, LANES)
    return BlockedConvolution(plain, (True, False), LANES), [data, some(*shape) / 8], 32


def winograd() -> Case:
    plain = find("Convolution", 1)(**around(1))
    filters = some(8 * LANES, 2 * LANES, 3, 3) / 30
    return (
        BlockedConvolution(plain, (True, False), LANES, side=2),
        [some(1, 2, 14, 14, LANES), filters],
        16,
    )


def pooled() -> Case:
    window = {k: v for k, v in around(1, 2).items() if k != "dilations"}
    operation = PooledValues(find("MaxPool", 8)(kernel=[3, 3], **window))
    return BlockedPooling(operation, (True,), LANES), [some(1, 1, 112, 112, LANES)], 50


def scattered(reduction: str, axis: int, *sizes: int) -> Case:
    operation = find("ScatterElementsUpdate", 12)(reduction=reduction, use_init_val=True)
    data = some(*sizes)
    return operation, [data, places(*sizes, below=sizes[axis]), some(*sizes), scalar(axis)], 8


def summed(name: str, axes: list[int], *sizes: int) -> Case:
    return find(name, 1)(keep_dims=False), [some(*sizes), np.array(axes)], 4


CASES: dict[str, Callable[[], Case]] = {
    "few rows, many columns": lambda: (find("MatMul", 1)(), [some(3, 200), some(200, 3100)], 60),
    "rows and columns": lambda: (find("MatMul", 1)(), [some(100, 64), some(64, 300)], 40),
    "many rows, few columns": lambda: (find("MatMul", 1)(), [some(600, 64), some(64, 20)], 64),
    "rows of a long inner dimension": lambda: (
        find("MatMul", 1)(),
        [some(150, 13_000), some(13_000, 90)],
        18,
    ),
    "one row": lambda: (find("MatMul", 1)(), [some(1, 300), some(300, 4000)], 64),
    "a product for each head": lambda: (
        find("MatMul", 1)(),
        [some(3, 700, 32), some(3, 32, 40)],
        15,
    ),
    "a pointwise convolution of one set": lambda: blocked(1, 2, 1, 40),
    "a convolution of small planes": lambda: blocked(3, 2, 16, 7),
    "each channel for itself": lambda: blocked(3, 1, 1, 60, group=True),
    "Winograd's tiles": winograd,
    "the largest of blocks": pooled,
    "three outputs": lambda: (
        find("Convolution", 1)(**around(1)),
        [some(1, 7, 90, 90), some(3, 7, 3, 3)],
        45,
    ),
    "few pixels": lambda: (
        find("ConvolutionBackpropData", 1)(**around(1, 2)),
        [some(1, 40, 4, 4), some(40, 300, 4, 4)],
        6,
    ),
    "sums of columns": lambda: summed("ReduceSum", [0], 300, 4000),
    "means between others": lambda: summed("ReduceMean", [1], 2, 40, 900),
    "products of columns": lambda: summed("ReduceProd", [0], 9, 4001),
    "elements along the first axis": lambda: scattered("none", 0, 90, 700),
    "sums of elements": lambda: scattered("sum", 0, 90, 700),
    "means of elements": lambda: scattered("mean", 1, 20, 50, 33),
    "rows that replace others": lambda: (
        find("ScatterUpdate", 3)(),
        [some(90, 1000), places(60, below=90) % 90, some(60, 1000), scalar(0)],
        15,
    ),
    "slices that replace others": lambda: (
        find("ScatterUpdate", 3)(),
        [some(40, 30, 50), places(60, below=30) % 30, some(40, 60, 50), scalar(1)],
        40,
    ),
    "rows that are added": lambda: (
        find("ScatterNDUpdate", 15)(reduction="sum"),
        [some(90, 1000), places(200, 1, below=90), some(200, 1000)],
        15,
    ),
    "the best of rows": lambda: (
        find("TopK", 11)(axis=1, mode="max", sort="value"),
        [some(300, 70), scalar(3)],
        64,
    ),
    "a stretched sum": lambda: (find("Add", 1)(), [some(3, 50, 70), some(50, 1)], 30),
    "boxes on the levels of a pyramid": lambda: (
        find("ExperimentalDetectronROIFeatureExtractor", 6)(
            output_size=7, sampling_ratio=2, pyramid_scales=[4, 8]
        ),
        [abs(some(70, 4)).cumsum(axis=1) * 90, some(1, 9, 90, 60), some(1, 9, 45, 30)],
        64,
    ),
    "softmax on an inner axis": lambda: (find("SoftMax", 8)(axis=1), [some(2, 40, 500)], 32),
    "softmax of one long row of columns": lambda: (
        find("SoftMax", 8)(axis=0),
        [some(9, 3001)],
        32,
    ),
    "slices": lambda: (
        find("Slice", 8)(),
        [some(3, 90, 80), scalar(1)[None], scalar(70)[None], scalar(1)[None], np.array([2])],
        30,
    ),
}


def planned(case: Case) -> tuple[KernelPlan, list[TensorSpec], list[TensorSpec]]:
    operation, arrays, _ = case
    given = [spec_of(array) for array in arrays]
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(given)]
    chosen = select_kernel(operation, given, outputs, host_target())
    assert isinstance(chosen, KernelPlan), chosen
    return chosen, given, outputs


def spec_of(array: np.ndarray) -> TensorSpec:
    element_type = ElementType.of_dtype(array.dtype)
    assert element_type is not None
    return TensorSpec(element_type, PartialShape(array.shape), array)


@pytest.mark.parametrize("name", CASES)
def test_parts_have_the_bits_of_one_thread(name: str) -> None:
    case = CASES[name]()
    chosen, given, outputs = planned(case)
    assert chosen.split is not None
    alone = run_fenced(chosen, given, outputs, False)
    assert alone is not None
    for threads in (2, 3, 7, MANY):
        for first in (False, True):
            together = run_fenced(chosen, given, outputs, first, threads)
            assert bits(together) == bits(alone), f"{threads} threads"


@pytest.mark.parametrize("name", CASES)
def test_there_is_work_for_many_threads(name: str) -> None:
    case = CASES[name]()
    chosen, _, _ = planned(case)
    assert chosen.split is not None
    parts = max(len(stage) for stage in chosen.split(MANY).stages)
    assert case[2] <= parts <= 2 * MANY


def test_the_axis_that_divides_evenly() -> None:
    """7 rows of 8 columns: by rows one of two threads would have 4 of 7."""
    assert parts_along([(7, 1), (8, 1)], 2) == (1, 2)
    assert parts_along([(8, 1), (7, 1)], 2) == (2, 1)
    assert parts_along([(7, 1), (8, 1)], 64) == (7, 8)
    assert parts_along([(100, 1), (3, 1)], 64) == (21, 3)
    assert parts_along([(1, 1), (1, 1)], 64) == (1, 1)
    # Blocks of 16 columns that stay together: three of them.
    assert parts_along([(2, 1), (48, 16)], 6) == (2, 3)


def test_parts_are_all_of_the_work_once() -> None:
    parts = grid([(7, 1), (50, 16)], 5)
    cells = [
        (row, column)
        for (first, rows), (left, columns) in parts
        for row in range(first, first + rows)
        for column in range(left, left + columns)
    ]
    assert sorted(cells) == [(row, column) for row in range(7) for column in range(50)]
    assert all(left % 16 == 0 for _, (left, _) in parts)


def test_an_open_axis_is_taken_to_be_long() -> None:
    rows = Size.of(Facts().symbol("n", 0, None, "input", Origin(0, 0, 0)))
    assert parts_along([(rows, 1), (3, 1)], 4) == (4, 1)
    assert len(shares(rows, 4)) == 4
