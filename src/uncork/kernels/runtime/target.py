"""The target: what kernels depend on beside their specs, and the versions of everything that makes
them.

Targets have names. A level is a set of features that many processors have: kernels that are made
for it run on all of them, so that they can be made elsewhere. "native" is this very processor as
LLVM knows it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from uncork.errors import UnsupportedError, ValidationError
from uncork.kernels.runtime import processor

#: Bytes of a source file that are read at a time; nearly all have fewer.
_PART = 1 << 16
#: Bytes of a line of the caches.
LINE = 64
NATIVE = "native"
#: The first version that has what `llvm` asks for. It stands in pyproject.toml, too.
OLDEST_LLVMLITE = (0, 44)


class Target(Struct, frozen=True):
    """A processor and its system, as selecting and emitting kernels see them; whoever asks for
    another one's kernels takes it from `LEVELS` or makes it by hand.

    `cpu` and `features` (`+this,-that`) are LLVM's words. `tiles`: AMX may be used. `system` is
    "posix" or "windows", whose functions take their arguments in other registers.
    """

    arch: str
    cpu: str
    features: str
    #: f32 numbers in the widest vector register.
    lanes: int
    tiles: bool = False
    system: str = "posix"

    @staticmethod
    def of(
        arch: str, cpu: str, features: str, tiles: bool = False, system: str = "posix"
    ) -> Target:
        """The target that these features make."""
        names = features.split(",")
        return Target(
            arch,
            cpu,
            features,
            16 if "+avx512f" in names else 8 if "+avx" in names else 4,
            tiles,
            system,
        )

    @property
    def vector_registers(self) -> int:
        """Registers for vectors: 32 with AVX-512 and on ARM, else 16."""
        return 32 if self.has("avx512f") or self.arch == "aarch64" else 16

    @property
    def yields(self) -> bool:
        """Whether the system has a function that lets other threads run, see `release_gil`."""
        return self.system == "posix"

    def has(self, feature: str) -> bool:
        """Whether it has a feature, by LLVM's name for it."""
        return f"+{feature}" in self.features.split(",")

    @property
    def needs(self) -> frozenset[str]:
        """The features that a processor must have to run its kernels: x18 is left alone, as macOS
        and Windows want it, by any.
        """
        words = frozenset(word[1:] for word in self.features.split(",") if word[:1] == "+")
        return words - {"reserve-x18"}


# The features of levels, each in full: selecting and emitting ask for them by name.
_X86_64 = "+cmov,+cx8,+fxsr,+mmx,+sse,+sse2"
_V2 = f"{_X86_64},+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2,+crc32"
_V3 = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
# Full vectors: these kernels are wide enough to pay for the clock.
_V4 = f"{_V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,-prefer-256-bit"
_BF16 = f"{_V4},+avx512vnni,+avx512bf16"
_TILES = "+amx-tile,+amx-bf16,+amx-int8"
_ARM = "+fp-armv8,+neon,+reserve-x18"


def _levels() -> dict[str, Target]:
    def x86_64(cpu: str, features: str, tiles: bool = False) -> Target:
        return Target.of("x86_64", cpu, features, tiles)

    posix = {
        "x86-64-v4-amx": x86_64("x86-64-v4", f"{_BF16},{_TILES}", tiles=True),
        "x86-64-v4-bf16": x86_64("x86-64-v4", _BF16),
        "x86-64-v4-vnni": x86_64("x86-64-v4", f"{_V4},+avx512vnni"),
        "x86-64-v4": x86_64("x86-64-v4", _V4),
        "x86-64-v3-avxvnni": x86_64("x86-64-v3", f"{_V3},+avxvnni"),
        "x86-64-v3": x86_64("x86-64-v3", _V3),
        "x86-64-v2": x86_64("x86-64-v2", _V2),
        "x86-64": x86_64("x86-64", _X86_64),
        "aarch64-dotprod": Target.of("aarch64", "generic", f"{_ARM},+dotprod,+lse,+rdm"),
        "aarch64": Target.of("aarch64", "generic", _ARM),
    }
    windows = {f"{name}-windows": replace(t, system="windows") for name, t in posix.items()}
    wasm = {"wasm32": Target.of("wasm32", "generic", "+simd128,+bulk-memory")}
    return posix | windows | wasm


#: The levels, by their names: of one architecture and system, those with more features first.
LEVELS = _levels()
_NAMES = {target: name for name, target in LEVELS.items()}


