"""The folder of the cache: whole files or none, bounded, and never a reason to fail."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from uncork.errors import UncorkWarning
from uncork.kernels.runtime import disk_cache as folder_module
from uncork.kernels.runtime.disk_cache import Folder, default_folder

ROOT = Path(__file__).parents[2]
#: Long ago for the grain at which uses are noted.
LONG_AGO = time.time() - 10 * 86400


def test_what_is_written_is_read(tmp_path: Path) -> None:
    Folder(tmp_path / "a" / "b").write("key", b"content")
    assert Folder(tmp_path / "a" / "b").read("key") == b"content"
    assert Folder(tmp_path / "a" / "b").read("other") is None
    assert [entry.bytes for entry in Folder(tmp_path / "a" / "b").entries()] == [
        len(b"content") + 32
    ]


def test_only_its_user_can_read_and_write_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "cache")
    folder.write("key", b"content")
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.entries()[0].path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o660, 0o606])
def test_a_file_that_others_may_write_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = Folder(tmp_path)
    folder.write("key", b"content")
    folder.entries()[0].path.chmod(mode)
    assert folder.read("key") is None


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files to others"
)
def test_a_file_of_another_user_is_not_used(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("key", b"content")
    os.chown(folder.entries()[0].path, 12345, 12345)
    assert folder.read("key") is None


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = Folder(tmp_path)
    folder.write("key", b"content")
    tmp_path.chmod(mode)
    with pytest.warns(
        UncorkWarning,
        match=rf"the folder '{tmp_path}' has the mode {mode:o}, so others could .*make it yours "
        r"alone",
    ):
        assert folder.read("key") is None
    folder.write("other", b"content")  # and says it once
    assert Folder(tmp_path).read("other") is None
    assert [entry.path.stem for entry in folder.entries()] == ["key"]
    tmp_path.chmod(0o755)
    assert folder.read("key") == b"content"


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives folders to others"
)
def test_a_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "cache")
    folder.write("key", b"content")
    os.chown(tmp_path / "cache", 12345, 12345)
    with pytest.warns(UncorkWarning, match="belongs to user 12345, so others could"):
        assert folder.read("key") is None


def test_a_file_under_the_name_of_another_is_none(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for key in ("one", "two"):
        folder.write(key, b"content")
    one, two = (tmp_path / f"{key}.kernel" for key in ("one", "two"))
    assert folder.read("one") == folder.read("two") == b"content"
    two.write_bytes(one.read_bytes())
    assert folder.read("one") == b"content"
    assert folder.read("two") is None


def test_every_cut_and_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("key", b"content")
    path = folder.entries()[0].path
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert folder.read("key") is None, f"cut to {size} bytes"
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        assert folder.read("key") is None, f"byte {position} changed"
    path.write_bytes(whole)
    assert folder.read("key") == b"content"


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    folder = Folder(tmp_path, most=350)
    for number in range(5):
        folder.write(f"key{number}", bytes(100 - 32))
        os.utime(folder.entries()[0].path, (LONG_AGO + number * 10000, LONG_AGO + number * 10000))
    assert folder.read("key0") is not None, "which is a use"
    folder.trim()
    assert sorted(entry.path.stem for entry in folder.entries()) == ["key0", "key3", "key4"]


def test_writing_keeps_it_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "_UNWATCHED", 500)
    folder = Folder(tmp_path, most=1000)
    for number in range(100):
        folder.write(f"key{number}", bytes(100))
        assert sum(entry.bytes for entry in folder.entries()) <= 1000 + 500 + 132
    assert folder.entries()


def test_reading_again_soon_writes_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("key", b"content")
    before = folder.entries()[0].used
    folder.read("key")
    assert folder.entries()[0].used == before


def test_clear_deletes_its_own_files_only(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("key", b"content")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "keyabc.tmp").write_bytes(b"what a process that died has left")
    assert [entry.path.stem for entry in folder.clear()] == ["key"]
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert folder.clear() == []


def test_what_a_dead_process_left_is_deleted_after_a_while(tmp_path: Path) -> None:
    (tmp_path / "old.tmp").write_bytes(b"")
    os.utime(tmp_path / "old.tmp", (LONG_AGO, LONG_AGO))
    (tmp_path / "new.tmp").write_bytes(b"")
    Folder(tmp_path).write("key", b"content")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.kernel", "new.tmp"]


def test_a_folder_that_cannot_be_made_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for folder in (Folder(tmp_path / "file" / "cache"), Folder(tmp_path / "file"), Folder(None)):
        folder.write("key", b"content")
        assert folder.read("key") is None
        assert folder.entries() == []
        assert folder.clear() == []


def test_an_entry_that_is_a_folder_is_none(tmp_path: Path) -> None:
    (tmp_path / "key.kernel").mkdir()
    folder = Folder(tmp_path)
    assert folder.read("key") is None
    folder.write("key", b"content")
    folder.trim()
    assert folder.clear() == []


@pytest.mark.skipif(
    not sys.platform.startswith("linux"),
    reason="needs a device that is always full, and links to it",
)
def test_a_disk_that_is_full_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, mode: str) -> object:
        os.close(handle)
        return open("/dev/full", mode)

    monkeypatch.setattr(os, "fdopen", full)
    Folder(tmp_path).write("key", b"content")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("home", "expected"), [("/somewhere", "/somewhere/.cache/uncork"), ("relative", None)]
)
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems have other conventions"
)
def test_default_folder(monkeypatch: pytest.MonkeyPatch, home: str, expected: str | None) -> None:
    monkeypatch.setenv("HOME", home)
    assert default_folder() == (None if expected is None else Path(expected))


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="other systems have other conventions")
def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert default_folder() is None


WRITER = """
import sys
from pathlib import Path
from uncork.kernels.runtime.disk_cache import Folder
folder = Folder(Path(sys.argv[1]))
good = 0
for turn in range(200):
    for key in ("a", "b"):
        folder.write(key, key.encode() * 5000)
        found = folder.read(key)
        assert found is None or found == key.encode() * 5000
        good += found is not None
    if turn % 50 == 10:
        folder.clear()
print(good)
"""


def test_processes_that_write_read_and_clear_at_once(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(3)
    ]
    assert all(int(process.communicate(timeout=120)[0]) > 0 for process in processes)
    assert [path for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []
