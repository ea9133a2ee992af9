"""The store of compiled kernels: a cache that may be broken, full, read-only or shared, and never
wrong.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("llvmlite")

import uncork
from tests.processes._children import COMPILING
from uncork import UncorkWarning
from uncork.kernels.codegen.emit import F64, I64, Kernel
from uncork.kernels.runtime import exec_memory as executable
from uncork.kernels.runtime import kernel_cache as store_module
from uncork.kernels.runtime import target as cpu
from uncork.kernels.runtime.disk_cache import Folder
from uncork.kernels.runtime.kernel_cache import (
    CannotCompile,
    ObjectStore,
    Wanted,
    compilations_told,
    kernel_name,
)
from uncork.kernels.runtime.target import host_target

ROOT = Path(__file__).parents[2]


def answer(number: int) -> str:
    kernel = Kernel("answer", [])
    kernel.finish(kernel.integer(number))
    return kernel.text()


def call(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)(None)


def never() -> str:
    raise AssertionError("compiled although the store has it")


def kernels(path: Path) -> list[Path]:
    return [entry.path for entry in Folder(path).entries()]


def test_compiles_once_and_loads_afterwards(tmp_path: Path) -> None:
    assert call(ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))) == 42
    assert call(ObjectStore(tmp_path).function("answer", "42", never)) == 42
    assert call(ObjectStore(tmp_path).function("answer", "43", lambda: answer(43))) == 43
    assert len(kernels(tmp_path)) == 2
    assert {kernel_name(entry) for entry in Folder(tmp_path).entries()} == {"answer"}


def test_one_process_asks_the_folder_once(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    address = store.function("answer", "42", lambda: answer(42))
    kernels(tmp_path)[0].unlink()
    assert store.function("answer", "42", never) == address


@pytest.mark.parametrize("damage", [b"", b"garbage", b"uncork kernel answer linked 0\n", None])
def test_a_broken_file_costs_time_only(tmp_path: Path, damage: bytes | None) -> None:
    ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))
    (path,) = kernels(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert call(ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))) == 42
    assert path.read_bytes() == whole
    assert call(ObjectStore(tmp_path).function("answer", "42", never)) == 42


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"something else",
        b"uncork kernel answer linked\n",
        b"uncork kernel answer linked zero\ncode",
        b"uncork kernel answer linked 0\n",
        b"uncork kernel other linked 0\n\xc3",
        b"\xff\xff\xff",
    ],
)
def test_a_file_with_something_else_in_it_is_made_again(tmp_path: Path, content: bytes) -> None:
    """Its checksum holds: it is what somebody wrote, but no kernel, or another."""
    ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))
    (path,) = kernels(tmp_path)
    Folder(tmp_path).write(path.stem, content)
    assert call(ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))) == 42
    assert call(ObjectStore(tmp_path).function("answer", "42", never)) == 42


def test_kernels_that_changed_names_are_made_again(tmp_path: Path) -> None:
    """Of one name, and for different things: whoever exchanges files does not exchange what
    runs.
    """
    first, second = (tmp_path / f"{name}.kernel" for name in ("a", "b"))
    for number, path in ((1, first), (2, second)):
        ObjectStore(tmp_path).function("answer", str(number), lambda number=number: answer(number))
        (new,) = set(kernels(tmp_path)) - {first}
        new.rename(path)
        path.with_suffix(".name").write_text(new.name)
    for path, other in ((first, second), (second, first)):
        (tmp_path / path.with_suffix(".name").read_text()).write_bytes(other.read_bytes())
    fresh = ObjectStore(tmp_path)
    assert [call(fresh.function("answer", str(n), lambda n=n: answer(n))) for n in (1, 2)] == [1, 2]


def test_a_folder_that_others_may_write_to_costs_time_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.warns(UncorkWarning, match="could exchange the compiled kernels in it"):
        assert call(ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))) == 42
    assert kernels(tmp_path) == []


def test_a_folder_that_cannot_be_made_costs_time_only(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert call(ObjectStore(blocked / "cache").function("answer", "42", lambda: answer(42))) == 42


@pytest.mark.parametrize("forbidden", ["memfd_create", "mmap"])
def test_where_files_in_memory_cannot_be_executed_llvm_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forbidden: str
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    ObjectStore(tmp_path / "before").function("answer", "42", lambda: answer(42))
    monkeypatch.setattr(
        *(
            (os, forbidden, refuse)
            if forbidden == "memfd_create"
            else (executable, "_mmap", lambda: refuse)
        )
    )
    for folder in ("new", "before"):  # the second holds a file of a time when it was allowed
        assert (
            call(ObjectStore(tmp_path / folder).function("answer", "42", lambda: answer(42))) == 42
        )
        assert call(ObjectStore(tmp_path / folder).function("answer", "42", never)) == 42, (
            "from the object file"
        )


def test_kernels_keep_no_files_open(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        assert (
            call(store.function("answer", str(number), lambda number=number: answer(number)))
            == number
        )
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_a_system_without_files_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    for make in (lambda: answer(42), never):
        assert call(ObjectStore(tmp_path).function("answer", "42", make)) == 42


def test_what_needs_something_from_elsewhere_is_loaded_by_llvm(tmp_path: Path) -> None:
    """`exp` of a number is a call to the C library."""
    kernel = Kernel("answer", ["where"])
    (where,) = kernel.arguments
    number = kernel.load(where, I64)
    result = kernel._intrinsic("exp", [number.to(F64)])
    kernel.store(result, where)
    kernel.finish()
    for make in (kernel.text, never):
        cell = np.array([2], np.int64)
        words = np.array([cell.ctypes.data], np.int64)
        address = ObjectStore(tmp_path).function("answer", "exp", make)
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)(words.ctypes.data) == 0
        assert cell.view(np.float64)[0] == pytest.approx(7.38905609893065)


def test_the_key_names_the_cpu_and_the_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ObjectStore(tmp_path).function("answer", "42", lambda: answer(42))
    other = replace(host_target(), cpu="generic", features="")
    assert call(ObjectStore(tmp_path).function("answer", "42", lambda: answer(1), other)) == 1
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "versions", lambda: "other")
        assert call(ObjectStore(tmp_path).function("answer", "42", lambda: answer(2))) == 2
    assert call(ObjectStore(tmp_path).function("answer", "42", never)) == 42
    assert len(kernels(tmp_path)) == 3


def test_the_option_of_llvm_holds_while_something_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is set once for many kernels, and others have the default again, also after an error."""
    from uncork.kernels.runtime import llvm

    told: list[str] = []
    monkeypatch.setattr(
        "uncork.kernels.runtime.llvm.binding.set_option", lambda _, option: told.append(option)
    )
    store = ObjectStore(tmp_path)
    wanted = [store_module.Wanted("answer", str(n), partial(answer, n)) for n in range(3)]
    store.prepare([], wanted, threads=2)
    assert told == ["-disable-lsr=true", "-disable-lsr=false"]
    assert [call(store.address_of(one)) for one in wanted] == [0, 1, 2]
    with pytest.raises(RuntimeError):
        llvm.compiled("no assembly", host_target())
    with pytest.raises(ZeroDivisionError), llvm.compiling():
        raise ZeroDivisionError
    assert told[2:] == ["-disable-lsr=true", "-disable-lsr=false"]


