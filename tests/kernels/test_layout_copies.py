"""What kernels lay out in their working memory, by one thread and by parts: results are NumPy's.
Memory lies between pages that nobody may touch.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import run_fenced
from tests.kernels._run import spec_of
from uncork.kernels.kernel_plan import In, KernelCall, Out, Stages
from uncork.kernels.layer import staged
from uncork.kernels.movement.nd_copy import Loop, layout_copy, zeros
from uncork.kernels.movement.shared_moves import shared_moves
from uncork.kernels.movement.transpose import arranged
from uncork.kernels.runtime.target import host_target
from uncork.types import ElementType, PartialShape, TensorSpec

#: Channels, rows and columns: runs and vectors of all kinds, and enough for several threads.
SHAPES = [(3, 2, 1), (2, 3, 2), (5, 4, 3), (2, 9, 7), (3, 5, 17), (40, 23, 33)]


def copied(calls: list[KernelCall], data: np.ndarray, size: int, threads: int) -> np.ndarray:
    """What the calls leave in memory of so many numbers."""
    plan = staged(lambda t: Stages(list(shared_moves(calls, t)), 0), 0.0)
    result = [TensorSpec(ElementType.f32, PartialShape([size]))]
    found = run_fenced(plan, [spec_of(data, ElementType.f32)], result, False, threads)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_zeros_around(shape: tuple[int, ...], threads: int) -> None:
    data = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    expected = np.pad(data, ((0, 0), (1, 1), (1, 1)))
    channels, rows, columns = shape
    row = (columns + 2) * 4
    loops = [
        Loop(channels, rows * columns * 4, (rows + 2) * row),
        Loop(rows, columns * 4, row),
        Loop(columns, 4, 4),
    ]
    calls = [zeros(Out(0), expected.nbytes), layout_copy(In(0), Out(0, row + 4), loops)]
    found = copied(calls, data, expected.size, threads)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("step", [2, 3, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_some_columns(shape: tuple[int, ...], step: int, threads: int) -> None:
    data = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    expected = np.ascontiguousarray(data[:, :, ::step])
    lines, columns = shape[0] * shape[1], expected.shape[2]
    loops = [Loop(lines, shape[2] * 4, columns * 4), Loop(columns, step * 4, 4)]
    found = copied([layout_copy(In(0), Out(0), loops)], data, expected.size, threads)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("shape", [(3, 50), (50, 3), (4, 4), (20, 33), (90, 300)])
def test_turned(shape: tuple[int, int], images: int, threads: int) -> None:
    data = np.arange(1, 1 + images * np.prod(shape), dtype=np.float32).reshape(images, *shape)
    expected = np.ascontiguousarray(data.transpose(0, 2, 1))
    rows, columns = shape
    matrix = rows * columns * 4
    sides = (rows, columns * 4), (columns, rows * 4)
    call = arranged(host_target().lanes, In(0), Out(0), [Loop(images, matrix, matrix)], *sides)
    found = copied([call], data, expected.size, threads)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 31, 32, 33, 50_000])
def test_zeros(count: int, threads: int) -> None:
    found = copied([zeros(Out(0), count * 4)], np.ones(1, np.float32), count, threads)
    np.testing.assert_array_equal(found, np.zeros(count, np.float32))
