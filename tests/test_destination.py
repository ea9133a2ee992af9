"""What a command may replace: one rule for `uncork score`, `run -o` and `shrink`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork.cli import main
from uncork.destination import Read, begins_with, check_destination
from uncork.errors import InputError

NPY = begins_with(b"\x93NUMPY")


def ours(path: Path) -> str:
    """A folder that holds `ours` only is an earlier output."""
    return "" if [p.name for p in path.iterdir()] == ["ours"] else "it holds others"


def refusal(path: Path | str, *reads: Read, overwrite: bool = True, folder: bool = False) -> str:
    """The message without the path, or nothing."""
    try:
        check_destination(
            path, ours if folder else NPY, overwrite=overwrite, reads=reads, folder=folder
        )
    except InputError as error:
        return str(error).removeprefix(f"{path}: ")
    return ""


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    assert refusal(path) == refusal(path, overwrite=False) == ""
    np.save(path, np.zeros(2))
    assert refusal(path) == ""
    assert (
        refusal(path, overwrite=False)
        == "is there already: choose another name, or overwrite it (--overwrite)"
    )
    path.write_text("a letter")
    assert (
        refusal(path)
        == "is not overwritten: what is there is no .npy file; move it away yourself, or choose "
        "another name"
    )
    path.write_bytes(b"")
    assert refusal(path) == ""
    path.unlink()
    path.mkdir()
    assert refusal(path) == "cannot be written: it is not an ordinary file"
    assert refusal(tmp_path / "no" / "x.npy") == "cannot be written: there is no such folder"
    assert refusal(tmp_path / ("x" * 300)) == "cannot be written: File name too long"


def test_folders(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert refusal(path, folder=True) == ""
    path.mkdir()
    assert refusal(path, folder=True) == ""
    (path / "ours").touch()
    assert refusal(path, folder=True) == ""
    (path / "letter").touch()
    assert refusal(path, folder=True).startswith("is not overwritten: it holds others; ")
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file", folder=True) == "cannot be written: it is not a folder"


def test_what_is_read_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever name, link or relative path, and with or without overwriting."""
    (tmp_path / "data" / "deep").mkdir(parents=True)
    source = tmp_path / "data" / "deep" / "x.npy"
    np.save(source, np.zeros(2))
    (tmp_path / "link.npy").symlink_to(source)
    (tmp_path / "way").symlink_to(tmp_path / "data")
    os.link(source, tmp_path / "twin.npy")
    monkeypatch.chdir(tmp_path / "data")
    for path in (
        source,
        "deep/x.npy",
        "../data/deep/../deep/x.npy",
        tmp_path / "link.npy",
        tmp_path / "way" / "deep" / "x.npy",
        tmp_path / "twin.npy",
    ):
        for overwrite in (True, False):
            assert (
                refusal(path, ("the source", source), overwrite=overwrite)
                == "would be written over the source: give another name"
            )
    for path in (tmp_path / "data" / "deep", "deep", tmp_path / "way" / "deep"):
        message = f"would be written over {source}, the source: give another name"
        assert refusal(path, ("the source", source), folder=True) == message
    # A source that is a link goes with the folder that the link lies in.
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "x.npy").symlink_to(source)
    assert "the source" in refusal(
        tmp_path / "links", ("the source", tmp_path / "links" / "x.npy"), folder=True
    )
    assert refusal(tmp_path / "links", ("the source", source), folder=True).startswith(
        "is not overwritten: "
    )


