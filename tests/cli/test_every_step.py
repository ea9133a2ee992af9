"""A command that ends at any step of what it writes: what is there before stays, or what is new is
whole, nothing else is left, and the next one works.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="every command is a fork")


@pytest.mark.parametrize("before", ["fresh", "overwrite"])
@pytest.mark.parametrize("kind", ["out.npz", "out.html", "out.uncork", "out"])
def test_a_command_that_ends_at_any_step(tmp_path: Path, kind: str, before: str) -> None:
    if kind in ("out.uncork", "out"):
        pytest.importorskip("llvmlite")
    words = [sys.executable, "-m", "tests.cli.every_step", str(tmp_path), kind, before]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["steps"] > 5
    assert found["failed"] == [], done.stderr
    if hasattr(os, "O_TMPFILE") and kind != "out":
        assert found["hidden"] <= 2  # what is written has a name for the last steps only
