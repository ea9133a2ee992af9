"""`uncork cache`: what is kept on disk, listed and deleted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.cli.conftest import Command
from tests.processes._children import COMPILING
from uncork.cli import cache
from uncork.kernels.runtime.disk_cache import MAX_BYTES, Folder, default_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of a user whose home is new."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(
        Path, "home", lambda: tmp_path / "home"
    )  # other systems have other variables
    found = default_folder()
    assert found is not None and tmp_path in found.parents
    return found


@pytest.fixture
def filled(folder: Path) -> Path:
    """Two kernels and something else, used at known times."""
    for key, content, used in (
        ("a", b"uncork kernel gather_rows_8_i64 linked 0\n123", 3),
        ("b", b"uncork host\nx", 2),
        ("c", b"?", 1),
    ):
        Folder(folder).write(key, content)
        when = datetime(2026, 1, used, 12, tzinfo=timezone.utc).timestamp()
        os.utime(folder / f"{key}.kernel", (when, when))
    return folder


def test_an_empty_cache(command: Command, folder: Path) -> None:
    assert command("cache", "ls").out == f"0 files, 0 of at most {MAX_BYTES:,} bytes, in {folder}\n"
    assert command("cache", "clear").out == f"deleted 0 files, 0 bytes, from {folder}\n"
    assert not folder.exists(), "looking makes nothing"


def test_list(command: Command, filled: Path) -> None:
    answer = command("cache", "ls")
    assert answer.status == 0
    sizes = [45 + 32, 13 + 32, 1 + 32]
    assert [line.split() for line in answer.out.splitlines()] == [
        ["kernel", "bytes", "used", "file"],
        ["gather_rows_8_i64", str(44 + 32), "2026-01-03T12:00:00Z", "a.kernel"],
        ["-", str(sizes[1]), "2026-01-02T12:00:00Z", "b.kernel"],
        ["-", str(sizes[2]), "2026-01-01T12:00:00Z", "c.kernel"],
        f"3 files, {44 + 13 + 1 + 96} of at most {MAX_BYTES:,} bytes, in {filled}".split(),
    ]


def test_list_as_json(command: Command, filled: Path) -> None:
    found = command("cache", "--json", "ls").json
    assert {name: found[name] for name in ("schema", "folder", "bytes", "limit")} == {
        "schema": "uncork-cache-1",
        "folder": str(filled),
        "bytes": sum(path.stat().st_size for path in filled.iterdir()),
        "limit": MAX_BYTES,
    }
    assert found["files"][0] == {
        "kernel": "gather_rows_8_i64",
        "file": "a.kernel",
        "bytes": 76,
        "used": "2026-01-03T12:00:00Z",
    }
    assert [file["kernel"] for file in found["files"]] == ["gather_rows_8_i64", None, None]


def test_clear(command: Command, filled: Path) -> None:
    size = sum(path.stat().st_size for path in filled.iterdir())
    (filled / "mine.txt").write_text("stays")
    assert command("cache", "clear", "--json").json == {
        "schema": "uncork-cache-1",
        "folder": str(filled),
        "deleted": 3,
        "bytes": size,
        "left": 0,
    }
    assert [path.name for path in filled.iterdir()] == ["mine.txt"]
    assert command("cache", "ls", "--json").json["files"] == []


def test_what_cannot_be_deleted(
    command: Command, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "unlink", refuse)
    answer = command("cache", "clear")
    assert answer.status == 1
    assert (
        answer.out
        == f"deleted 0 files, 0 bytes, from {filled}\n3 files cannot be deleted, or came back\n"
    )


def test_a_user_without_a_home(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "default_folder", lambda: None)
    assert command("cache", "ls", "--json").json["folder"] is None
    assert (
        command("cache", "clear").out
        == "deleted 0 files, 0 bytes, from no folder: this user has no home directory\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the following arguments are required: ls|clear|prepare"),
        (
            ["claer"],
            "argument ls|clear|prepare: expected ls or clear or prepare, got 'claer'; did you "
            "mean 'clear'?",
        ),
        (["ls", "clear"], "'clear' is one argument too many"),
        (["prepare"], "prepare takes a MODEL, or several"),
    ],
)
def test_usage_errors(command: Command, words: list[str], message: str) -> None:
    answer = command("cache", *words)
    assert answer.status == 2
    assert answer.message == f"{message}\nTry 'uncork cache --help'."


def test_kernels_of_a_run_are_listed_by_name(folder: Path, command: Command) -> None:
    pytest.importorskip("llvmlite")
    from uncork.kernels.runtime.kernel_cache import ObjectStore

    builder = uncork.Builder()
    data = builder.parameter("x", "f32", [3])
    builder.result(builder.add("Add", 1, data, builder.constant(np.ones(3, np.float32)))[0])
    names = [
        step.kernel
        for step in uncork.compile_model(builder.model()).plan.steps
        if step.kernel != "reference"
    ]
    assert len(names) == 1
    ObjectStore(folder).function(names[0], "test", _nothing(names[0]))
    assert [
        file["kernel"] for file in command("cache", "ls", "--json").json["files"] if file["kernel"]
    ] == names


def _nothing(name: str) -> Callable[[], str]:
    from uncork.kernels.codegen.emit import Kernel

    kernel = Kernel(name, [])
    kernel.finish()
    return kernel.text


def test_models_are_prepared(tmp_path: Path) -> None:
    """For processes that come later: the second one finds every kernel. Nothing but the result is
    said on a pipe.
    """
    pytest.importorskip("llvmlite")
    b = uncork.Builder("m")
    x = b.parameter("x", "f32", [None, 8])
    b.result(b.add("MatMul", 1, x, b.constant(np.ones((8, 24), np.float32)))[0], "y")
    uncork.write_model(b.model(), tmp_path / "m.xml")
    environment = {**os.environ, "HOME": str(tmp_path / "home")}
    command = [
        sys.executable,
        "-c",
        f"{COMPILING}import sys; from uncork.cli import main; sys.exit(main())",
        "cache",
        "prepare",
        "--json",
        "--threads",
        "2",
        str(tmp_path / "m.xml"),
    ]
    found = []
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        found.append(json.loads(done.stdout)["prepared"])
    assert [one["model"] for one in found[0]] == [str(tmp_path / "m.xml")]
    assert found[0][0]["compiled"] >= 3 and found[1][0]["compiled"] == 0
    kept = Folder(tmp_path / "home" / ".cache" / "uncork").entries()
    assert len(kept) == found[0][0]["compiled"]
