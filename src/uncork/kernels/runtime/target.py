"""What kernels depend on beside themselves: the CPU, in LLVM's words, and the versions of everything that makes them.

LLVM is asked for the CPU once; its answer is kept, by the system's own description of the CPU, so that a process that
finds all its kernels in the store has no need of llvmlite.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from pathlib import Path

from uncork.kernels.runtime.disk_cache import Folder, default_folder

#: Lines of /proc/cpuinfo that tell processors apart; others differ from core to core and from moment to moment.
_TELLING = frozenset(
    {"vendor_id", "cpu family", "model", "model name", "stepping", "flags"}
    | {"Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"}
)


def has_feature(name: str) -> bool:
    """The CPU has a feature, by LLVM's name for it."""
    return f"+{name}" in host()[1].split(",")


@functools.lru_cache(maxsize=1)
def lanes() -> int:
    """f32 numbers in the widest vector register."""
    return 16 if has_feature("avx512f") else 8 if has_feature("avx") else 4


@functools.lru_cache(maxsize=1)
def has_tiles() -> bool:
    """AMX multiplies bf16 here, and the system lets this process use its registers; the first call asks for that."""
    if not (has_feature("amx-tile") and has_feature("amx-bf16") and sys.platform == "linux" and _machine() == "x86_64"):
        return False
    import ctypes

    # https://docs.kernel.org/arch/x86/xstate.html: the state of tiles is large, and only kept for processes that ask for it.
    arch_prctl, request_permission, tile_data = map(ctypes.c_long, (158, 0x1023, 18))
    return int(ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data)) == 0


@functools.lru_cache(maxsize=1)
def let_run() -> int:
    """The address of the system's function that lets other threads run; 0 where there is none."""
    if os.name != "posix":
        return 0
    import ctypes

    return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0


@functools.lru_cache(maxsize=1)
def host() -> tuple[str, str]:
    """The CPU's name and features (`+this,-that`) as LLVM calls them."""
    described = described_by_system()
    return asked() if described is None else remembered(Folder(default_folder()), described)


def remembered(folder: Folder, described: str) -> tuple[str, str]:
    """LLVM's words for the CPU that the system describes so, from the folder if they are there."""
    key = hashlib.sha256(f"host\n{described}\n{versions()}".encode()).hexdigest()[:32]
    stored = folder.read(key)
    if stored is not None:
        title, _, text = stored.decode().partition("\n")
        name, _, features = text.partition("\n")
        if title == "uncork host":
            return name, features
    name, features = asked()
    folder.write(key, f"uncork host\n{name}\n{features}".encode())
    return name, features


def asked() -> tuple[str, str]:
    """LLVM's own answer."""
    from uncork.kernels.runtime.llvm import host

    return host()


def described_by_system(path: str = "/proc/cpuinfo") -> str | None:
    """What Linux says of the first core; None where there is no such thing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 15).partition("\n\n")[0].split("\n")
    except OSError:
        return None
    told = [line for line in lines if line.partition(":")[0].strip() in _TELLING]
    return "\n".join(told) if any(line.startswith(("flags", "Features")) for line in told) else None


@functools.lru_cache(maxsize=1)
def versions() -> str:
    """The source of the kernels, the version of llvmlite, the system and the processor's architecture."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.parent.rglob("*.py")):
        digest.update(path.read_bytes())
    found = importlib.util.find_spec("llvmlite")
    if found is not None and found.origin is not None:
        digest.update(_version(Path(found.origin).parent / "_version.py"))
    return f"{digest.hexdigest()} {sys.platform} {_machine()}"


def _version(path: Path) -> bytes:
    """llvmlite's version as its file states it, which is faster than importing it."""
    try:
        return path.read_bytes()
    except OSError:
        import llvmlite

        return str(llvmlite.__version__).encode()


def _machine() -> str:
    if hasattr(os, "uname"):
        return os.uname().machine
    import platform

    return platform.machine()
