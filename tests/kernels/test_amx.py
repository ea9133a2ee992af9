"""Products, convolutions, attention, stored weights, quantized and random networks by AMX, each in
a process of its own: natively, or by the emulator.
"""

from __future__ import annotations

import re
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


_EMULATED = ["tests.kernels._emulated", "tiles"]
PROGRAMS = {
    "products": ["tests.kernels._amx_products"],
    "convolutions": ["tests.kernels._amx_convolutions"],
    "attention": ["tests.kernels._amx_attention"],
    "stored weights": ["tests.kernels._amx_stored"],
    "products of bytes": ["tests.kernels._amx_bytes"],
    "random networks": [*_EMULATED, "tests.fuzz.halves", "--count", "4"],
    # faulthandler would take SIGILL from the emulator.
    "quantized networks": [
        *(*_EMULATED, "pytest", "tests/passes/test_quantize_layers.py", "-q"),
        *("-p", "no:faulthandler", "-p", "no:cacheprovider", "-k", "not openvino"),
    ],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_in_tiles(name: str, tmp_path: Path) -> None:
    module, *arguments = PROGRAMS[name]
    done = subprocess.run(
        [sys.executable, "-m", module, str(tmp_path), *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"well$|executed natively$|[1-9]\d* of TDP", done.stdout), done.stdout
