"""`uncork.Live`: a model that follows its file."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.compiler.test_exchange import IDS, ROWS, filled, two_tables
from tests.processes._children import run_child
from uncork import InputError, Live, ReadError, UncorkError, UncorkWarning


def write(path: Path, value: float, **more: str) -> None:
    """Put another model in the place of a file, as programs should: by renaming."""
    new = path.parent / "new"
    new.mkdir(exist_ok=True)
    uncork.write_model(two_tables(value, value, **more), new / path.name)
    os.replace(new / "model.bin", path.with_suffix(".bin"))
    os.replace(new / "model.xml", path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "model.xml", 1)
    return tmp_path / "model.xml"


def until(holds: Callable[[], object]) -> None:
    for _ in range(6000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it does not come true")


def test_a_new_file_is_loaded(path: Path) -> None:
    with Live(path, every=0.01) as live:
        assert (live(IDS)["rows"] == 1).all() and live.error is None
        write(path, 2)
        until(lambda: live.reloads)
        assert (live(IDS)["rows"] == 2).all()


def test_reload_at_once(path: Path) -> None:
    live = Live(path, every=None)
    request = live.compiled.create_infer_request()
    write(path, 2)
    assert (live(IDS)["rows"] == 1).all()
    live.reload()
    assert (request.infer([IDS])["rows"] == 2).all() and live.reloads == 1


def test_files_that_still_change_are_waited_for(path: Path) -> None:
    live = Live(path, every=None)
    live.look()
    write(path, 2)
    live.look()
    assert live.reloads == 0
    live.look()
    live.look()
    assert live.reloads == 1 and (live(IDS)["others"] == 2).all()


@pytest.mark.parametrize("mmap", [False, True])
def test_a_broken_file_leaves_the_old_one(path: Path, mmap: bool) -> None:
    live = Live(path, every=None, mmap=mmap)
    new = path.with_suffix(".new")
    new.write_bytes(path.read_bytes()[:400])
    os.replace(new, path)
    live.look()
    with pytest.warns(UncorkWarning, match=r"model.xml: the new file is not used, the old one is"):
        live.look()
    live.look()  # says it once
    assert isinstance(live.error, ReadError) and "cannot be loaded" in repr(live)
    with pytest.raises(ReadError):
        live.reload()
    assert (live(IDS)["rows"] == 1).all()
    path.unlink()
    with pytest.raises(UncorkError, match=r"model\.xml"):
        live.reload()
    write(path, 3)
    live.look(), live.look()
    assert (live(IDS)["rows"] == 3).all() and live.error is None and "cannot" not in repr(live)


def test_another_model_is_refused(path: Path) -> None:
    live = Live(path, every=None)
    write(path, 2, name="other")
    with pytest.raises(InputError, match="output 'rows'"):
        live.reload()
    assert (live(IDS)["rows"] == 1).all() and live.error is not None


def test_weights_that_are_written_over_do_not_matter(path: Path) -> None:
    live = Live(path, every=None)
    path.with_suffix(".bin").write_bytes(b"")
    live.look()
    with pytest.warns(UncorkWarning):
        live.look()
    assert (live(IDS)["rows"] == 1).all()


def test_tables_are_followed_and_exchanged(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", filled(5))
    live = Live(path, every=None, tables={"a": tmp_path / "table.npy"})
    assert (live(IDS)["rows"] == 5).all()
    live.exchange(tables={"a": {"rows": [7], "values": filled(6)[:1]}})
    assert live(IDS)["rows"][:, 0].tolist() == [5, 6, 5]
    np.save(tmp_path / "new.npy", filled(8))
    os.replace(tmp_path / "new.npy", tmp_path / "table.npy")
    live.look(), live.look()
    assert (live(IDS)["rows"] == 8).all() and (live(IDS)["others"] == 1).all()


@pytest.mark.parametrize("every", [0, -1, "1"])
def test_every_is_a_number_of_seconds(path: Path, every: float) -> None:
    with pytest.raises(InputError, match=f"every: expected seconds .* got {every!r}"):
        Live(path, every=every)


def test_contents_have_no_file_to_follow(path: Path) -> None:
    with pytest.raises(InputError, match="expected the path of a file, got bytes"):
        Live(path.read_bytes())  # type: ignore[arg-type]


def test_its_thread_ends_with_it(path: Path) -> None:
    live = Live(path, every=0.01)
    gone = weakref.ref(live)
    del live
    gc.collect()
    until(lambda: gone() is None)
    until(lambda: not any(t.name == "uncork live" for t in threading.enumerate()))


def test_threads_call_while_files_are_replaced(path: Path) -> None:
    ids = np.arange(ROWS)
    wrong: list[object] = []
    done = threading.Event()
    with Live(path, every=0.01, threads=1) as live:

        def calls() -> None:
            last = 1.0
            try:
                while not done.is_set():
                    result = live(ids)
                    values = {*np.unique(result["rows"]), *np.unique(result["others"])}
                    if len(values) != 1 or min(values) < last:
                        wrong.append((last, values))
                    last = min(values)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=calls) for _ in range(2)]
        for thread in threads:
            thread.start()
        for value in (2, 3, 4):
            reloads = live.reloads
            write(path, value)
            until(lambda reloads=reloads: live.reloads > reloads)
        done.set()
        for thread in threads:
            thread.join()
        assert (live(IDS)["rows"] == 4).all() and not wrong


#: Calls in a parent and in its forked children, until each has seen the new file.
SERVERS = """
import os, sys, time
import numpy as np, uncork
live = uncork.Live(sys.argv[1], every=0.01, threads=1)
ids = np.arange(3000)
assert (live(ids)["rows"] == 1).all()
children = []
for _ in range(2):
    child = os.fork()
    if not child:
        break
    children.append(child)
if child:
    for ending in ("bin", "xml"):
        os.replace(sys.argv[2] + ending, sys.argv[1][:-3] + ending)
end = time.monotonic() + 60
while time.monotonic() < end:
    result = live(ids)
    values = {*np.unique(result["rows"]), *np.unique(result["others"])}
    assert len(values) == 1, values
    if values == {2.0}:
        break
else:
    os._exit(1)
if not child:
    os._exit(0)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_follow_the_file_too(path: Path) -> None:
    uncork.write_model(two_tables(2, 2), path.parent / "next.xml")
    child = run_child(SERVERS, path, path.parent / "next.")
    assert child.returncode == 0, child.stderr
