"""Compiled kernels: those that come with the package (`bundle.py`), and others that are made once,
kept on disk and mapped in a fraction of a millisecond.

A file is named by a hash of everything that its kernel depends on: its own description, the source
of the kernels, the versions of the tools and the target. It holds linked code (see `elf_link`), or
an object file where only LLVM can load it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from uncork import files
from uncork.concurrency import WorkLock, comes_between, is_begun, unforked
from uncork.errors import UncorkError, shortened
from uncork.kernels.kernel_spec import KernelSpec, llvm_text
from uncork.kernels.runtime.addresses import Wanted, recording
from uncork.kernels.runtime.bundle import bundle_of
from uncork.kernels.runtime.disk_cache import Entry, Folder, default_folder
from uncork.kernels.runtime.exec_memory import mapped
from uncork.kernels.runtime.target import (
    Target,
    host_target,
    level_of,
    no_compiler,
    versions,
)
from uncork.types import Array

if TYPE_CHECKING:
    from uncork.kernels.runtime.side_by_side import Progress, SideBySide

_TITLE = "uncork kernel"
_LINKED, _OBJECT = "linked", "object"
_progress: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextlib.contextmanager
def compilations_told(progress: Progress) -> Iterator[None]:
    """A context in which a function is told how far the compiling of many kernels is, beside those
    who are told already.
    """
    others = _progress.get()

    def tell(done: int, of: int) -> None:
        progress(done, of)
        if others is not None:
            others(done, of)

    before = _progress.set(tell)
    try:
        yield
    finally:
        _progress.reset(before)


#: Errors that tell nothing of a kernel: the next one to ask may have it.
_NOT_OF_THE_KERNEL = (UncorkError, MemoryError, Warning)


def _has_come_between_an_import(error: Exception) -> bool:
    """Whether a signal handler wants what this very thread is in the middle of importing."""
    return isinstance(error, ImportError) and is_begun(error.name)


class CannotCompile(Exception):
    """LLVM cannot compile what it was given, on this machine or in this version: references do the
    work.
    """


def _cannot_compile(name: str, error: Exception) -> CannotCompile:
    """The exception for a kernel, with LLVM's words, or what another version of llvmlite makes of a
    call.
    """
    return CannotCompile(
        f"kernel '{name}' cannot be compiled: {shortened(str(error).strip(), 500)}"
    )


class KernelMissing(CannotCompile):
    """The package has no such kernel, and there is nothing that compiles it."""

    def __init__(self, name: str, target: Target) -> None:
        super().__init__(
            f"kernel '{name}' is not among those that come with uncork for "
            f"{level_of(target) or target.cpu}, and {no_compiler()}: pip install "
            "'uncork[compile]', or compile the model elsewhere"
        )


class _Compiled(Struct, frozen=True):
    """A kernel's object file and, where LLVM is not needed to load it, the code linked from it."""

    code: bytes
    linked: bytes | None = None
    entry: int = 0


