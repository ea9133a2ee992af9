"""The target: what kernels depend on beside their specs, and the versions of everything that makes
them.

LLVM is asked for the CPU once; its answer is kept, by the system's own description of the CPU, so
that a process that finds all its kernels in the store has no need of llvmlite.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import sys
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.runtime.disk_cache import Folder, default_folder

#: Bytes of a source file that are read at a time; nearly all have fewer.
_PART = 1 << 16
#: Lines of /proc/cpuinfo that tell processors apart; others differ from core to core and from
#: moment to moment.
_TELLING = frozenset(
    {"vendor_id", "cpu family", "model", "model name", "stepping", "flags"}
    | {"Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"}
)


class Target(Struct, frozen=True):
    """A processor, as selecting and emitting kernels see it; whoever asks for another one's kernels
    makes it by hand.

    `cpu` and `features` (`+this,-that`) are LLVM's words. `tiles`: AMX may be used, see
    `with_tiles`.
    """

    arch: str
    cpu: str
    features: str
    #: f32 numbers in the widest vector register.
    lanes: int
    tiles: bool = False
    #: The system has a function that lets other threads run, see `release_gil`.
    yields: bool = True

    @staticmethod
    def of(arch: str, cpu: str, features: str, tiles: bool = False, yields: bool = True) -> Target:
        """The target that these features make."""
        names = features.split(",")
        return Target(
            arch,
            cpu,
            features,
            16 if "+avx512f" in names else 8 if "+avx" in names else 4,
            tiles,
            yields,
        )

    @property
    def vector_registers(self) -> int:
        """Registers for vectors: 32 with AVX-512 and on ARM, else 16."""
        return 32 if self.has("avx512f") or self.arch in ("aarch64", "arm64") else 16

    def has(self, feature: str) -> bool:
        """Whether it has a feature, by LLVM's name for it."""
        return f"+{feature}" in self.features.split(",")


@functools.lru_cache(maxsize=1)
def host_target() -> Target:
    """The processor of this machine, without features that a process must ask the system for
    (AMX).
    """
    return Target.of(_machine(), *host(), yields=bool(release_gil()))


def with_tiles(target: Target) -> Target:
    """The same target, with AMX where it multiplies bf16 and the system lets this process use its
    registers: it is asked for here.
    """
    return replace(target, tiles=True) if _has_tiles(target) else target


def _has_tiles(target: Target) -> bool:
    if not (
        target.has("amx-tile")
        and target.has("amx-bf16")
        and sys.platform == "linux"
        and target.arch == "x86_64"
    ):
        return False
    import ctypes

    # https://docs.kernel.org/arch/x86/xstate.html: the state of tiles is large, and only kept for
    # processes that ask for it.
    arch_prctl, request_permission, tile_data = map(ctypes.c_long, (158, 0x1023, 18))
    return int(ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data)) == 0


@functools.lru_cache(maxsize=1)
def release_gil() -> int:
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
    """The CPU's name and features, as LLVM itself tells them."""
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
    """A text that tells apart the versions of the package, of the source of the kernels, of
    llvmlite, the system and the architecture.

    The version stands for the source where only compiled files are installed.
    """
    from uncork._version import __version__

    digest = hashlib.sha256(__version__.encode())
    digest.update(digest_of_sources(Path(__file__).parent.parent))
    digest.update(_stated_version() or b"")
    return f"{digest.hexdigest()} {sys.platform} {_machine()}"


def digest_of_sources(folder: Path) -> bytes:
    """A digest that changes with every Python file of a folder and of those in it."""
    found: list[str] = []
    folders = [str(folder)]
    for within in folders:
        with os.scandir(within) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found.append(entry.path)
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    digest, prefix = hashlib.sha256(), len(str(folder)) + 1
    for path in sorted(found):  # every process does this: no objects for paths and files
        content = _content(path)
        name = path[prefix:].replace(os.sep, "/")
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.digest()


def _content(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return b"".join(iter(lambda: os.read(handle, _PART), b""))
    finally:
        os.close(handle)


def llvmlite_version() -> str | None:
    """The version of the installed llvmlite; None without one, empty when it does not say."""
    stated = _stated_version()
    found = re.search(rb"""version['"]?\s*[:=]\s*['"]([^'"]+)""", stated or b"")
    return None if stated is None else found.group(1).decode(errors="replace") if found else ""


@functools.lru_cache(maxsize=1)
def _stated_version() -> bytes | None:
    """llvmlite's version as its file states it, which is faster than importing it."""
    found = importlib.util.find_spec("llvmlite")
    if found is None:
        return None
    try:
        return (Path(found.origin or "").parent / "_version.py").read_bytes()
    except OSError:
        import llvmlite

        return f"version='{llvmlite.__version__}'".encode()


def _machine() -> str:
    if hasattr(os, "uname"):
        return os.uname().machine
    import platform

    return platform.machine()
