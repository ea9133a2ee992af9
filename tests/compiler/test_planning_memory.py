"""Memory that is asked for while a call is planned: tables are refused before they are made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork


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


CASES: dict[str, tuple[Callable[[int], uncork.Model], tuple[int, ...]]] = {
    "Interpolate": (resized, (1, 0, 4, 1)),
    "RDFT": (transformed, (0, 8)),
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
