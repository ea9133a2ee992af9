"""An export that ends at any step: what is there before stays, or what is new is whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests._steps import found_by

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="every export is a fork")


@pytest.mark.parametrize("before", ["fresh", "overwrite"])
@pytest.mark.parametrize("kind", ["inline", "external", "torch", "ir"])
def test_an_export_that_ends_at_any_step(tmp_path: Path, kind: str, before: str) -> None:
    if kind in ("inline", "external"):
        pytest.importorskip("onnx")
    found = found_by("tests.export.steps", str(tmp_path), kind, before)
    assert found["steps"] > 5
    assert found["failed"] == []
    # Files have names of their own for the last steps only.
    assert found["hidden"] < found["steps"]
