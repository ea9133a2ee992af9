"""The emulator of AVX512-BF16, by code that an assembler wrote. Where a processor has AVX512-BF16,
the same cases run on that.

Each case is a process of its own (tests/kernels/avx512_bf16): what there is not must end it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import _bf16
from tests.kernels.avx512_bf16 import conversions, operands, products  # noqa: F401  # the cases
from tests.kernels.avx512_bf16.case import CASES
from tests.kernels.avx512_bf16.reserved import RESERVED

ROOT = Path(__file__).parents[2]

_REASON = _bf16.vectors_unavailable() or (None if _bf16.compiler() else "no C compiler")
available = pytest.mark.skipif(_REASON is not None, reason=str(_REASON))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the processes build once for all."""
    return tmp_path_factory.mktemp("avx512_bf16")


def run(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.kernels.avx512_bf16", str(folder), name]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )


@available
@pytest.mark.parametrize("name", CASES)
def test_vectors(folder: Path, name: str) -> None:
    done = run(folder, name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", ""), done.stderr


@available
@pytest.mark.parametrize("name", RESERVED)
def test_what_there_is_not_ends_the_process(folder: Path, name: str) -> None:
    done = run(folder, name)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGILL, "", "")


def test_where_it_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(_bf16.platform, "machine", lambda: "aarch64")
        assert _bf16.vectors_unavailable() == "AVX512-BF16 is emulated on x86-64 Linux only"
    if sys.platform != "linux" or _bf16.platform.machine() != "x86_64":
        return
    features = {"avx2", "fma", "avx512f", "avx512bw", "avx512vl"}
    monkeypatch.setattr(_bf16, "_flags", lambda: features)
    assert _bf16.vectors_unavailable() == "the emulator needs a processor with AVX-512"
    monkeypatch.setattr(_bf16, "compiler", lambda: "cc")
    features.add("avx512dq")
    assert _bf16.vectors_unavailable() is None
    assert _bf16.kernels_unavailable() == "their level needs AVX-512 VNNI"
    features.add("avx512_vnni")
    assert _bf16.kernels_unavailable() is None
    monkeypatch.setattr(_bf16, "compiler", lambda: None)
    assert _bf16.kernels_unavailable() == "the emulator needs a C compiler (cc, gcc or clang)"
