"""Benchmarks run as on another processor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import PROCESSES, main
from tools.kernel_recorder import TARGETS

from uncork.kernels.runtime.target import host_target

pytest.importorskip("llvmlite")

ROOT = Path(__file__).resolve().parents[2]
AVX2 = TARGETS["x86-64-v3"]


def test_kernels_are_made_for_the_target() -> None:
    if not all(host_target().has(name[1:]) for name in AVX2.features.split(",")):
        pytest.skip("this processor has no AVX2")
    script = """
import numpy as np
from benchmarks.targets import run_as
assert run_as("x86-64-v3") == ""
import uncork
from uncork import Builder
builder = Builder("one")
x = builder.parameter("x", "f32", [9, 5])
weights = np.arange(200, dtype=np.float32).reshape(5, 40)
builder.result(builder.add("MatMul", 1, x, builder.constant(weights))[0], "y")
compiled = uncork.compile_model(builder.model(), threads=1)
a = np.arange(45, dtype=np.float32).reshape(9, 5)
np.testing.assert_array_equal(compiled(a)[0], a @ weights)
print(*(step.kernel for step in compiled.plan.steps))
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "matmul_3_16_8" in result.stdout  # panels of three vectors of 8 lanes


@pytest.mark.parametrize("command", sorted(PROCESSES))
def test_processes_of_their_own_are_refused(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([command, "--target", "x86-64-v3", "--out", str(tmp_path)]) == 2
    assert command in capsys.readouterr().err


def test_targets_that_are_not_here(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = "aarch64" if host_target().arch == "x86_64" else "x86-64-v3"
    for name, said in (("zen", "no target zen"), (other, other)):
        assert main(["ops", "--target", name, "--out", str(tmp_path)]) == 2
        assert said in capsys.readouterr().err
