"""A command that ends at any step of what it writes: what is there before stays, or what is new is
whole, nothing else is left, and the next one works.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests._steps import found_by

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="every command is a fork")


@pytest.mark.parametrize("before", ["fresh", "overwrite"])
@pytest.mark.parametrize("kind", ["out.npz", "out.html", "out.uncork", "out"])
def test_a_command_that_ends_at_any_step(tmp_path: Path, kind: str, before: str) -> None:
    if kind in ("out.uncork", "out"):
        pytest.importorskip("llvmlite")
    found = found_by("tests.cli.every_step", str(tmp_path), kind, before)
    assert found["steps"] > 5
    assert found["failed"] == []
    if hasattr(os, "O_TMPFILE") and kind != "out":
        assert found["hidden"] <= 2  # what is written has a name for the last steps only
