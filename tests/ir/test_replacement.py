"""What a writer that is killed between its last steps leaves is deleted by a later one, and nothing
else is.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork.ir import replacement

KILLED = """
import os, sys
from pathlib import Path
from uncork.ir.replacement import Replacement

taken, real = 0, os.replace
def killed(*names):
    global taken
    taken += 1
    if taken == int(sys.argv[2]):
        os._exit(9)
    real(*names)
os.replace = killed
with Replacement() as files:
    for name in ("model.bin", "model.xml"):
        with files.open(Path(sys.argv[1], name)) as file:
            file.write(b"new")
"""


@pytest.mark.parametrize("step", [1, 2, 3])
def test_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    builder = uncork.Builder("kept")
    builder.result(builder.constant(np.arange(3, dtype=np.float32)))
    model = builder.model()
    uncork.write_model(model, tmp_path / "model.xml")
    strangers = [
        tmp_path / name
        for name in (
            ".model.xml.old",
            ".model.backup.xml.old",
            ".models.0123456789ab.xml.old",
            ".model.0123456789ab.xml.older",
            ".model.0123456789ab.onnx.new",
        )
    ]
    for stranger in strangers:
        stranger.touch()
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(step)], check=False
    ).returncode
    assert ended == 9
    wanted = {*strangers, tmp_path / "model.xml", tmp_path / "model.bin"}
    left = set(tmp_path.iterdir()) - wanted
    assert left
    uncork.write_model(model, tmp_path / "model.xml")
    assert set(tmp_path.iterdir()) == wanted | left, "another writer may be at work"
    monkeypatch.setattr(replacement, "_LEFT", -1.0)
    uncork.write_model(model, tmp_path / "model.xml")
    assert set(tmp_path.iterdir()) == wanted
    uncork.read_model(tmp_path / "model.xml")
