"""Linked code in memory that may be executed."""

from __future__ import annotations

import mmap
import os

import numpy as np

from uncork.types import Array


def can_map() -> bool:
    """This system has what `mapped` needs: files in memory that may be executed."""
    return hasattr(os, "memfd_create")


def mapped(code: bytes) -> Array:
    """The code in memory, at the beginning of a page. It stays there as long as the array. Raises OSError where that is forbidden.

    The memory is never writable: it shows a file in memory, which the system gives to the instruction caches as it does libraries.
    """
    file = os.memfd_create("uncork")
    try:
        os.truncate(file, len(code))
        os.pwrite(file, code, 0)
        memory = mmap.mmap(file, len(code), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    finally:
        os.close(file)
    return np.frombuffer(memory, np.uint8)
