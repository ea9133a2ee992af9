"""How many processes `pytest` takes: all cores for the whole, one for a few files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Ends pytest where the tests would begin, and says how many workers it would have.
SHOW = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    options = session.config.option
    pytest.exit(f"workers {getattr(options, 'numprocesses', 'of nobody')}", 0)
"""


def said(folder: Path, *words: str) -> str:
    (folder / "show_workers.py").write_text(SHOW, encoding="utf-8")
    paths = os.pathsep.join([str(folder), str(ROOT / "src"), str(ROOT)])
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "show_workers", *words],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr).strip()


def test_the_whole_is_run_by_workers(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    assert "workers " in said(tmp_path)
    assert "workers None" not in said(tmp_path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tests/test_workers.py"], "workers None"),
        (["tests/test_workers.py::test_the_whole_is_run_by_workers"], "workers None"),
        (["-n", "0"], "workers 0"),
        (["--collect-only"], "workers None"),
        (["--pdb"], "workers None"),
        (["-s"], "workers None"),
    ],
)
def test_one_process(tmp_path: Path, words: list[str], expected: str) -> None:
    pytest.importorskip("xdist")
    assert expected in said(tmp_path, *words)


def test_without_xdist(tmp_path: Path) -> None:
    assert "workers of nobody" in said(tmp_path, "-p", "no:xdist")
