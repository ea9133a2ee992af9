"""Files that are not what they should be: pipes, devices, folders, and files that change while they
are in use.

What may wait for ever or end the process is tried in a process of its own, with a limit of memory.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.processes._children import run_child
from tests.processes._strange import KINDS
from uncork import files
from uncork.files import MappedFile, mapped_file, opened

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files here")


#: What messages say of them.
SAID = {
    "pipe": "it is a pipe, expected an ordinary file",
    "endless": "it is a device, expected an ordinary file",
    "folder": "is a folder",
    "circle": "symbolic links",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    builder = uncork.Builder("m")
    ids = builder.parameter("ids", "i64", [None])
    table = builder.constant(np.arange(64, dtype=np.float32).reshape(16, 4), name="table")
    builder.result(builder.add("Gather", 8, table, ids, builder.constant(np.int64(0)))[0])
    uncork.write_model(builder.model(), tmp_path / "m.xml")
    return tmp_path / "m.xml"


TRY = """
import resource, sys, numpy as np, uncork
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
what, model, path = sys.argv[1:]
try:
    if what == "model": uncork.load(path)
    elif what == "weights": uncork.load(model, weights=path)
    elif what == "table": uncork.load(model, tables={"table": path})
    elif what == "input":
        from uncork.cli import main
        sys.exit(main(["run", model, "-i", "ids=" + path]))
except uncork.UncorkError as error: print("refused:", error)
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["model", "weights", "table", "table.safetensors", "input"])
def test_what_is_no_ordinary_file_is_refused(
    tmp_path: Path, model: Path, what: str, kind: str
) -> None:
    path = tmp_path / {
        "model": "f.xml",
        "weights": "f.bin",
        "table": "f.npy",
        "input": "f.npy",
    }.get(what, "f.safetensors")
    KINDS[kind](path)
    done = run_child(TRY, what.partition(".")[0], model, path, timeout=60)
    text = done.stdout + done.stderr
    assert "refused: " in text or "uncork: error: " in text, text
    assert str(path) in text, "says which"
    assert SAID.get(kind, "") in text


CALL = "import sys, numpy as np, uncork; print(uncork.load(sys.argv[1])(np.array([2]))[0].tolist())"


@pytest.mark.parametrize("kind", KINDS)
def test_entries_of_the_store_are_made_again(tmp_path: Path, model: Path, kind: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for _ in range(2):
        done = run_child(CALL, model, home=home, timeout=60)
        assert done.stdout.strip() == "[[8.0, 9.0, 10.0, 11.0]]", done.stderr
        for entry in list((home / ".cache" / "uncork").glob("*.kernel")):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
            KINDS[kind](entry)


def test_a_file_of_more_bytes_than_any_model_has(tmp_path: Path) -> None:
    with open(tmp_path / "m.xml", "wb") as file:
        file.truncate(1 << 40)  # which takes no room on the disk
    with pytest.raises(
        uncork.ReadError,
        match=r"m.xml: cannot be read: it has 1,099,511,627,776 bytes, expected at most "
        r"1,073,741,824",
    ):
        uncork.read_model(tmp_path / "m.xml")


# ---- files that change


LARGE = (files.SMALL // 64 + 1, 16)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A model whose weights are mapped: a table, looked up and in a product, so that kernels and
    references read it.
    """
    builder = uncork.Builder("large")
    ids = builder.parameter("ids", "i64", [None])
    table = builder.constant(np.ones(LARGE, np.float32), name="table")
    builder.result(builder.add("Gather", 8, table, ids, builder.constant(np.int64(0)))[0])
    uncork.write_model(builder.model(), tmp_path / "m.xml")
    return tmp_path / "m.xml"


CUT = """
import os, sys, numpy as np, uncork
model, cut, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
compiled = uncork.load(model, **options)
ids = np.full(5000, 131072); out = np.empty((5000, 16), np.float32)
call = compiled.bind(ids, outputs=[out]) if compiled.native_call([ids]) else lambda: compiled(ids)
for _ in range(3): compiled(ids); call()
os.truncate(cut, 100)
for attempt in (lambda: compiled(ids), lambda: compiled(ids), call, lambda: compiled([1, 2])):
    try: print(attempt()[0].sum())
    except uncork.ReadError as error: print("refused:", error)
"""


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_weights_that_are_cut_are_refused(large: Path, backend: str) -> None:
    weights = large.with_suffix(".bin")
    size = weights.stat().st_size
    done = run_child(CUT, large, weights, {"backend": backend})
    expected = f"refused: {weights}: has 100 bytes now and had {size:,} when it was opened"
    assert [line[: len(expected)] for line in done.stdout.splitlines()] == [expected] * 4, (
        done.stderr
    )
    assert "load with mmap=False" in done.stdout


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_tables_that_are_cut_are_refused(large: Path, suffix: str) -> None:
    table = large.with_suffix(suffix)
    if suffix == ".npy":
        np.save(table, np.full(LARGE, 2, np.float32))
    else:
        header = (
            f'{{"t":{{"dtype":"F32",'
            f'"shape":[{LARGE[0]},{LARGE[1]}],"data_offsets":[0,{LARGE[0] * 64}]}}}}'
        ).encode()
        header += b" " * (-len(header) % 8)
        table.write_bytes(
            len(header).to_bytes(8, "little") + header + np.full(LARGE, 2, np.float32).tobytes()
        )
    done = run_child(CUT, large, table, {"tables": {"table": str(table)}})
    assert done.stdout.count(f"refused: {table}: has 100 bytes now") == 4, done.stderr


def test_what_is_copied_may_be_cut(large: Path) -> None:
    table = large.with_suffix(".npy")
    np.save(table, np.full(LARGE, 2, np.float32))
    done = run_child(CUT, large, table, {"mmap": False, "tables": {"table": str(table)}})
    assert done.stdout.split() == ["160000.0", "160000.0", "160000.0", "64.0"], done.stderr
    done = run_child(CUT, large, large.with_suffix(".bin"), {"mmap": False})
    assert done.stdout.split() == ["80000.0", "80000.0", "80000.0", "32.0"], done.stderr


def test_small_weights_are_copied(model: Path) -> None:
    compiled = uncork.load(model)
    assert compiled.executor.files == ()
    os.truncate(model.with_suffix(".bin"), 0)
    assert compiled([15])[0].tolist() == [[60, 61, 62, 63]]


def test_large_weights_are_mapped_once(large: Path) -> None:
    model = uncork.read_model(large)
    (file,) = uncork.compile_model(model).executor.files
    assert isinstance(file, MappedFile) and file.path == large.with_suffix(".bin")
    assert mapped_file(np.ones(3)) is None
    model = uncork.read_model(large, mmap=False)
    assert uncork.compile_model(model).executor.files == ()


def test_mapped_files_are_closed(large: Path) -> None:
    with opened(large.with_suffix(".bin")) as file:
        mapped = MappedFile.of(large, file)
    handle = mapped.handle
    mapped.check()
    del mapped
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)
