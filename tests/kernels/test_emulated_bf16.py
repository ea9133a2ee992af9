"""Kernels on bf16 where the processor has no products of bf16: the tests of them, in processes that
emulate AVX512-BF16 (`_emulated.py`). Elsewhere those tests run as they are.

What is chosen here takes some seconds each: an emulated product costs a microsecond and more.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from tests.kernels import _bf16

ROOT = Path(__file__).parents[2]
CORPUS = ROOT.parent / "shared" / "conformance" / "torch_nets.dev.zip"
_REASON = _bf16.kernels_unavailable()
pytestmark = [
    pytest.mark.skipif(_REASON is not None, reason=str(_REASON)),
    pytest.mark.skipif(_bf16.native_vectors(), reason="the tests themselves run here"),
]

#: Programs, and which of the vectors' instructions they must have executed.
PROGRAMS = {
    "products": ("pytest tests/kernels/test_held.py", "not attention and not 6000", "VDPBF16PS"),
    "attention": ("pytest tests/kernels/test_held.py", "attention and not 70-301", "VDPBF16PS"),
    "blocks": (
        "pytest tests/kernels/test_blocks.py",
        "test_widths_around_tiles and 17",
        "VDPBF16PS",
    ),
    "pools": ("pytest tests/kernels/test_pool_blocks.py", "largest and size1", "VCVTNEPS2BF16"),
    "recurrent": ("pytest tests/kernels/test_recurrent_bf16.py", "factors", "VDPBF16PS"),
    "compressed": ("pytest tests/kernels/test_compressed.py", "pairs", "VDPBF16PS"),
    "networks": ("pytest tests/passes/test_hold_halves.py", "", "VDPBF16PS"),
    "bounds of a comparison": ("pytest tests/compare/test_precision.py", "", "VDPBF16PS"),
    "transposed convolutions": (
        "pytest tests/kernels/test_blocks.py",
        "test_transposed and (5- or sizes)",
        "VDPBF16PS",
    ),
    "few channels": ("pytest tests/kernels/test_blocks.py", "test_data_of_few and 13", "VDPBF16PS"),
    "random networks": ("tests.fuzz.halves --count 4", "", "VDPBF16PS"),
    "a corpus": (f"tests.fuzz.corpus_halves {CORPUS}", "", "VDPBF16PS"),
    "compressed between fences": ("tests.kernels._fences compressed", "", "VDPBF16PS"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the emulator is kept, and the kernels."""
    return tmp_path_factory.mktemp("emulated")


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels(folder: Path, name: str) -> None:
    program, chosen, instruction = PROGRAMS[name]
    if str(CORPUS) in program and not CORPUS.exists():
        pytest.skip("no corpora lie beside the project")
    module, *arguments = program.split()
    if module == "pytest":
        # faulthandler would take SIGILL from the emulator.
        arguments += ["-q", "-p", "no:faulthandler", "-p", "no:cacheprovider"]
        arguments += ["-k", chosen] if chosen else []
    command = [sys.executable, "-m", "tests.kernels._emulated", str(folder), "vectors", module]
    done = subprocess.run(
        [*command, *arguments],
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    executed = re.search(rf"(\d+) of {instruction}", done.stdout.splitlines()[-1])
    assert executed, done.stdout[-500:]
    assert int(executed.group(1)) > 0
