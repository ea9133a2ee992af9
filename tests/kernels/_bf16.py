"""Instructions on bf16 in this process: AVX512-BF16 and the tiles of AMX, natively where the
processor has them, by the emulator (`emulator/`) elsewhere.

Only for processes that a test starts: a handler of SIGILL has no place in pytest's own, and what it
refuses ends the process.

    bf16.enable()   # first, in the child
    ...             # then whatever runs such instructions
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_SOURCES = sorted(Path(__file__).with_name("emulator").glob("*.c"))
#: The kinds of instructions that the emulator counts, in its order.
TILES = (
    "LDTILECFG",
    "TILERELEASE",
    "TILEZERO",
    "TILELOADD",
    "TILESTORED",
    "TDPBF16PS",
    "TDPBUSD",
    "TDPBSUD",
)
VECTORS = ("VDPBF16PS", "VCVTNEPS2BF16", "VCVTNE2PS2BF16")
KINDS = (*TILES, *VECTORS)
# asm/prctl.h and asm/unistd_64.h: Linux gives tile registers to processes that ask for them.
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18


def native_tiles() -> bool:
    """The processor has AMX, with products of bf16 and of bytes."""
    return {"amx_tile", "amx_bf16", "amx_int8"} <= _flags()


def native_vectors() -> bool:
    """The processor has AVX512-BF16."""
    return "avx512_bf16" in _flags()


def tiles_unavailable() -> str | None:
    """Why instructions on tiles cannot be run here, or None."""
    if not _suits():
        return "tile instructions need x86-64 Linux"
    return None if native_tiles() else _lacking({"avx2", "fma"}, "AVX2 and FMA")


def vectors_unavailable() -> str | None:
    """Why instructions on vectors of bf16 cannot be run here, or None."""
    if not _suits():
        return "AVX512-BF16 is emulated on x86-64 Linux only"
    if native_vectors():
        return None
    return _lacking({"avx512f", "avx512bw", "avx512dq", "avx512vl"}, "AVX-512")


def kernels_unavailable() -> str | None:
    """Why uncork's kernels on bf16, with tiles or without, cannot be run here, or None."""
    if reason := vectors_unavailable():
        return reason
    return None if "avx512_vnni" in _flags() else "their level needs AVX-512 VNNI"


def _suits() -> bool:
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and ctypes.sizeof(ctypes.c_void_p) == 8
    )


def _lacking(flags: set[str], words: str) -> str | None:
    """What the emulator lacks here, or None."""
    if not flags <= _flags():
        return f"the emulator needs a processor with {words}"
    if compiler() is None:
        return "the emulator needs a C compiler (cc, gcc or clang)"
    return None


class Emulator:
    """The emulator as it runs in this process."""

    def __init__(self, library: ctypes.CDLL) -> None:
        library.emulator_count.restype = ctypes.c_long
        self._library = library

    def counts(self) -> dict[str, int]:
        """How many instructions of each of KINDS were executed so far, by all threads. Those that
        the processor has are not among them.
        """
        return {kind: self._library.emulator_count(number) for number, kind in enumerate(KINDS)}


def enable(folder: Path | None = None) -> Emulator | None:
    """Let this process run instructions on bf16. Returns the emulator, or None where the processor
    itself runs them all.

    `folder` keeps the built emulator for further processes. Raises RuntimeError, with what to do,
    where neither works.
    """
    if native_tiles():
        if ctypes.CDLL(None, use_errno=True).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA):
            raise RuntimeError(
                f"Linux does not let this process use AMX: {os.strerror(ctypes.get_errno())}; it "
                "needs Linux 5.16"
            )
        return None
    with tempfile.TemporaryDirectory() as scratch:
        library = ctypes.CDLL(str(built("emulator", _SOURCES, folder or Path(scratch))))
    if number := library.emulator_install():
        raise RuntimeError(f"the emulator cannot handle SIGILL: {os.strerror(number)}")
    return Emulator(library)


def enable_kernels(folder: Path | None = None, tiles: bool = False) -> Emulator | None:
    """`enable`, and uncork takes this processor for one with AVX512-BF16, and AMX where `tiles`:
    `host_target(tiles)` is their level. Before it asks for the first time.
    """
    from uncork.kernels.runtime import processor

    emulator = enable(folder)
    if emulator is not None:
        more = {"avx512bf16"} | ({"amx-tile", "amx-bf16", "amx-int8"} if tiles else set())
        told = processor.features() | more
        processor.features = lambda: told
        processor.may_use_tiles = lambda: tiles
    return emulator


def built(name: str, sources: Sequence[Path], folder: Path) -> Path:
    """The shared library of C files, in a folder; made when it is not there. Raises RuntimeError
    with the compiler's words.
    """
    library = folder / f"{name}.so"
    program = compiler()
    if library.exists():
        return library
    if program is None:
        raise RuntimeError("no C compiler: install cc, gcc or clang")
    # Renamed when it is whole: processes may build at once.
    made = folder / f"{name}.{os.getpid()}.tmp"
    options = ["-std=gnu11", "-O3", "-Wall", "-fPIC", "-shared", "-pthread", "-o", str(made)]
    command = [program, *options, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    made.rename(library)
    return library


def compiler() -> str | None:
    """The path of the machine's C compiler."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


def _flags() -> set[str]:
    """The processor's features, as Linux names them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return next(
        (set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set()
    )
