"""AMX instructions in this process: natively where the processor has them, by `amx_emulator.c`
elsewhere.

Only for processes that a test starts: a handler of SIGILL has no place in pytest's own, and what it
refuses ends the process.

    amx.enable()    # first, in the child
    ...             # then whatever runs tile instructions
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).with_name("amx_emulator.c")
#: The kinds of instructions that the emulator counts, in its order.
KINDS = ("LDTILECFG", "TILERELEASE", "TILEZERO", "TILELOADD", "TILESTORED", "TDPBF16PS")
# asm/prctl.h and asm/unistd_64.h: Linux gives tile registers to processes that ask for them.
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18


def native() -> bool:
    """The processor has AMX, with products of bf16."""
    return {"amx_tile", "amx_bf16"} <= _flags()


def unavailable() -> str | None:
    """Why tile instructions cannot be run here, or None."""
    if (
        sys.platform != "linux"
        or platform.machine() != "x86_64"
        or ctypes.sizeof(ctypes.c_void_p) != 8
    ):
        return "tile instructions need x86-64 Linux"
    if native():
        return None
    if not {"avx2", "fma"} <= _flags():
        return "the AMX emulator needs a processor with AVX2 and FMA"
    if compiler() is None:
        return "the AMX emulator needs a C compiler (cc, gcc or clang)"
    return None


class Emulator:
    """The emulator as it runs in this process."""

    def __init__(self, library: ctypes.CDLL) -> None:
        library.amx_emulator_count.restype = ctypes.c_long
        self._library = library

    def counts(self) -> dict[str, int]:
        """How many instructions of each of KINDS were executed so far, by all threads."""
        return {kind: self._library.amx_emulator_count(number) for number, kind in enumerate(KINDS)}


def enable(folder: Path | None = None) -> Emulator | None:
    """Let this process run tile instructions. Returns the emulator, or None where the processor
    itself runs them.

    `folder` keeps the built emulator for further processes. Raises RuntimeError, with what to do,
    where neither works.
    """
    if native():
        if ctypes.CDLL(None, use_errno=True).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA):
            raise RuntimeError(
                f"Linux does not let this process use AMX: {os.strerror(ctypes.get_errno())}; it "
                "needs Linux 5.16"
            )
        return None
    with tempfile.TemporaryDirectory() as scratch:
        library = ctypes.CDLL(str(built(_SOURCE, folder or Path(scratch))))
    if number := library.amx_emulator_install():
        raise RuntimeError(f"the AMX emulator cannot handle SIGILL: {os.strerror(number)}")
    return Emulator(library)


def built(source: Path, folder: Path) -> Path:
    """The shared library of a C file, in a folder; made when it is not there. Raises RuntimeError
    with the compiler's words.
    """
    library = folder / f"{source.stem}.so"
    program = compiler()
    if library.exists():
        return library
    if program is None:
        raise RuntimeError("no C compiler: install cc, gcc or clang")
    # Renamed when it is whole: processes may build at once.
    made = folder / f"{source.stem}.{os.getpid()}.tmp"
    command = [
        program,
        "-std=gnu11",
        "-O3",
        "-Wall",
        "-fPIC",
        "-shared",
        "-pthread",
        "-o",
        str(made),
        str(source),
    ]
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