class ObjectStore:
    """A folder of compiled kernels, and the functions of this process that were loaded from it."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` None: the user's cache directory."""
        self.folder = Folder(default_folder() if folder is None else folder)
        self._functions: dict[tuple[str, str, Target], int] = {}
        self._addresses: dict[tuple[KernelSpec, Target], int] = {}
        self._code: list[Array] = []  # functions live in it
        self._failed: dict[tuple[str, str, Target], CannotCompile] = {}
        self._lock = WorkLock()

    def address(self, spec: KernelSpec, target: Target | None = None) -> int:
        """The address of a kernel, for this machine unless another target is named."""
        space = recording()
        if space is not None:
            named = target or host_target()
            return space.function(Wanted(spec.name, repr(spec), partial(llvm_text, spec, named)))
        target = target or host_target()
        address = self._addresses.get((spec, target))
        if address is None:
            address = self.function(spec.name, repr(spec), lambda: llvm_text(spec, target), target)
            self._addresses[spec, target] = address
        return address

    def function(
        self, name: str, description: str, make: Callable[[], str], target: Target | None = None
    ) -> int:
        """The address of kernel `name`. `make` gives its LLVM text and is only called when no file
        has the kernel.

        `description` must tell apart all kernels that differ. Raises CannotCompile, again for what
        has failed once.
        """
        space = recording()
        if space is not None:
            return space.function(Wanted(name, description, make))
        target = target or host_target()
        found = name, description, target
        address = self._functions.get(found)
        if address is not None:
            return address
        with unforked(), self._lock.held():
            if found in self._failed:
                raise self._failed[found]
            if found not in self._functions:
                address = self._there(*found)
                try:
                    self._functions[found] = (
                        self._made(*found, make) if address is None else address
                    )
                except CannotCompile as error:
                    self._failed[found] = error
                    raise
            return self._functions[found]

    def linked(self, wanted: Wanted, target: Target) -> tuple[bytes, int]:
        """The code of a function for a target, which runs wherever it is put, and where in it the
        function begins. It is not loaded, so the target may be any. Raises CannotCompile.
        """
        key = _key(wanted.name, wanted.description, target)
        stored = self.folder.read(key)
        if stored is not None:
            line, _, code = stored.partition(b"\n")
            kind, _, entry = (
                line.decode(errors="replace").partition(f"{wanted.name} ")[2].partition(" ")
            )
            if kind == _LINKED and entry.isdigit():
                return code, int(entry)
        if no_compiler():
            raise CannotCompile(
                f"kernel '{wanted.name}': to compile a model into a file {no_compiler()}: pip "
                "install 'uncork[compile]'"
            )
        try:
            with _compiler():
                compiled = _compiled(wanted.name, wanted.make(), target)
        except _NOT_OF_THE_KERNEL:
            raise
        except Exception as error:
            raise _cannot_compile(wanted.name, error) from error
        if compiled.linked is None:
            raise CannotCompile(f"kernel '{wanted.name}' cannot be linked for {target.arch}")
        self._keep(key, wanted.name, _LINKED, compiled.entry, compiled.linked)
        return compiled.linked, compiled.entry

    def address_of(self, wanted: Wanted, target: Target | None = None) -> int:
        """The address of a function, as `function` gives it."""
        return self.function(wanted.name, wanted.description, wanted.make, target)

    def prepare(
        self,
        specs: Iterable[KernelSpec],
        further: Iterable[Wanted] = (),
        target: Target | None = None,
        threads: int = 1,
    ) -> None:
        """Have kernels ready, and `further` functions: those that no file has are compiled by so
        many threads side by side.

        What cannot be compiled is not tried again: that is told when its address is asked for.
        """
        with self.preparation(target, threads) as preparation:
            preparation.add(specs, further)

    @contextlib.contextmanager
    def preparation(self, target: Target | None = None, threads: int = 1) -> Iterator[Preparation]:
        """A context in which kernels are asked for as they are found to be needed: other threads
        than this one begin to compile them at once. At its end all are ready.
        """
        threads = 1 if comes_between() else threads
        with unforked(), contextlib.ExitStack() as compiler:
            made = Preparation(self, target or host_target(), threads, compiler)
            try:
                yield made
                made.finish()
            finally:  # an interrupt leaves what is done
                made.keep()

    def register(self, work: SideBySide[Wanted, _Compiled], target: Target) -> None:
        """Keep what was compiled, and what could not be."""
        with self._lock.held():
            for one, compiled in work.made.items():
                found = one.name, one.description, target
                if found not in self._functions:
                    try:
                        self._functions[found] = self._loaded(_key(*found), one.name, compiled)
                    except CannotCompile as error:
                        self._failed[found] = error
            for one, reason in work.failed.items():
                if not isinstance(reason, _NOT_OF_THE_KERNEL) and not _has_come_between_an_import(
                    reason
                ):
                    self._failed[one.name, one.description, target] = _cannot_compile(
                        one.name, reason
                    )

    def lacks(self, wanted: Wanted, target: Target) -> bool:
        """Whether a function is neither loaded nor in a file, nor known not to compile."""
        found = wanted.name, wanted.description, target
        with self._lock.held():
            if found in self._functions or found in self._failed:
                return False
            address = self._there(*found)
            if address is not None:
                self._functions[found] = address
            elif no_compiler():
                self._failed[found] = KernelMissing(wanted.name, target)
                return False
            return address is None

    def refusal(self, spec: KernelSpec, target: Target) -> CannotCompile | None:
        """Why a kernel cannot be had, as far as that is known."""
        if no_compiler():
            self.lacks(Wanted(spec.name, repr(spec), str), target)
        return self._failed.get((spec.name, repr(spec), target)) if self._failed else None

    def knows(self, spec: KernelSpec, target: Target) -> bool:
        """Whether the address of a kernel was asked for before."""
        return (spec, target) in self._addresses

    def _there(self, name: str, description: str, target: Target) -> int | None:
        """The address of a kernel that the package has, or a file of the folder; None where none
        can be used.
        """
        bundle = bundle_of(target)
        address = None if bundle is None else bundle.address(name, description)
        if address is not None:
            return address
        stored = self.folder.read(_key(name, description, target))
        return None if stored is None else self._from_file(stored, name)

    def _from_file(self, stored: bytes, name: str) -> int | None:
        """The address of a kernel that a file holds, or None when the file has something else in it
        or cannot be used here.
        """
        line, _, code = stored.partition(b"\n")
        try:
            title, kernel, kind, entry = line.decode().rsplit(" ", 3)
            if (title, kernel) != (_TITLE, name):
                return None
            return self._mapped(code, int(entry)) if kind == _LINKED else _loaded(code, name)
        except (ValueError, OSError, RuntimeError):
            return None

    def _made(self, name: str, description: str, target: Target, make: Callable[[], str]) -> int:
        if no_compiler():
            raise KernelMissing(name, target)
        try:
            compiled = _compiled(name, make(), target)
        except _NOT_OF_THE_KERNEL:
            raise
        except Exception as error:
            if _has_come_between_an_import(error):
                raise
            raise _cannot_compile(name, error) from error
        return self._loaded(_key(name, description, target), name, compiled)

    def _loaded(self, key: str, name: str, compiled: _Compiled) -> int:
        """The address of a kernel that has just been compiled, which is kept on disk."""
        if compiled.linked is not None:
            with contextlib.suppress(OSError):  # LLVM can
                address = self._mapped(compiled.linked, compiled.entry)
                self._keep(key, name, _LINKED, compiled.entry, compiled.linked)
                return address
        try:
            address = _loaded(compiled.code, name)
        except (RuntimeError, OSError) as error:
            raise CannotCompile(
                f"kernel '{name}' cannot be loaded: {shortened(str(error).strip(), 500)}"
            ) from error
        self._keep(key, name, _OBJECT, 0, compiled.code)
        return address

    def _mapped(self, code: bytes, entry: int) -> int:
        memory = mapped(code)
        self._code.append(memory)
        return int(memory.ctypes.data) + entry

    def _keep(self, key: str, name: str, kind: str, entry: int, code: bytes) -> None:
        self.folder.write(key, f"{_TITLE} {name} {kind} {entry}\n".encode() + code)