def level_of(target: Target) -> str | None:
    """The name of a level; None for another target."""
    return _NAMES.get(target)


def lacking(target: Target) -> str:
    """What this machine lacks to run the kernels of a target, in words; empty when it runs them."""
    system = "windows" if os.name == "nt" else "posix"
    if (target.arch, target.system) != (processor.machine(), system):
        return f"{target.arch} with functions as on {target.system}"
    missing = ", ".join(sorted(target.needs - processor.features()))
    return missing or ("AMX" if target.tiles and not processor.may_use_tiles() else "")


def levels_here(tiles: bool = False) -> Iterator[Target]:
    """The levels that this machine runs, those with more features first."""
    for target in LEVELS.values():
        if (tiles or not target.tiles) and not lacking(target):
            yield target


@functools.lru_cache(maxsize=2)
def host_target(tiles: bool = False) -> Target:
    """The largest level that this machine runs, with AMX only where `tiles` are asked for; a target
    without features where it runs none.
    """
    for target in levels_here(tiles):
        return target
    return Target.of(
        processor.machine(), "generic", "", system="windows" if os.name == "nt" else "posix"
    )


@functools.lru_cache(maxsize=2)
def native_target(tiles: bool) -> Target:
    """This very processor, as LLVM knows it."""
    from uncork.kernels.runtime.llvm import host

    return Target.of(
        processor.machine(),
        *host(),
        tiles and processor.may_use_tiles(),
        "windows" if os.name == "nt" else "posix",
    )


def target_named(name: str, tiles: bool = False) -> Target:
    """The target of a name, which this machine need not run. Raises ValidationError for another
    name.
    """
    if name == NATIVE:
        return native_target(tiles)
    if name not in LEVELS:
        known = ", ".join(repr(known) for known in (NATIVE, *LEVELS))
        raise ValidationError(f"target: expected one of {known}, got {name!r}")
    return LEVELS[name]


def target_here(name: str | None, tiles: bool = False) -> Target:
    """The target of a name, or the host's level. Raises UnsupportedError where this machine does
    not run its kernels.
    """
    if name is None:
        return host_target(tiles)
    target = target_named(name, tiles)
    if name != NATIVE and (missing := lacking(target)):
        raise UnsupportedError(
            f"target {name!r} needs {missing}, which this machine has not: its own level is "
            f"{level_of(host_target(tiles))!r}"
        )
    return target


@functools.lru_cache(maxsize=1)
def release_gil() -> int:
    """The address of the system's function that lets other threads run; 0 where there is none."""
    if os.name != "posix":
        return 0
    import ctypes

    return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0


@functools.lru_cache(maxsize=1)
def digest_of_kernels() -> bytes:
    """A digest of the package's version and of the source of the kernels.

    The version stands for the source where only compiled files are installed.
    """
    from uncork._version import __version__

    sources = digest_of_sources(os.path.dirname(os.path.dirname(__file__)))
    return hashlib.sha256(__version__.encode() + sources).digest()


@functools.lru_cache(maxsize=1)
def versions() -> str:
    """A text that tells apart the versions of the package, of the source of the kernels, of
    llvmlite, the system and the architecture.
    """
    digest = hashlib.sha256(digest_of_kernels() + (_stated_version() or b""))
    return f"{digest.hexdigest()} {sys.platform} {processor.machine()}"


def digest_of_sources(folder: str | os.PathLike[str]) -> bytes:
    """A digest that changes with every Python file of a folder and of those in it."""
    found: list[str] = []
    folders = [os.fspath(folder)]
    for within in folders:
        with os.scandir(within) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found.append(entry.path)
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    digest, prefix = hashlib.sha256(), len(folders[0]) + 1
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


@functools.lru_cache(maxsize=1)
def no_compiler() -> str:
    """Why kernels cannot be compiled here; empty where they can be, as far as is known before
    llvmlite is imported.
    """
    try:
        version = llvmlite_version()
    except (ImportError, OSError, RuntimeError) as error:
        return f"llvmlite cannot be imported: {error}"
    if version is None:
        return "llvmlite is not installed"
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers and tuple(map(int, numbers.groups())) < OLDEST_LLVMLITE:
        return f"llvmlite {version} is too old, {'.'.join(map(str, OLDEST_LLVMLITE))} is needed"
    return ""


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
        return _content(os.path.join(os.path.dirname(found.origin or ""), "_version.py"))
    except OSError:
        import llvmlite

        return f"version='{llvmlite.__version__}'".encode()
