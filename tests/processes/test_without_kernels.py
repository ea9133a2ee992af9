"""Where there are no kernels, or some cannot be made: everything works by the references, and one
warning says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes._children import ROOT, run_child

#: Every kind of call that kernels have a part in.
CALLS = """
import sys, warnings
import numpy as np, uncork
from uncork import functional as F

F32 = np.float32

def models():
    b = uncork.Builder("chain")
    x = b.parameter("x", "f32", [4, 8])
    (y,) = b.add("Add", 1, x, b.constant(F32(2)))
    (y,) = b.add("Multiply", 1, y, x)
    b.result(y)
    yield b.model(), [np.arange(32, dtype=F32).reshape(4, 8)]
    b = uncork.Builder("shared by threads")
    x = b.parameter("x", "f32", [512, 512])
    b.result(b.add("MatMul", 1, x, b.constant(np.eye(512, dtype=F32)))[0])
    yield b.model(), [np.arange(512 * 512, dtype=F32).reshape(512, 512) % 17]
    b = uncork.Builder("sizes from numbers")
    x, n = b.parameter("x", "f32", [None]), b.parameter("n", "i64", [1])
    (r,) = b.add("Reshape", 1, x, b.constant(np.array([-1])), special_zero=False)
    (y,) = b.add("Broadcast", 3, b.constant(F32(3)), n)
    b.result(y)
    b.result(b.add("Negative", 1, r)[0])
    yield b.model(), [np.arange(6, dtype=F32), np.array([5])]
    b = uncork.Builder("bags")
    ids, offsets = b.parameter("ids", "i64", [None]), b.parameter("offsets", "i64", [None])
    table = b.constant(np.arange(40, dtype=F32).reshape(10, 4))
    b.result(b.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets)[0])
    yield b.model(), [np.array([1, 2, 3]), np.array([0, 2])]

def everything():
    for model, data in models():
        by_reference = uncork.compile_model(model, backend="reference")(*data)
        compiled = uncork.compile_model(model, threads=3)
        bound = compiled.bind(*data)
        for call in (lambda: compiled(*data), lambda: compiled(*data), bound, bound):
            for a, b in zip(call(), by_reference):
                np.testing.assert_array_equal(a, b)
        yield compiled.plan
    for _ in range(4):
        assert F.gather(np.arange(8.0), np.array([3, 1]), 0).tolist() == [3, 1]
"""

FAILING = """
from uncork.kernels.runtime import llvm
real, refused, tried = llvm.compiled, sys.argv[1], []
def compiled(text, target):
    if not refused or '"' + refused in text or "@" + refused in text:
        tried.append(1)
        raise RuntimeError("LLVM ERROR: cannot select this")
    return real(text, target)
llvm.compiled = compiled
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as found:
    plans = list(everything())
print(len(found), *{str(w.message) for w in found})
count = len(tried); list(everything()); print("tried", count > 0, "again", len(tried) - count)
"""


@pytest.mark.parametrize("kernel", ["", "add_multiply", "matmul", "gather", "bag", "segment_entry"])
def test_a_kernel_that_cannot_be_compiled(tmp_path: Path, kernel: str) -> None:
    """All of them, those of a family, and those that calls are made of."""
    pytest.importorskip("llvmlite")
    done = run_child(CALLS + FAILING, kernel, home=tmp_path)
    assert done.returncode == 0, done.stderr
    first, tried = done.stdout.splitlines()
    assert first.startswith("1 kernel '"), first
    how = (
        "calls go through ctypes"
        if kernel == "segment_entry"
        else "its steps run by the NumPy references"
    )
    assert f"cannot be compiled: LLVM ERROR: cannot select this; {how}" in first
    assert tried == "tried True again 0", "what has failed once is not tried again"


def stand_in(folder: Path, version: str) -> None:
    """Another llvmlite, which must not be imported."""
    (folder / "llvmlite").mkdir()
    (folder / "llvmlite" / "__init__.py").write_text("raise SystemExit('imported')")
    (folder / "llvmlite" / "_version.py").write_text(
        f"version_version = '{version}'\ndef get_versions(): return {{'version': "
        f"version_version}}\n"
    )


WITHOUT = """
if {hide}: sys.modules["llvmlite"] = None
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as found:
    uncork.compile_model(next(models())[0], backend="reference")
    assert not found, "asked for"
    plans = list(everything())
print(len(found), found[0].category.__name__, found[0].filename, found[0].message)
print(plans[0])
"""


def test_without_llvmlite_one_warning_says_that_it_is_slow(tmp_path: Path) -> None:
    done = run_child(CALLS + WITHOUT.format(hide=True), home=tmp_path)
    assert done.stdout.startswith(
        "1 UncorkWarning <string> llvmlite is not installed: models run by the NumPy references, "
        "which is slow; pip install 'uncork[compile]'"
    ), done.stdout + done.stderr
    assert "llvmlite is not installed" in done.stdout.partition("\n")[2]


@pytest.mark.parametrize("version", ["0.43.0", "0.39.1", "0.43.0rc1"])
def test_an_old_llvmlite_counts_as_none(tmp_path: Path, version: str) -> None:
    stand_in(tmp_path, version)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + CALLS + WITHOUT.format(hide=False)
    )
    done = run_child(code, home=tmp_path)
    assert (
        f"1 UncorkWarning <string> llvmlite {version} is too old, 0.44 is needed: models run by "
        "the NumPy references" in done.stdout
    ), done.stderr


def test_the_oldest_llvmlite_is_the_one_that_is_asked_for() -> None:
    from uncork.kernels.runtime.target import OLDEST_LLVMLITE

    assert (
        f'"llvmlite>={OLDEST_LLVMLITE[0]}.{OLDEST_LLVMLITE[1]},'
        in (ROOT / "pyproject.toml").read_text()
    )


def test_the_command_line_says_it_as_it_says_errors(tmp_path: Path) -> None:
    code = """
import sys; sys.modules["llvmlite"] = None
from uncork.cli import main
sys.exit(main(["run", sys.argv[1], "--random"]))
"""
    done = run_child(
        code.replace("sys.exit", "import warnings; warnings.simplefilter('default'); sys.exit"),
        model_file(tmp_path),
    )
    assert done.returncode == 0
    assert done.stderr.startswith(
        "uncork: warning: llvmlite is not installed: models run by the NumPy references"
    )
    assert len(done.stderr.splitlines()) == 1


def model_file(folder: Path) -> Path:
    import uncork

    builder = uncork.Builder("m")
    x = builder.parameter("x", "f32", [4])
    builder.result(builder.add("Add", 1, x, x)[0])
    uncork.write_model(builder.model(), folder / "m.xml")
    return folder / "m.xml"
