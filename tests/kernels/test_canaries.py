"""No kernel reads or writes outside its arrays: it runs between forbidden pages, in a process that
may die of it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import EDGES
from uncork.kernels import select

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith(("linux", "darwin")), reason="pages are forbidden by mprotect"
)
ROOT = Path(__file__).parents[2]
#: How many cases a family has at least: fewer mean that kernels are no longer chosen.
LEAST = {
    "attention": 250,
    "compressed": 180,
    "convolution": 300,
    "convolution.deformable": 60,
    "convolution.pool": 60,
    "gemm.einsum": 250,
    "elementwise": 300,
    "embedding.bags": 100,
    "movement.blocks": 60,
    "movement.gather": 80,
    "movement.moved": 100,
    "recurrent.final_states": 100,
    "gemm.matmul": 300,
    "loops.bins": 50,
    "loops.colours": 140,
    "loops.folded": 40,
    "loops.levels": 60,
    "loops.normalise": 150,
    "loops.pad": 60,
    "loops.patches": 90,
    "loops.pool": 500,
    "loops.regions": 60,
    "loops.resize": 450,
    "loops.sample": 70,
    "loops.scan": 600,
    "loops.yolo": 90,
    "movement.copy_table": 60,
    "selection": 80,
    "selection.sequences": 80,
    "embedding.quantized": 150,
    "quantized": 120,
    "quantized.elements": 15,
    "quantized.rows": 100,
    "recurrent": 70,
    "recurrent.cell": 70,
    "loops.rows": 80,
    "detection": 50,
    "detection.classes": 200,
    "detection.detectron": 90,
    "detection.output": 60,
    "detection.priors": 60,
    "detection.regions": 200,
    "finding": 200,
    "fourier": 780,
    "generation": 100,
    "scatter": 250,
    "search": 100,
    "scatter.counts": 200,
    "scatter.segments": 190,
    "movement.state": 100,
    "gemm.state_product": 40,
    "movement.transpose": 90,
}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=ROOT, timeout=900, check=False
    )


def test_no_other_family_is_fenced() -> None:
    assert set(EDGES) == set(LEAST) <= select.families()


@pytest.mark.parametrize("family", sorted(select.families()))
def test_family(family: str) -> None:
    assert family in EDGES, (
        "it has no sizes in EDGES of _fences.py: see `Add a kernel` in ARCHITECTURE.md"
    )
    assert family in LEAST, "it has no number of cases in LEAST"
    done = run("-m", "tests.kernels._fences", family)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-3000:]}"
    assert int(done.stdout) >= LEAST[family]


@pytest.mark.parametrize("place", ["first", "last"])
def test_inside_is_allowed(place: str) -> None:
    assert [
        run("-m", "tests.kernels._outside", "9", "9", "63", place, "").stdout,
        run("-m", "tests.kernels._outside", "0", "0", "0", place, "").stdout,
    ] == ["9\n", "0\n"]


@pytest.mark.parametrize(
    "words",
    [
        ("10", "0", "0", "last", ""),
        ("-1", "0", "0", "first", ""),
        ("0", "10", "0", "last", ""),
        ("0", "-1", "0", "first", ""),
        ("0", "0", "64", "last", ""),
        ("0", "0", "-1", "first", ""),
        ("0", "0", "0", "first", "input"),
    ],
)
def test_the_fence_kills(words: tuple[str, ...]) -> None:
    """A byte outside an input, an output or the working memory, and a write to an input: without
    this no test above could fail.
    """
    assert run("-m", "tests.kernels._outside", *words).returncode < 0


@pytest.mark.parametrize(
    "words",
    [("0", "-1", "0", "last", ""), ("0", "10", "0", "first", ""), ("0", "0", "-1", "last", "")],
)
def test_canaries_tell(words: tuple[str, ...]) -> None:
    """A write on the side where the page goes on."""
    assert "the array" in run("-m", "tests.kernels._outside", *words).stderr
