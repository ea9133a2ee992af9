"""Linked code in memory that may be executed, and is never writable at the same time.

Linux shows a file in memory, which it gives to the instruction caches as it does libraries. Other
systems get pages that are written first and made executable then.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from typing import Any

import numpy as np

from uncork.types import Array

#: What functions of POSIX give in place of an address.
_FAILED = ctypes.c_void_p(-1).value
#: Numbers of Windows: reserve and commit, pages that are read and written, read and executed.
_TAKE, _READ_WRITE, _READ_EXECUTE = 0x3000, 0x04, 0x20
_READ_ONLY_CODE = 0x5  # PROT_READ | PROT_EXEC, which Python's mmap has not on Windows


def mapped(code: bytes) -> Array:
    """The code in memory, at the beginning of a page, for as long as the process lives. Raises
    OSError where that is forbidden.
    """
    if os.name == "nt":
        return _seen(_by_windows(code), len(code))
    if not hasattr(os, "memfd_create"):
        return _seen(_by_pages(code), len(code))
    file = os.memfd_create("uncork")
    try:
        os.truncate(file, len(code))
        os.pwrite(file, code, 0)
        return mapped_file(file, 0, len(code))
    finally:
        os.close(file)


def mapped_file(file: int, at: int, size: int) -> Array:
    """A part of a file as code, which processes share: from the beginning of a page on. Raises
    OSError where that is forbidden.
    """
    # Python's own `mmap` keeps a file descriptor for each mapping, and a process has few of them.
    return _seen(_mmap()(None, size, _READ_ONLY_CODE, mmap.MAP_PRIVATE, file, at), size)


def shows_files() -> bool:
    """Whether files may be executed where they lie: elsewhere systems want them signed."""
    return sys.platform == "linux"


def _seen(address: int | None, size: int) -> Array:
    """The bytes at an address, which is none where the system refused."""
    if address in (None, 0, _FAILED):
        raise OSError(ctypes.get_errno(), "memory that may be executed is forbidden here")
    return np.frombuffer(memoryview((ctypes.c_ubyte * size).from_address(address)), np.uint8)


def _by_pages(code: bytes) -> int | None:
    """Pages that are written, and then made executable. ARM has caches of instructions that must be
    told, for which only macOS has a function in its library.
    """
    system = ctypes.CDLL(None, use_errno=True)
    told = getattr(system, "sys_icache_invalidate", None)
    if told is None and os.uname().machine not in ("x86_64", "amd64", "i386", "i686"):
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address: int | None = _mmap()(None, len(code), mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if address in (None, _FAILED):
        return None
    ctypes.memmove(address, code, len(code))
    if system.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(len(code)), _READ_ONLY_CODE):
        return None
    if told is not None:
        told(ctypes.c_void_p(address), ctypes.c_size_t(len(code)))
    return address


def _by_windows(code: bytes) -> int | None:
    system, size = ctypes.windll.kernel32, ctypes.c_size_t(len(code))  # type: ignore[attr-defined]
    system.VirtualAlloc.restype = ctypes.c_void_p
    address: int | None = system.VirtualAlloc(None, size, _TAKE, _READ_WRITE)
    if not address:
        return None
    ctypes.memmove(address, code, len(code))
    before = ctypes.c_ulong()
    if not system.VirtualProtect(
        ctypes.c_void_p(address), size, _READ_EXECUTE, ctypes.byref(before)
    ):
        return None
    system.GetCurrentProcess.restype = ctypes.c_void_p
    process = ctypes.c_void_p(system.GetCurrentProcess())
    system.FlushInstructionCache(process, ctypes.c_void_p(address), size)
    return address


@functools.lru_cache(maxsize=1)
def _mmap() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    return function
