"""The AMX emulator, by code that a C compiler and LLVM wrote. Where a processor has AMX, the same
cases run on that.

Each case is a process of its own (tests/kernels/amx): what the emulator refuses must end it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import _bf16
from tests.kernels.amx import byte_products, memory, products  # noqa: F401  # the cases in them
from tests.kernels.amx.case import CASES
from tests.kernels.amx.refusals import REFUSALS

ROOT = Path(__file__).parents[2]

_REASON = _bf16.tiles_unavailable() or (None if _bf16.compiler() else "no C compiler")
pytestmark = pytest.mark.skipif(_REASON is not None, reason=str(_REASON))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the processes build once for all."""
    return tmp_path_factory.mktemp("amx")


def run(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.kernels.amx", str(folder), name]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )


@pytest.mark.parametrize("name", CASES)
def test_tiles(folder: Path, name: str) -> None:
    done = run(folder, name)
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_what_llvm_writes(folder: Path) -> None:
    pytest.importorskip("llvmlite")
    done = run(folder, "what_llvm_writes")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", ""), done.stderr


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_forbidden_ends_the_process(folder: Path, name: str) -> None:
    """With the signal that a processor's exception becomes on Linux."""
    done = run(folder, name)
    message = REFUSALS[name].message
    assert done.returncode == -(
        signal.SIGSEGV if message.startswith("LDTILECFG") else signal.SIGILL
    ), done.stderr
    assert done.stdout == ""
    assert done.stderr == ("" if _bf16.native_tiles() else f"emulator: {message}\n")


@pytest.mark.parametrize("name", ["undefined", "product_of_bytes"])
def test_other_instructions_are_not_executed(folder: Path, name: str) -> None:
    if name != "undefined" and _bf16.native_tiles():
        pytest.skip("this processor may have them")
    done = run(folder, name)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGILL, "", "")


def test_the_handler_before_gets_what_is_not_emulated(folder: Path) -> None:
    done = run(folder, "handled_before")
    assert (done.returncode, done.stdout, done.stderr) == (0, "the handler before\n", "")


def test_a_folder_is_not_needed() -> None:
    program = (
        "from tests.kernels import _bf16; emulator = _bf16.enable(); print(emulator is None "
        "or set(emulator.counts().values()) == {0})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_compiler_that_fails_is_quoted(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("this is no C")
    with pytest.raises(RuntimeError, match=r"(?s)wrong\.c failed:.*error"):
        _bf16.built("wrong", [source], tmp_path)
    assert list(tmp_path.iterdir()) == [source]


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_bf16.shutil, "which", lambda name: None)
    monkeypatch.setattr(_bf16, "native_tiles", lambda: False)
    assert _bf16.tiles_unavailable() == "the emulator needs a C compiler (cc, gcc or clang)"
    with pytest.raises(RuntimeError, match="no C compiler: install cc, gcc or clang"):
        _bf16.built("any", [tmp_path / "any.c"], tmp_path)


def test_without_this_system(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(_bf16.platform, "machine", lambda: "aarch64")
        assert _bf16.tiles_unavailable() == "tile instructions need x86-64 Linux"
    monkeypatch.setattr(_bf16, "_flags", lambda: {"sse2"})
    assert _bf16.tiles_unavailable() == "the emulator needs a processor with AVX2 and FMA"
