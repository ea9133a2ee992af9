"""The layout of CPython's and NumPy's objects, and addresses of their functions: what the native
entry knows.

All of that is tried on real objects before it is used (`entries.native_entry`).
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from uncork.kernels.runtime.addresses import symbol

#: Where an object keeps its type, and a NumPy array its data pointer, number of dimensions, shape,
#: element type and flags.
TYPE, DATA, RANK, SHAPE, DTYPE, FLAGS = 8, 16, 24, 32, 56, 64
#: Flags of an array in C order, and of one that may be written.
IN_ORDER, WRITEABLE = 0x1, 0x400
#: The place of `empty` in NumPy's table of functions.
_EMPTY = 184


#: What the entry calls, by the names in the head of a segment.
FUNCTIONS = {
    "long": "PyLong_FromLongLong",
    "save": "PyEval_SaveThread",
    "restore": "PyEval_RestoreThread",
    "list": "PyList_New",
    "set_item": "PyList_SetItem",
    "take": "Py_IncRef",
    "drop": "Py_DecRef",
    "occurred": "PyErr_Occurred",
    "call": "PyObject_VectorcallDict",
    "empty": "PyArray_Empty",
}
#: What a long loop calls, in the order of `loop_layout.LOOP_FUNCTIONS`.
_LOOP_FUNCTIONS = (
    "PyGILState_Check",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyErr_CheckSignals",
    "PyMem_RawRealloc",
    "PyMem_RawFree",
)


def functions() -> dict[str, int]:
    """Addresses of what the entry calls, by the names in the head of a segment."""
    return {key: python_function(name) for key, name in FUNCTIONS.items()}


def loop_functions() -> tuple[int, ...]:
    """Addresses of what a long loop calls, in the order of `loop_layout.LOOP_FUNCTIONS`."""
    return tuple(map(python_function, _LOOP_FUNCTIONS))


def python_function(name: str) -> int:
    """The address of a function of Python, or of NumPy's `PyArray_Empty`."""
    return symbol(name, lambda: _address(name))


@functools.cache
def _address(name: str) -> int:
    if name != "PyArray_Empty":
        return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    table = ctypes.pythonapi.PyCapsule_GetPointer
    table.restype = ctypes.c_void_p
    table.argtypes = [ctypes.py_object, ctypes.c_char_p]
    core = np._core if hasattr(np, "_core") else np.core
    address = table(core.multiarray._ARRAY_API, None)
    return ctypes.c_void_p.from_address(address + 8 * _EMPTY).value or 0
