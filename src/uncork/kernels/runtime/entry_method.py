"""The method table of native calls: built-in functions of Python over native segments.

An interpreter that differs, such as one without a GIL, goes through ctypes.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from uncork.kernels.runtime.cpython_entry import (
    DATA,
    DTYPE,
    FLAGS,
    IN_ORDER,
    RANK,
    SHAPE,
    TYPE,
    WRITEABLE,
    functions,
)
from uncork.types import Array


@functools.lru_cache(maxsize=1)
def lays_out_as_expected() -> bool:
    """Whether objects lie in memory as the native entry reads them, and NumPy makes arrays as it
    asks.
    """
    probe = np.zeros((2, 3), np.int64)
    word = ctypes.c_int64.from_address
    try:
        laid_out = (
            ctypes.sizeof(ctypes.c_void_p) == 8
            and word(id(probe) + TYPE).value == id(np.ndarray)
            and word(id(probe) + DATA).value == probe.ctypes.data
            and word(id(probe) + RANK).value & 0xFFFFFFFF == 2
            and word(word(id(probe) + SHAPE).value).value == 2
            and word(id(probe) + DTYPE).value == id(probe.dtype)
            and word(id(probe) + FLAGS).value & (IN_ORDER | WRITEABLE) == IN_ORDER | WRITEABLE
            and word(id(probe.T) + FLAGS).value & IN_ORDER == 0
        )
        if not laid_out:
            return False
        empty = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int
        )(functions()["empty"])
        sizes, dtype = np.array([4, 1, 3]), np.dtype(np.float32)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # which the array takes over
        made = empty(3, sizes.ctypes.data, id(dtype), 0)
        return (
            type(made) is np.ndarray
            and made.shape == (4, 1, 3)
            and made.dtype is dtype
            and bool(made.flags.c_contiguous)
        )
    except (AttributeError, ValueError):
        return False


class MethodDefinition(ctypes.Structure):
    """The method table of segments that are entered by one function. Their functions keep its
    address, and Python never copies it.
    """

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )

    @classmethod
    def of(cls, entry: int) -> MethodDefinition:
        """The table for the native entry at an address."""
        return cls(b"run", entry, _METH_FASTCALL, None)


_METH_FASTCALL = 0x80


def bound_to(definition: MethodDefinition, block: Array) -> Callable[..., Any]:
    """A built-in function whose `self` is a segment's block, by the entry of a table, which must
    live as long as the process.
    """
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., Any] = create(ctypes.addressof(definition), block, None)
    return function
