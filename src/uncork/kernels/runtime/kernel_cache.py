"""Compiled kernels: made once, kept on disk, mapped in a fraction of a millisecond.

A file is named by a hash of everything that its kernel depends on: its own description, the source of the kernels, the
versions of the tools and the CPU. It holds linked code (see `elf_link`), or an object file where only LLVM can load it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

from uncork import files
from uncork.concurrency import renews_locks
from uncork.errors import UncorkError, shortened
from uncork.kernels.kernel_spec import KernelSpec, llvm_text
from uncork.kernels.runtime.disk_cache import Entry, Folder, default_folder
from uncork.kernels.runtime.exec_memory import can_map, mapped
from uncork.kernels.runtime.target import Target, host_target, versions
from uncork.types import Array

_TITLE = "uncork kernel"
_LINKED, _OBJECT = "linked", "object"


class CannotCompile(Exception):
    """LLVM makes no kernel of what it was given, on this machine or in this version: references do the work."""


class ObjectStore:
    """A folder of compiled kernels, and the functions of this process that were loaded from it."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` None: the user's cache directory."""
        self.folder = Folder(default_folder() if folder is None else folder)
        self._functions: dict[tuple[str, str, Target], int] = {}
        self._addresses: dict[tuple[KernelSpec, Target], int] = {}
        self._code: list[Array] = []  # functions live in it
        self._failed: dict[tuple[str, str, Target], CannotCompile] = {}
        self.renew_locks()
        renews_locks(self)

    def renew_locks(self) -> None:
        """Make the lock: at the start, and in a child of a process one of whose threads compiles."""
        self._lock = threading.Lock()

    def address(self, spec: KernelSpec, target: Target | None = None) -> int:
        """The address of a kernel, for this machine unless another target is named."""
        target = target or host_target()
        address = self._addresses.get((spec, target))
        if address is None:
            address = self.function(spec.name, repr(spec), lambda: llvm_text(spec, target), target)
            self._addresses[spec, target] = address
        return address

    def function(self, name: str, description: str, make: Callable[[], str], target: Target | None = None) -> int:
        """The address of kernel `name`. `make` gives its LLVM text and is only called when no file has the kernel.

        `description` must tell apart all kernels that differ. Raises CannotCompile, again for what has failed once.
        """
        target = target or host_target()
        found = name, description, target
        address = self._functions.get(found)
        if address is not None:
            return address
        with self._lock:
            if found in self._failed:
                raise self._failed[found]
            if found not in self._functions:
                words = [name, description, versions(), target.cpu, target.features]
                key = hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]
                stored = self.folder.read(key)
                address = None if stored is None else self._from_file(stored, name)
                try:
                    self._functions[found] = self._made(key, name, make, target) if address is None else address
                except CannotCompile as error:
                    self._failed[found] = error
                    raise
            return self._functions[found]

    def _from_file(self, stored: bytes, name: str) -> int | None:
        """The address of a kernel that a file holds, or None when the file has something else in it or cannot be used here."""
        line, _, code = stored.partition(b"\n")
        try:
            title, kernel, kind, entry = line.decode().rsplit(" ", 3)
            if (title, kernel) != (_TITLE, name):
                return None
            return self._mapped(code, int(entry)) if kind == _LINKED else _loaded(code, name)
        except (ValueError, OSError, RuntimeError):
            return None

    def _made(self, key: str, name: str, make: Callable[[], str], target: Target) -> int:
        from uncork.kernels.runtime.elf_link import Unlinkable, link
        from uncork.kernels.runtime.llvm import compiled

        try:
            code = compiled(make(), target.cpu, target.features)
        except (UncorkError, MemoryError, Warning):
            raise
        except Exception as error:  # LLVM's words, or what another version of llvmlite makes of a call
            raise CannotCompile(f"kernel '{name}' cannot be compiled: {shortened(str(error).strip(), 500)}") from error
        if can_map():
            try:
                linked, entry = link(code, name)
                address = self._mapped(linked, entry)
            except (Unlinkable, OSError):
                pass  # LLVM can
            else:
                self._keep(key, name, _LINKED, entry, linked)
                return address
        try:
            address = _loaded(code, name)
        except (RuntimeError, OSError) as error:
            raise CannotCompile(f"kernel '{name}' cannot be loaded: {shortened(str(error).strip(), 500)}") from error
        self._keep(key, name, _OBJECT, 0, code)
        return address

    def _mapped(self, code: bytes, entry: int) -> int:
        memory = mapped(code)
        self._code.append(memory)
        return int(memory.ctypes.data) + entry

    def _keep(self, key: str, name: str, kind: str, entry: int, code: bytes) -> None:
        self.folder.write(key, f"{_TITLE} {name} {kind} {entry}\n".encode() + code)


def _loaded(code: bytes, name: str) -> int:
    from uncork.kernels.runtime.llvm import loaded

    return loaded(code, name)


def kernel_name(entry: Entry) -> str | None:
    """The kernel that a file of the folder holds; None for another file, such as what LLVM said of the CPU."""
    try:
        with files.opened(entry.path) as file:
            line = file.read(512).partition(b"\n")[0].decode()
    except (OSError, UnicodeDecodeError):
        return None
    return line[len(_TITLE) + 1 :].split(" ")[0] if line.startswith(_TITLE + " ") else None


#: The store that kernels use.
STORE = ObjectStore()
