"""Linked code in memory that may be executed."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from typing import Any

import numpy as np

from uncork.types import Array


def can_map() -> bool:
    """Whether this system has what `mapped` needs: files in memory that may be executed."""
    return hasattr(os, "memfd_create")


def mapped(code: bytes) -> Array:
    """The code in memory, at the beginning of a page, for as long as the process lives. Raises
    OSError where that is forbidden.

    The memory is never writable: it shows a file in memory, which the system gives to the
    instruction caches as it does libraries.
    """
    file = os.memfd_create("uncork")
    try:
        os.truncate(file, len(code))
        os.pwrite(file, code, 0)
        # Python's own `mmap` keeps a file descriptor for each mapping, and a process has few of
        # them.
        address = _mmap()(
            None, len(code), mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file, 0
        )
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "memory that may be executed is forbidden here")
    finally:
        os.close(file)
    return np.frombuffer(memoryview((ctypes.c_ubyte * len(code)).from_address(address)), np.uint8)


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