def test_the_current_and_the_home_folder_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "home" / "me").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "me"))
    assert (
        refusal(".", folder=True) == "would be written over the current folder: give another name"
    )
    assert (
        refusal("..", folder=True)
        == "would be written over ., the current folder: give another name"
    )
    assert (
        refusal(tmp_path / "home" / "me", folder=True)
        == "would be written over the home folder: give another name"
    )
    assert "the home folder" in refusal(tmp_path / "home", folder=True)
    assert refusal("/", folder=True) == "cannot be written: it is the root of a file system"


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_links(tmp_path: Path) -> None:
    (tmp_path / "a.npy").symlink_to(tmp_path / "b.npy")
    assert refusal(tmp_path / "a.npy") == ""  # the file that it names will be written
    (tmp_path / "b.npy").symlink_to(tmp_path / "a.npy")
    assert (
        refusal(tmp_path / "a.npy") == "cannot be written: it is a link that leads back to itself"
    )


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="permissions, which root does not have"
)
def test_folders_without_permission(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    assert (
        refusal(tmp_path / "shut" / "x.npy")
        == f"cannot be written: no permission to write in {tmp_path / 'shut'}"
    )


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system says of one, which it does not say to root."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert refusal(tmp_path / "x.npy") == f"cannot be written: no permission to write in {tmp_path}"


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="a file system that is mounted anywhere")
def test_where_a_file_system_is_mounted() -> None:
    assert (
        refusal("/proc", folder=True)
        == "cannot be replaced: a file system is mounted there; give a name inside of it"
    )


# ---- the commands


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """model.xml: rows of a table of 2,000; table.npy has others."""
    monkeypatch.chdir(tmp_path)
    builder = uncork.Builder("rows")
    table = np.linspace(-1, 1, 2000 * 12, dtype=np.float32).reshape(2000, 12)
    ids = builder.parameter("ids", "i64", [None])
    (rows,) = builder.add(
        "Gather", 8, builder.constant(table, name="users"), ids, builder.constant(np.int64(0))
    )
    builder.result(rows, "rows")
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    np.save(tmp_path / "table.npy", table)
    np.save(tmp_path / "ids.npy", np.arange(3))
    return tmp_path / "model.xml"


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    return main(words), capsys.readouterr().err


def test_run(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "model.xml", "-i", "ids=ids.npy", "--table", "users=table.npy", "-o"]
    assert said([*words, "out.npy"], capsys) == (0, "")
    first = Path("out.npy").read_bytes()
    status, message = said([*words, "out.npy"], capsys)
    assert (status, message) == (
        1,
        "uncork: error: out.npy: is there already: choose another name, or overwrite it "
        "(--overwrite)\n",
    )
    assert said([*words, "out.npy", "--overwrite"], capsys) == (0, "")
    assert Path("out.npy").read_bytes() == first
    for name, what in (("ids.npy", "an input"), ("table.npy", "table 'users'")):
        before = Path(name).read_bytes()
        status, message = said([*words, name, "--overwrite"], capsys)
        assert (status, message) == (
            1,
            f"uncork: error: {name}: would be written over {what}: give another name\n",
        )
        assert Path(name).read_bytes() == before
    Path("letter.npz").write_text("a letter")
    assert "what is there is no .npz file" in said([*words, "letter.npz", "--overwrite"], capsys)[1]
    assert Path("letter.npz").read_text() == "a letter"


def test_shrink(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["shrink", "model.xml", "--tables", "int8"]
    assert said([*words, "small.xml"], capsys) == (0, "")
    sizes = [os.path.getsize(name) for name in ("small.xml", "small.bin")]
    assert re.search(
        r"small.xml: is there already: .*\(--overwrite\)", said([*words, "small.xml"], capsys)[1]
    )
    assert said(
        ["shrink", "model.xml", "--tables", "int4", "small.xml", "--overwrite"], capsys
    ) == (0, "")
    assert os.path.getsize("small.bin") < sizes[1]
    for name, message in (
        ("letter.xml", "letter.xml: is not overwritten: what is there is no IR model"),
        (
            "data.xml",
            "data.bin: is not overwritten: what is there has no .xml beside it and may be anything",
        ),
        ("model.xml", "model.xml: would be written over the model"),
    ):
        Path("letter.xml").write_text("<letter>\n")
        Path("data.bin").write_text("data")
        status, text = said([*words, name, "--overwrite"], capsys)
        assert status == 1 and message in text
        assert (Path("letter.xml").read_text(), Path("data.bin").read_text()) == (
            "<letter>\n",
            "data",
        )
    # Weights of another name are not written over either.
    os.rename("model.bin", "other.bin")
    Path("other.xml").write_text("<net>")
    status, text = said([*words, "other.xml", "--weights", "other.bin", "--overwrite"], capsys)
    assert status == 1 and "other.bin: would be written over the weights" in text
