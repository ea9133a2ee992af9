"""The layout of CPython's and NumPy's objects, and addresses of their functions: what the native
entry knows.

All of that is tried on real objects before it is used (`entry_method.native_entry`).
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

#: Where an object keeps its type, and a NumPy array its data pointer, number of dimensions, shape,
#: element type and flags.
TYPE, DATA, RANK, SHAPE, DTYPE, FLAGS = 8, 16, 24, 32, 56, 64
#: Flags of an array in C order, and of one that may be written.
IN_ORDER, WRITEABLE = 0x1, 0x400
#: The place of `empty` in NumPy's table of functions.
_EMPTY = 184


@functools.lru_cache(maxsize=1)
def functions() -> dict[str, int]:
    """Addresses of what the entry calls, by the names in the head of a segment."""
    names = {
        "long": "PyLong_FromLongLong",
        "save": "PyEval_SaveThread",
        "restore": "PyEval_RestoreThread",
        "list": "PyList_New",
        "set_item": "PyList_SetItem",
        "take": "Py_IncRef",
        "drop": "Py_DecRef",
        "occurred": "PyErr_Occurred",
    }
    result = {key: _address(name) for key, name in names.items()}
    table = ctypes.pythonapi.PyCapsule_GetPointer
    table.restype = ctypes.c_void_p
    table.argtypes = [ctypes.py_object, ctypes.c_char_p]
    core = np._core if hasattr(np, "_core") else np.core
    address = table(core.multiarray._ARRAY_API, None)
    result["empty"] = ctypes.c_void_p.from_address(address + 8 * _EMPTY).value or 0
    return result


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@functools.lru_cache(maxsize=1)
def loop_functions() -> tuple[int, ...]:
    """Addresses of what a long loop calls, in the order of `loop_layout.LOOP_FUNCTIONS`."""
    names = (
        "PyGILState_Check",
        "PyEval_SaveThread",
        "PyEval_RestoreThread",
        "PyGILState_Ensure",
        "PyGILState_Release",
        "PyErr_CheckSignals",
        "PyMem_RawRealloc",
        "PyMem_RawFree",
    )
    return tuple(map(_address, names))
