"""`uncork compile` where no more can be written: it says where, and leaves nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("resource", reason="needs limits of processes")

import uncork
from tests.cli.conftest import Command

#: The command in a process that can write files of so many bytes at the most, as on a full disk.
LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from uncork.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = uncork.Builder("table")
    ids = builder.parameter("ids", "i64", [None])
    table = builder.constant(np.ones((500, 16), np.float32))
    axis = builder.constant(np.int64(0))
    builder.result(builder.add("Gather", 8, table, ids, axis)[0], "rows")
    path = tmp_path_factory.mktemp("model") / "model.xml"
    uncork.write_model(builder.model(), path)
    return path


@pytest.mark.parametrize("form", ["file", "--c"])
@pytest.mark.parametrize("most", [4000, 33_000])  # of constants alone 32,000
def test_a_disk_that_is_full(model: Path, tmp_path: Path, form: str, most: int) -> None:
    out = tmp_path / "out"
    words = ["compile", str(model), "-o", str(out), *([form] if form != "file" else [])]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(most), *words],
        env={**os.environ, "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    why = os.strerror(errno.EFBIG)
    assert (done.returncode, done.stderr) == (
        1,
        f"uncork: error: {out}: cannot be written: {why}\n",
    )
    assert not out.exists()
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "home"])


def test_no_folder_to_link_in(
    model: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WebAssembly is linked in the folder of temporary files, which may be full or missing."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("clang", "wasm-ld"):  # nothing comes of them
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    answer = command("compile", model, "--wasm", "-o", tmp_path / "web")
    assert answer.status == 1
    assert answer.message.startswith(f"the folder for what is linked ({tmp_path / 'none'}")
    assert "cannot be written" in answer.message
    assert not (tmp_path / "web").exists()
