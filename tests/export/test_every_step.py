"""An export that ends at any step: what is there before stays, or what is new is whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="every export is a fork")


@pytest.mark.parametrize("before", ["fresh", "overwrite"])
@pytest.mark.parametrize("kind", ["inline", "external", "torch", "ir"])
def test_an_export_that_ends_at_any_step(tmp_path: Path, kind: str, before: str) -> None:
    if kind in ("inline", "external"):
        pytest.importorskip("onnx")
    words = [sys.executable, "-m", "tests.export.steps", str(tmp_path), kind, before]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["steps"] > 5
    assert found["failed"] == [], done.stderr
    # Files have names of their own for the last steps only.
    assert found["hidden"] < found["steps"]
