"""The store of compiled kernels: a cache that may be broken, full, read-only or shared, and never wrong."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from uncork.kernels import store as store_module
from uncork.kernels.emit import Kernel
from uncork.kernels.store import ObjectStore


def answer(number: int) -> str:
    kernel = Kernel("answer", [])
    kernel.finish(kernel.integer(number))
    return kernel.text()


def call(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)(None)


def never() -> str:
    raise AssertionError("compiled although the store has it")


def test_compiles_once_and_loads_afterwards(tmp_path: Path) -> None:
    assert call(ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))) == 42
    assert call(ObjectStore(tmp_path).function("answer", "42", never)) == 42
    assert call(ObjectStore(tmp_path).function("answer", "43", lambda: answer(43))) == 43
    assert len(ObjectStore(tmp_path).files()) == 2


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_broken_file_costs_time_only(tmp_path: Path, damage: bytes | None) -> None:
    ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))
    (path,) = ObjectStore(tmp_path).files()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert call(ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))) == 42
    assert path.read_bytes()[-32:] == whole[-32:] or len(path.read_bytes()) == len(whole)
    assert call(ObjectStore(tmp_path).function("answer", "42", never)) == 42


def test_a_file_of_the_wrong_kernel_is_compiled_again(tmp_path: Path) -> None:
    """A checksum that holds, but of code without the function that is asked for."""
    ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))
    (path,) = ObjectStore(tmp_path).files()
    other = ObjectStore(tmp_path / "other")
    kernel = Kernel("something_else", [])
    kernel.finish()
    other.function("something_else", "1", kernel.text)
    path.write_bytes(other.files()[0].read_bytes())
    assert call(ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))) == 42


def test_a_folder_that_cannot_be_made_costs_time_only(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    store = ObjectStore(blocked / "cache")
    assert call(store.function("answer", "42", lambda: answer(42))) == 42
    assert store.files() == []
    assert store.clear() == 0


def test_clear_and_trim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(tmp_path)
    for number in range(4):
        store.function("answer", str(number), lambda number=number: answer(number))
        newest = store.files()[0]
        os.utime(newest, (number, number))
    size = newest.stat().st_size
    monkeypatch.setattr(store_module, "MAX_BYTES", int(size * 2.5))
    store.function("answer", "9", lambda: answer(9))
    assert len(store.files()) == 2, "the two used last"
    assert store.clear() == 2
    assert store.files() == []


def test_no_scratch_files_stay(tmp_path: Path) -> None:
    ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))
    assert [p.suffix for p in tmp_path.iterdir()] == [".o"]


PROGRAM = """
import ctypes, sys
from pathlib import Path
from tests.kernels.test_store import answer, call
from uncork.kernels.store import ObjectStore
store = ObjectStore(Path(sys.argv[1]))
print(sum(call(store.function("answer", str(n), lambda n=n: answer(n))) for n in range(12)))
"""


def test_processes_that_compile_at_once(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    processes = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(3)
    ]
    assert [p.communicate(timeout=120)[0].strip() for p in processes] == ["66"] * 3
    assert len(ObjectStore(tmp_path).files()) == 12