def _key(name: str, description: str, target: Target) -> str:
    words = [name, description, versions(), target.arch, target.system, target.cpu, target.features]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]


@contextlib.contextmanager
def _compiler() -> Iterator[None]:
    """Import what compiles, and have LLVM loaded, in this thread: a fork waits for it, and does not
    know of those that help.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(Exception):  # it is told by the first kernel
            import uncork.kernels.runtime.elf_link  # noqa: F401
            from uncork.kernels.runtime import llvm

            llvm.load()
            stack.enter_context(llvm.compiling())
        yield


def _compiled(name: str, text: str, target: Target) -> _Compiled:
    """The kernel of an LLVM text. Several threads may compile at once."""
    from uncork.kernels.runtime.elf_link import Unlinkable, link
    from uncork.kernels.runtime.llvm import compiled

    code = compiled(text, target)
    with contextlib.suppress(Unlinkable):  # LLVM can
        return _Compiled(code, *link(code, name))
    return _Compiled(code)


def _loaded(code: bytes, name: str) -> int:
    from uncork.kernels.runtime.llvm import loaded

    return loaded(code, name, host_target())


def kernel_name(entry: Entry) -> str | None:
    """The kernel that a file of the folder holds; None for another file."""
    try:
        with files.opened(entry.path) as file:
            line = file.read(512).partition(b"\n")[0].decode()
    except (OSError, UnicodeDecodeError):
        return None
    return line[len(_TITLE) + 1 :].split(" ")[0] if line.startswith(_TITLE + " ") else None


class Preparation:
    """Kernels that are asked for one after the other and compiled beside that."""

    def __init__(
        self, store: ObjectStore, target: Target, threads: int, compiler: contextlib.ExitStack
    ) -> None:
        self._store, self._target, self._compiler = store, target, compiler
        self._asked: set[KernelSpec] = set()
        self._work: SideBySide[Wanted, _Compiled] | None = None
        self._threads = threads

    def add(self, specs: Iterable[KernelSpec], further: Iterable[Wanted] = ()) -> None:
        """Ask for kernels and functions. Those that no file has are compiled."""
        if recording() is not None:
            return  # whoever writes the image compiles what it refers to
        target = self._target
        new = [
            spec for spec in specs if not (spec in self._asked or self._store.knows(spec, target))
        ]
        self._asked.update(new)
        wanted = [Wanted(s.name, repr(s), partial(llvm_text, s, target)) for s in new]
        for one in {(one.name, one.description): one for one in (*wanted, *further)}.values():
            if self._store.lacks(one, target):
                self._begun().add(one)

    def _begun(self) -> SideBySide[Wanted, _Compiled]:
        if self._work is None:
            from uncork.kernels.runtime.side_by_side import SideBySide

            target = self._target
            self._compiler.enter_context(_compiler())
            self._work = SideBySide(
                lambda one: one.make(),
                lambda one, text: _compiled(one.name, text, target),
                self._threads,
                _progress.get(),
            )
        return self._work

    def finish(self) -> None:
        """Have all kernels compiled."""
        if self._work is not None:
            self._work.finish()

    def keep(self) -> None:
        """Keep what is compiled; nothing more is begun."""
        if self._work is not None:
            try:
                self._work.stop()
            finally:
                self._store.register(self._work, self._target)


#: The store that kernels use.
STORE = ObjectStore()
