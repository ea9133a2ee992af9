"""Compiled files elsewhere: on other C libraries, processors and interpreters, without llvmlite.

`UNCORK_ELSEWHERE` names a folder with programs that are called as Python is, each with NumPy and
msgspec and without llvmlite; `.ci/elsewhere` makes one with a Python of musl, one of aarch64 by
an emulator, Python 3.14, and a free-threaded one.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler import test_loop_steps as loops
from tests.compiler.image.test_compiled_files import CALLS, finds_sizes, floats, recommender
from tests.compiler.test_state import GOOD, X, running_sum
from uncork.ops._body import Slicing

ROOT = Path(__file__).resolve().parents[3]
FOLDER = os.environ.get("UNCORK_ELSEWHERE", "")
PROGRAMS = sorted(p for p in Path(FOLDER).iterdir() if p.is_file()) if FOLDER else []
LEVELS = ("x86-64-v3", "aarch64", "aarch64-dotprod")
#: Loads each file of a folder, makes its calls, and holds them against what is expected.
_PROGRAM = """
import os, platform, sys, sysconfig
import numpy as np, uncork
from uncork.kernels.runtime.entry_method import lays_out_as_expected
assert "llvmlite" not in sys.modules
folder = sys.argv[1]
for name in sorted(n for n in os.listdir(folder) if n.endswith(".uncork")):
    compiled = uncork.load(os.path.join(folder, name))
    with np.load(os.path.join(folder, name + ".npz")) as stored:
        for number in range(int(stored["calls"])):
            given = [stored[f"in_{number}_{i}"] for i in range(len(compiled.inputs))]
            for again in range(1 if name.startswith("keeps") else 2):
                results = compiled(*given)
                for i in range(len(compiled.outputs)):
                    want = stored[f"out_{number}_{i}"]
                    assert results[i].dtype == want.dtype and results[i].shape == want.shape
                    np.testing.assert_allclose(results[i], want, rtol=1e-5, atol=1e-6)
try:
    uncork.load(os.path.join(folder, "recommender.uncork"))(np.array([77]), np.array([0]))
except uncork.InputError as error:
    assert "met a value" in str(error)
else:
    raise AssertionError("an index outside of its table")
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
assert lays_out_as_expected() is not free_threaded
print("well", platform.machine(), platform.python_version(), "ctypes" if free_threaded else "")
"""


def _models() -> Iterator[tuple[str, uncork.Model, list[tuple[np.ndarray, ...]]]]:
    yield "recommender", recommender(), list(CALLS)
    yield "finds", finds_sizes(), [(np.array(x, np.float32),) for x in ([1, -1, 2], [-1, 3], [4])]
    yield "keeps", running_sum(), [(X, GOOD)] * 3
    recurrence = loops.recurrence(Slicing(0), Slicing(0, -1, 0, -1))
    yield "loops", recurrence, [(floats(n, 2, 4), floats(1, 2, 4)) for n in (3, 70)]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of compiled files with calls, and what the references make of them."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for name, model, calls in _models():
        uncork.compile_to(model, folder / f"{name}.uncork", targets=LEVELS, threads=2)
        oracle = uncork.compile_model(model, backend="reference")
        kept: dict[str, np.ndarray] = {"calls": np.array(len(calls))}
        for number, inputs in enumerate(calls):
            kept |= {f"in_{number}_{i}": array for i, array in enumerate(inputs)}
            kept |= {f"out_{number}_{i}": array for i, array in enumerate(oracle(*inputs))}
        np.savez(folder / f"{name}.uncork.npz", **kept)
    return folder


needs_programs = pytest.mark.skipif(
    not PROGRAMS, reason="UNCORK_ELSEWHERE names no folder of interpreters"
)


def run(program: Path | str, home: Path, *arguments: str) -> str:
    """What an interpreter prints that has nothing but this package, and no home."""
    done = subprocess.run(
        [program, *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT / "src")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not home.exists()
    return done.stdout


@needs_programs
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_other_interpreters_give_what_the_references_give(program: Path, compiled: Path) -> None:
    said = run(program, compiled / "nowhere", "-W", "error", "-c", _PROGRAM, str(compiled))
    assert said.startswith("well")


@needs_programs
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_the_example_of_the_readme(program: Path, tmp_path: Path) -> None:
    """By the kernels of the package where it has them for that processor, else by references."""
    words = Path("examples/word_language")
    command = ["-m", "uncork", "run", str(words / "model.xml")]
    command += ["--input", str(words / "words.npz"), "--beside", str(words / "words.txt")]
    said = run(program, tmp_path / "nowhere", *command)
    assert said.splitlines()[1].split() == [
        *("butterfly", "English", "English", "100.0%", "Dutch", "0.0%", "Polish", "0.0%")
    ]
