"""Memory that is asked for while a call is planned: tables are refused before they are made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.ir.hints import Hints
from uncork.kernels import select
from uncork.kernels.convolution import direct
from uncork.kernels.convolution.geometry import Geometry
from uncork.kernels.convolution.layout import Layout
from uncork.kernels.kernel_plan import Selection
from uncork.kernels.layer import MOST_TABLE_BYTES
from uncork.kernels.runtime.target import Target
from uncork.ops import Operation
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec


def resized(size: int) -> uncork.Model:
    """A picture whose height is resized to a number that stands in the file."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [1, None, 4, 1])
    inputs = [builder.constant(np.array(v)) for v in ([size], np.float32([1]), [2])]
    attributes = {"mode": "linear_onnx", "shape_calculation_mode": "sizes"}
    attributes["coordinate_transformation_mode"] = "half_pixel"
    builder.result(builder.add("Interpolate", 4, x, *inputs, **attributes)[0], "y")
    return builder.model()


def transformed(size: int) -> uncork.Model:
    """A signal that is filled up to a length that stands in the file."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None, 8])
    numbers = [builder.constant(np.array([n])) for n in (1, size)]
    builder.result(builder.add("RDFT", 9, x, *numbers)[0], "y")
    return builder.model()


def convolved(size: int, axes: int = 2) -> uncork.Model:
    """Images with so many pixels of nothing before their first axis, or their last of two."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None, 1, *[4] * axes])
    filters = builder.constant(np.ones([2, 1, *[3] * axes], np.float32))
    pads = [size, 0, 0] if axes == 3 else [0, size]
    ones = {"strides": [1] * axes, "dilations": [1] * axes, "pads_end": [0] * axes}
    (y,) = builder.add("Convolution", 1, x, filters, pads_begin=pads, auto_pad="explicit", **ones)
    builder.result(y, "y")
    return builder.model()


CASES: dict[str, tuple[Callable[[int], uncork.Model], tuple[int, ...]]] = {
    "Interpolate": (resized, (1, 0, 4, 1)),
    "RDFT": (transformed, (0, 8)),
    "Convolution of long rows": (convolved, (0, 1, 4, 4)),
    "Convolution of many slices": (lambda size: convolved(size, 3), (0, 1, 4, 4, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_tables_keep_to_the_limit_of_memory(name: str) -> None:
    make, shape = CASES[name]
    compiled = uncork.compile_model(make(1 << 20), memory_limit=1 << 20)
    assert 0 in compiled(np.zeros(shape, np.float32))[0].shape
    full = tuple(max(1, size) for size in shape)
    shown = compiled.plan_for(x=full)
    assert [step.kernel for step in shown.steps] == ["reference"]
    assert "its tables need " in shown.steps[0].reason
    assert uncork.compile_model(make(64)).plan_for(x=full).steps[0].kernel != "reference"


@pytest.mark.parametrize("name", CASES)
def test_a_small_file_takes_no_gigabytes(name: str) -> None:
    """Whatever its numbers are: the process may have 2 GB, and is refused in words."""
    code = f"""
import resource
import numpy as np
import uncork
from tests.compiler.test_planning_memory import CASES
make, shape = CASES[{name!r}]
compiled = uncork.compile_model(make(1 << 40), threads=1)
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    compiled(np.zeros(shape, np.float32))
    compiled(np.zeros([max(1, n) for n in shape], np.float32))
except uncork.UncorkError as error:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "refused\n", done.stderr


@pytest.mark.parametrize("name", CASES)
def test_whoever_asks_for_kernels_keeps_to_the_limit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans are also made to learn whether known sizes would have kernels."""
    make, shape = CASES[name]
    asked: list[int] = []
    selected = select.select_kernel

    def noting(
        operation: Operation,
        inputs: Sequence[TensorSpec | None],
        outputs: Sequence[TensorSpec],
        target: Target,
        hints: Hints,
        table_bytes: int = MOST_TABLE_BYTES,
    ) -> Selection:
        asked.append(table_bytes)
        return selected(operation, inputs, outputs, target, hints, table_bytes)

    monkeypatch.setattr(select, "select_kernel", noting)
    compiled = uncork.compile_model(make(1 << 20), memory_limit=1 << 20)
    compiled.plan_for(x=tuple(max(1, size) for size in shape))
    assert set(asked) == {1 << 20}


def test_a_limit_of_nothing_leaves_no_room_for_tables() -> None:
    compiled = uncork.compile_model(resized(64), memory_limit=0)
    (step,) = compiled.plan_for(x=(1, 1, 4, 1)).steps
    assert step.kernel == "reference"
    assert "more than 0" in step.reason


def test_rows_that_fit_are_found_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not row by row, which takes minutes for a number of a file."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [1, 1, 4, 4])
    filters = builder.constant(np.ones((2, 1, 3, 3), np.float32))
    attributes = {"strides": [1, 1], "dilations": [1, 1], "auto_pad": "explicit"}
    attributes |= {"pads_begin": [1 << 16, 0], "pads_end": [0, 0]}
    (y,) = builder.add("Convolution", 1, x, filters, **attributes)
    builder.result(y, "y")
    model = builder.model()
    laid_out: list[Layout] = []
    found = direct.layout_of

    def noting(g: Geometry, rows: SizeLike, images: SizeLike, channels: int) -> Layout:
        laid_out.append(found(g, rows, images, channels))
        return laid_out[-1]

    monkeypatch.setattr(direct, "layout_of", noting)
    compiled = uncork.compile_model(model, threads=1)
    assert "convolution" in compiled.plan_for(x=(1, 1, 4, 4)).steps[0].kernel
    assert 0 < len(laid_out) < 1 << 12
    value = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    (result,) = compiled(value)
    assert result.shape == (1, 2, (1 << 16) + 2, 2)
    sums = np.array([[value[0, 0, i : i + 3, j : j + 3].sum() for j in (0, 1)] for i in (0, 1)])
    np.testing.assert_array_equal(result[0, :, -2:], [sums, sums])
    assert not result[0, :, : (1 << 16) - 2].any()
