"""Commands run as on another processor, and so do the processes that these start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from uncork.kernels.runtime.target import host_target

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (
    "import sys, subprocess; from uncork.kernels.runtime.target import host_target; "
    "print(host_target().lanes, flush=True); "
    "sys.argv[1:] and subprocess.run([sys.executable, '-c', sys.argv[1]])"
)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.processes.as_level", *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


@pytest.mark.skipif(not host_target().has("avx2"), reason="this processor has no AVX2")
def test_a_command_and_what_it_starts() -> None:
    done = run("x86-64-v3", "python", "-c", PROGRAM, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["8", "8"]  # f32 of 256 bits


def test_levels_that_are_not_here() -> None:
    done = run("no-such-level", "python", "-c", "print('ran')")
    assert done.returncode == 1
    assert "no target no-such-level" in done.stderr
    assert not done.stdout
