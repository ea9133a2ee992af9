"""Compiled kernels: made once, kept on disk, loaded in milliseconds.

An object file is named by a hash of everything that it depends on: the kernel's own description, the source of the kernels,
the versions of the tools and the CPU. Files are written beside their name and renamed, so that any number of processes may
share a folder; a folder that cannot be written, or a file that is broken, costs the time to compile and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: The store is trimmed to this many bytes, oldest use first.
MAX_BYTES = 256 << 20
_SUFFIX = ".o"


def default_folder() -> Path:
    """`uncork` in the user's cache directory, by the platform's convention."""
    home = Path.home()
    if sys.platform == "win32":
        return home / "AppData" / "Local" / "uncork" / "cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "uncork"
    return home / ".cache" / "uncork"


class ObjectStore:
    """A folder of object files, and the functions of this process that were loaded from it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._functions: dict[str, int] = {}
        self._engines: list[Any] = []  # code lives as long as its engine
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path | None:
        """Where files are kept; None when there is no home directory to keep them in."""
        if self._folder is None:
            try:
                self._folder = default_folder()
            except RuntimeError:
                return None
        return self._folder

    def function(self, name: str, description: str, make: Callable[[], str]) -> int:
        """The address of kernel `name`. `make` gives its LLVM text and is only called when no file has the object.

        `description` must tell apart all kernels that differ.
        """
        key = hashlib.sha256(f"{name}\n{description}\n{_fingerprint()}".encode()).hexdigest()[:32]
        address = self._functions.get(key)
        if address is not None:
            return address
        with self._lock:
            if key not in self._functions:
                code = self._read(key)
                address = self._load(code, name) if code is not None else None
                if address is None:  # not there, or not what it should be
                    code = _compiled(make())
                    self._write(key, code)
                    address = self._load(code, name)
                    if address is None:
                        raise RuntimeError(f"the kernel {name} was compiled but cannot be loaded")
                self._functions[key] = address
            return self._functions[key]

    def files(self) -> list[Path]:
        """The files of the store, those used last first."""
        if self.folder is None or not self.folder.is_dir():
            return []
        dated: list[tuple[float, Path]] = []
        for path in self.folder.glob("*" + _SUFFIX):
            with contextlib.suppress(OSError):  # another process may be trimming too
                dated.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(dated, reverse=True)]

    def clear(self) -> int:
        """Delete all files; returns how many there were. Functions already loaded stay."""
        files = self.files()
        for path in files:
            with contextlib.suppress(OSError):
                path.unlink()
        return len(files)

    def _read(self, key: str) -> bytes | None:
        """The object, if its checksum holds: a file cut short by a full disk must not be run."""
        if self.folder is None:
            return None
        path = self.folder / (key + _SUFFIX)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        code, check = data[:-32], data[-32:]
        if hashlib.sha256(code).digest() != check:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return code

    def _write(self, key: str, code: bytes) -> None:
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, scratch = tempfile.mkstemp(dir=self.folder, prefix=key, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(code + hashlib.sha256(code).digest())
                os.replace(scratch, self.folder / (key + _SUFFIX))
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(scratch)
                raise
        except OSError:
            return  # read-only or full: this process has its code, the next compiles again
        self._trim()

    def _trim(self) -> None:
        total = 0
        for path in self.files():
            with contextlib.suppress(OSError):
                total += path.stat().st_size
                if total > MAX_BYTES:
                    path.unlink()

    def _load(self, code: bytes, name: str) -> int | None:
        from llvmlite import binding

        try:
            engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine())
            engine.add_object_file(binding.ObjectFileRef.from_data(code))
            engine.finalize_object()
        except RuntimeError:
            return None
        address = engine.get_function_address(name)
        if not address:
            return None
        self._engines.append(engine)
        return int(address)


#: The store that kernels use.
STORE = ObjectStore()


@functools.lru_cache(maxsize=1)
def _fingerprint() -> str:
    """What an object depends on besides its description: the source of the kernels, the tools and the CPU."""
    import llvmlite

    source = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        source.update(path.read_bytes())
    cpu, features = _cpu()
    return f"{source.hexdigest()} {llvmlite.__version__} {platform.machine()} {sys.platform} {cpu} {features}"


@functools.lru_cache(maxsize=1)
def _cpu() -> tuple[str, str]:
    """The CPU's name and features as LLVM calls them."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    text = features.flatten()
    if features.get("avx512f"):
        text += ",-prefer-256-bit"  # full vectors: these kernels are wide enough to pay for the clock
    return binding.get_host_cpu_name(), text


def has_feature(name: str) -> bool:
    """The CPU has a feature, by LLVM's name for it."""
    return f"+{name}" in _cpu()[1].split(",")


def lanes() -> int:
    """f32 numbers in the widest vector register."""
    return 16 if has_feature("avx512f") else 8 if has_feature("avx") else 4


def _target_machine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    cpu, features = _cpu()
    return binding.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=3, jit=True, codemodel="jitdefault")


def _compiled(text: str) -> bytes:
    from llvmlite import binding

    machine = _target_machine()
    module = binding.parse_assembly(text)
    module.triple = machine.triple
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_unrolling = False  # kernels are unrolled by whoever writes them
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    code: bytes = machine.emit_object(module)
    return code
