"""Products and convolutions by AMX, each in a process of its own: natively, or by the emulator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from tests.kernels import _bf16

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    _bf16.kernels_unavailable() is not None, reason=str(_bf16.kernels_unavailable())
)


@pytest.mark.parametrize("name", ["products", "convolutions"])
def test_kernels_in_tiles(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"tests.kernels._amx_{name}", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("well\n")