def test_threads_that_ask_at_once_get_one_function(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    made: list[int] = []
    found: list[int] = []

    def make() -> str:
        made.append(1)
        return answer(42)

    threads = [
        threading.Thread(target=lambda: found.append(store.function("answer", "42", make)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(found) == 8 and len(set(found)) == 1


PROGRAM = """
import sys
from pathlib import Path
from tests.kernels.test_kernel_cache import answer, call
from uncork.kernels.runtime.kernel_cache import ObjectStore
store = ObjectStore(Path(sys.argv[1]))
print(sum(call(store.function("answer", str(n), lambda n=n: answer(n))) for n in range(12)))
"""


def test_processes_that_compile_at_once(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(3)
    ]
    assert [p.communicate(timeout=120)[0].strip() for p in processes] == ["66"] * 3
    assert len(kernels(tmp_path)) == 12
    assert all(path.suffix == ".kernel" for path in tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_a_thread_compiles(tmp_path: Path) -> None:
    """The child has no such thread that would ever let go of the lock."""
    code = """
import os, sys, threading
from pathlib import Path
from tests.kernels.test_kernel_cache import answer, call
from uncork import concurrency
from uncork.kernels.runtime.kernel_cache import ObjectStore
concurrency._LONGEST_WAIT = 1.0
store = ObjectStore(Path(sys.argv[1]))
first = store.function("answer", "1", lambda: answer(1))
inside, go = threading.Event(), threading.Event()
def slowly():
    inside.set()
    go.wait()
    return answer(2)
thread = threading.Thread(target=store.function, args=("answer", "2", slowly))
thread.start()
inside.wait()
child = os.fork()
if not child:
    os._exit(call(first) + call(store.function("answer", "3", lambda: answer(3))))
status = os.waitpid(child, 0)[1]
go.set()
thread.join()
print(os.waitstatus_to_exitcode(status))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "4", done.stderr


MODEL = f"""
{COMPILING}
import sys
import numpy as np
import uncork
builder = uncork.Builder("sum")
x = builder.parameter("x", "f32", [4])
builder.result(builder.add("Add", 1, x, x)[0])
compiled = uncork.compile_model(builder.model())
result = compiled(np.arange(4, dtype=np.float32))[0].tolist()
print(result, "llvmlite" in sys.modules, len(compiled.plan.steps))
"""


@pytest.mark.parametrize("kind", ["not there", "relative", "not a folder", "read-only"])
def test_a_model_runs_whatever_the_home_is(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "home"
    if kind == "not a folder":
        home.write_text("")
    elif kind == "read-only":
        home.mkdir()
        (home / ".cache").symlink_to("/proc/1")  # nobody makes files there, root neither
    given = {"not there": "/proc/nonexistent", "relative": "somewhere"}.get(kind, str(home))
    environment = {**os.environ, "HOME": given, "PYTHONPATH": str(Path(uncork.__file__).parents[1])}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", MODEL],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            cwd=tmp_path,
            check=True,
        )
        assert done.stdout.startswith("[0.0, 2.0, 4.0, 6.0] True"), "compiled, in each process"
    assert not (tmp_path / "somewhere").exists()


def test_a_process_that_finds_its_kernels_does_without_llvm(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path(uncork.__file__).parents[1]),
    }
    for llvm in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", MODEL],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=True,
        )
        assert done.stdout.startswith(f"[0.0, 2.0, 4.0, 6.0] {llvm}")


def test_an_llvmlite_that_cannot_be_imported_is_none(tmp_path: Path) -> None:
    """Installed for another system, or without its library: the model runs by the references, and
    its plan says why.
    """
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text("raise OSError('no libllvmlite.so')")
    path = os.pathsep.join([str(tmp_path), str(Path(uncork.__file__).parents[1])])
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", MODEL + "print(compiled.plan)"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("[0.0, 2.0, 4.0, 6.0]")
    assert "llvmlite cannot be imported: no libllvmlite.so" in done.stdout


def test_the_sources_of_all_folders_are_in_the_key(tmp_path: Path) -> None:
    folder = tmp_path / "kernels" / "gemm"
    folder.mkdir(parents=True)
    digests = {cpu.digest_of_sources(tmp_path)}
    for path, text in (
        ("kernels/a.py", "1"),
        ("kernels/gemm/a.py", "1"),
        ("kernels/gemm/a.py", "2"),
        ("kernels/a.py", "12"),
    ):
        (tmp_path / path).write_text(text)
        digests.add(cpu.digest_of_sources(tmp_path))
    assert len(digests) == 5
    (folder / "notes.txt").write_text("no code")
    assert cpu.digest_of_sources(tmp_path) in digests


def test_the_version_stands_for_sources_that_are_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "digest_of_sources", lambda folder: b"")
    before = cpu.digest_of_kernels.__wrapped__()
    monkeypatch.setattr("uncork._version.__version__", "0.0.0")
    assert cpu.digest_of_kernels.__wrapped__() != before


def wanted(number: int, make: Callable[[], str] | None = None) -> Wanted:
    return Wanted("answer", str(number), make or (lambda: answer(number)))


def test_many_are_compiled_side_by_side(tmp_path: Path) -> None:
    """The addresses are those of the kernels that were asked for, and every file is whole."""
    store, told = ObjectStore(tmp_path), []
    with compilations_told(lambda done, of: told.append((done, of))):
        store.prepare([], [wanted(number) for number in range(40)], threads=4)
    assert [done for done, _ in told] == list(range(1, 41)) and told[-1] == (40, 40)
    assert all(done <= of for done, of in told)  # as many as were asked for by then
    for again in (store, ObjectStore(tmp_path)):
        assert [call(again.address_of(wanted(number, never))) for number in range(40)] == list(
            range(40)
        )


def test_the_first_are_compiled_while_others_are_asked_for(tmp_path: Path) -> None:
    store, first = ObjectStore(tmp_path), threading.Event()
    with (
        compilations_told(lambda done, of: first.set()),
        store.preparation(threads=2) as preparation,
    ):
        preparation.add([], [wanted(1)])
        assert first.wait(60)
        preparation.add([], [wanted(1), wanted(2)])
    assert [call(store.address_of(wanted(number, never))) for number in (1, 2)] == [1, 2]


def test_who_gives_up_waits_for_no_more_kernels(tmp_path: Path) -> None:
    """Those that were not begun are not compiled, and can be later."""
    store = ObjectStore(tmp_path)

    def interrupted() -> None:
        with store.preparation(threads=1) as preparation:
            preparation.add([], [wanted(1)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.glob("*"))
    store.prepare([], [wanted(1)])
    assert call(store.address_of(wanted(1, never))) == 1


def test_what_is_there_is_not_compiled_again(tmp_path: Path) -> None:
    store, told = ObjectStore(tmp_path), []
    store.function("answer", "1", lambda: answer(1))
    ObjectStore(tmp_path).function("answer", "2", lambda: answer(2))
    with compilations_told(lambda done, of: told.append((done, of))):
        store.prepare([], [wanted(1, never), wanted(2, never), wanted(3), wanted(3)], threads=2)
    assert told == [(1, 1)]
    assert call(store.address_of(wanted(2, never))) == 2


def test_one_that_cannot_be_compiled_is_told_when_it_is_asked_for(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    store.prepare([], [wanted(1, lambda: "no assembly"), wanted(2)], threads=2)
    assert call(store.address_of(wanted(2, never))) == 2
    with pytest.raises(
        CannotCompile, match="kernel 'answer' cannot be compiled: LLVM IR parsing error"
    ):
        store.address_of(wanted(1, lambda: "no assembly"))


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupt_leaves_what_was_ready(tmp_path: Path, threads: int) -> None:
    """The interrupt is raised when what was begun has ended, and the store goes on from what is
    done.
    """

    me = threading.get_ident()

    def interrupt(done: int, of: int) -> None:
        if threading.get_ident() == me:  # where signals arrive
            raise KeyboardInterrupt

    store, before = ObjectStore(tmp_path), threading.active_count()
    with pytest.raises(KeyboardInterrupt), compilations_told(interrupt):
        store.prepare([], [wanted(number) for number in range(30)], threads=threads)
    assert threading.active_count() == before
    done = {int(name[1]) for name in store._functions}
    assert len(done) >= 1 and (threads > 1 or len(done) == 1)
    assert [call(store.address_of(wanted(number, never))) for number in sorted(done)] == sorted(
        done
    )
    assert kernels(tmp_path), "on disk, too"
    store.prepare([], [wanted(number) for number in range(30)], threads=threads)
    assert [call(store.address_of(wanted(number, never))) for number in range(30)] == list(
        range(30)
    )


def test_an_interrupt_while_kernels_are_written(tmp_path: Path) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    store, before = ObjectStore(tmp_path), threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        store.prepare([], [wanted(1), wanted(2, interrupted), wanted(3)], threads=3)
    assert threading.active_count() == before
    assert [call(store.address_of(wanted(number))) for number in (1, 2, 3)] == [1, 2, 3]


def test_without_further_threads_one_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    store = ObjectStore(tmp_path)
    store.prepare([], [wanted(number) for number in range(3)], threads=4)
    assert [call(store.address_of(wanted(number, never))) for number in range(3)] == [0, 1, 2]


def test_a_terminal_that_is_gone_does_not_stop_compiling(tmp_path: Path) -> None:
    def gone(done: int, of: int) -> None:
        raise BrokenPipeError

    store = ObjectStore(tmp_path)
    with compilations_told(gone):
        store.prepare([], [wanted(1), wanted(2)], threads=2)
    assert call(store.address_of(wanted(2, never))) == 2


def test_two_threads_are_in_llvm_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """llvmlite lets one thread at a time in; the passes and the code of a module need no such
    lock.
    """
    from llvmlite.binding import ffi

    from uncork.kernels.runtime import llvm

    target, inside = host_target(), threading.Barrier(2)
    function = llvm._unlocked("LLVMPY_RunNewFunctionPassManager", 3)
    assert function is not None, "llvmlite has changed: kernels are compiled one after the other"

    def run(*arguments: object) -> object:
        inside.wait(30)
        return function(*arguments)

    monkeypatch.setattr(
        llvm, "_unlocked", lambda name, count: run if "Run" in name else getattr(ffi.lib, name)._cfn
    )
    with ThreadPoolExecutor(2) as threads:
        codes = list(threads.map(lambda n: llvm.compiled(answer(7), target), range(2)))
    monkeypatch.setattr(llvm, "_unlocked", lambda name, count: None)
    assert codes == [llvm.compiled(answer(7), target)] * 2, (
        "with llvmlite's lock the same comes out"
    )
