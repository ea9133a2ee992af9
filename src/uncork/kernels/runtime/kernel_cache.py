"""Compiled kernels: made once, kept on disk, mapped in a fraction of a millisecond.

A file is named by a hash of everything that its kernel depends on: its own description, the source of the kernels, the
versions of the tools and the CPU. It holds linked code (see `link`), or an object file where only LLVM can load it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from uncork.kernels.runtime.disk_cache import Entry, Folder, default_folder
from uncork.kernels.runtime.exec_memory import can_map, mapped
from uncork.kernels.runtime.target import has_feature, host, lanes, versions
from uncork.types import Array

__all__ = ["STORE", "ObjectStore", "has_feature", "lanes"]

_TITLE = "uncork kernel"
_LINKED, _OBJECT = "linked", "object"


class ObjectStore:
    """A folder of compiled kernels, and the functions of this process that were loaded from it."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` None: the user's cache directory."""
        self.folder = Folder(default_folder() if folder is None else folder)
        self._functions: dict[tuple[str, str], int] = {}
        self._code: list[Array] = []  # functions live in it
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            # A thread that compiles when another forks does not exist in the child, and would never let go there.
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def function(self, name: str, description: str, make: Callable[[], str]) -> int:
        """The address of kernel `name`. `make` gives its LLVM text and is only called when no file has the kernel.

        `description` must tell apart all kernels that differ.
        """
        address = self._functions.get((name, description))
        if address is not None:
            return address
        with self._lock:
            if (name, description) not in self._functions:
                key = hashlib.sha256("\n".join([name, description, versions(), *host()]).encode()).hexdigest()[:32]
                stored = self.folder.read(key)
                address = None if stored is None else self._from_file(stored, name)
                self._functions[name, description] = self._made(key, name, make) if address is None else address
            return self._functions[name, description]

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

    def _made(self, key: str, name: str, make: Callable[[], str]) -> int:
        from uncork.kernels.runtime.elf_link import Unlinkable, link
        from uncork.kernels.runtime.llvm import compiled

        code = compiled(make(), *host())
        if can_map():
            try:
                linked, entry = link(code, name)
                address = self._mapped(linked, entry)
            except (Unlinkable, OSError):
                pass  # LLVM can
            else:
                self._keep(key, name, _LINKED, entry, linked)
                return address
        address = _loaded(code, name)
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
        with open(entry.path, "rb") as file:
            line = file.read(512).partition(b"\n")[0].decode()
    except (OSError, UnicodeDecodeError):
        return None
    return line[len(_TITLE) + 1 :].split(" ")[0] if line.startswith(_TITLE + " ") else None


#: The store that kernels use.
STORE = ObjectStore()
