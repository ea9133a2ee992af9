"""The native entry of programs: one function of CPython's calling convention that looks at its arguments and walks the steps.

It knows how CPython and NumPy lay out their objects and calls a few of their functions by address. All of that is tried on real
objects before it is used (`native_entry`); an interpreter that differs, such as one without a GIL, takes the way through ctypes.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from uncork.concurrency import once
from uncork.errors import warn_once
from uncork.kernels.runtime.kernel_cache import STORE, CannotCompile
from uncork.types import Array

#: Where an object keeps its type, and a NumPy array its data pointer, number of dimensions, shape, element type and flags.
TYPE, DATA, RANK, SHAPE, DTYPE, FLAGS = 8, 16, 24, 32, 56, 64
#: Flags of an array in C order, and of one that may be written.
IN_ORDER, WRITEABLE = 0x1, 0x400
#: What an entry gives when all went well; when the arguments are not as the program was told, and when another thread is in the
#: program: then nothing was run. Numbers from 0 are those of steps that refused their values.
WELL, OTHERS, BUSY = -1, -2, -3

#: The words at the beginning of a program's block, in order. Tables are given by number of entries and address.
HEAD = (
    "steps", "step_table", "patches", "patch_table", "likes", "like_table", "results", "result_table", "release", "busy", "array_type",
    "long", "save", "restore", "list", "set_item", "take", "drop", "empty",
)  # fmt: skip
#: Words of an entry of each table: (kernel, arguments); (argument, 0 address or 1 size, offset or axis, the word's address);
#: (element type, dimensions or -1, flags, sizes, array of the same first size or -1); (element type, dimensions, sizes).
STEP, PATCH, LIKE, RESULT = 2, 4, 5, 3
#: The place of `empty` in NumPy's table of functions.
_EMPTY = 184


@functools.lru_cache(maxsize=1)
def functions() -> dict[str, int]:
    """Addresses of what the entry calls, by the names in HEAD."""
    names = {
        "long": "PyLong_FromLongLong",
        "save": "PyEval_SaveThread",
        "restore": "PyEval_RestoreThread",
        "list": "PyList_New",
        "set_item": "PyList_SetItem",
        "take": "Py_IncRef",
        "drop": "Py_DecRef",
    }
    found = {key: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for key, name in names.items()}
    table = ctypes.pythonapi.PyCapsule_GetPointer
    table.restype = ctypes.c_void_p
    table.argtypes = [ctypes.py_object, ctypes.c_char_p]
    core = np._core if hasattr(np, "_core") else np.core
    address = table(core.multiarray._ARRAY_API, None)
    found["empty"] = ctypes.c_void_p.from_address(address + 8 * _EMPTY).value or 0
    return found


@functools.lru_cache(maxsize=1)
def native_entry() -> bool:
    """Objects lie in memory as the entry reads them, and NumPy makes arrays as it asks: tried, not assumed."""
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
        _definition()
        empty = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(functions()["empty"])
        sizes, dtype = np.array([4, 1, 3]), np.dtype(np.float32)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # which the array takes over
        made = empty(3, sizes.ctypes.data, id(dtype), 0)
        return type(made) is np.ndarray and made.shape == (4, 1, 3) and made.dtype is dtype and bool(made.flags.c_contiguous)
    except (AttributeError, ValueError):
        return False
    except CannotCompile as error:
        warn_once("compile", f"{error}; calls go through ctypes, which takes microseconds longer: please report it")
        return False


class _MethodDefinition(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_METH_FASTCALL = 0x80


@once
def _definition() -> _MethodDefinition:
    """The one method table of all programs: their functions keep its address, and Python never copies it."""
    return _MethodDefinition(b"run", STORE.function("entry", "3", _emit), _METH_FASTCALL, None)


def bound(block: Array) -> Callable[..., Any]:
    """A built-in function whose `self` is a program's block: a call costs about as much as one of C."""
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., Any] = create(ctypes.addressof(_definition()), block, None)
    return function


def _emit() -> str:
    """`PyObject *entry(PyObject *block, PyObject **arguments, Py_ssize_t count)`."""
    from uncork.kernels.codegen.emit import I32, I64, Kernel, Value

    k = Kernel("entry", ["self", "arguments", "count"], direct=True)
    self_, arguments, count = k.arguments
    block = k.load(self_ + DATA, I64)
    head = {name: k.load(block + 8 * i, I64) for i, name in enumerate(HEAD)}
    results = head["results"]
    made = k.variable(k.integer(0))  # the list of results

    def entry(table: str, number: Value, words: int) -> list[Value]:
        return [k.load(head[table] + number * (8 * words) + 8 * word, I64) for word in range(words)]

    def number(value: int | Value) -> Value:
        return k.call_address(head["long"], [k.integer(value) if isinstance(value, int) else value])

    def need(condition: Value) -> None:
        with k.if_(condition.equals(0), likely=False):
            k.return_(number(OTHERS))

    def give_up(what: Value) -> None:
        with k.if_(results > 0):
            k.call_address(head["drop"], [made.get()])
        k.return_(what)

    # The arguments are what the program was told.
    need(head["likes"].equals(0) | head["likes"].equals(count))
    with k.loop(0, head["likes"]) as i:
        argument = k.load(arguments + i * 8, I64)
        kind, rank, flags, sizes, same = entry("like_table", i, LIKE)
        with k.if_else(rank >= 0) as (array, object_):
            with object_:
                need(argument.equals(kind))
            with array:
                need(k.load(argument + TYPE, I64).equals(head["array_type"]))
                need(k.load(argument + DTYPE, I64).equals(kind))
                need((k.load(argument + FLAGS, I32).to(I64) & flags).equals(flags))
                need(k.load(argument + RANK, I32).to(I64).equals(rank))
                shape = k.load(argument + SHAPE, I64)
                with k.loop(0, rank) as axis:
                    size = k.load(sizes + axis * 8, I64)
                    need(size.equals(-1) | size.equals(k.load(shape + axis * 8, I64)))
                with k.if_(same >= 0):  # an array before this one, so it has been looked at
                    other = k.load(k.load(arguments + same * 8, I64) + SHAPE, I64)
                    need(k.load(shape, I64).equals(k.load(other, I64)))

    # New arrays for the results. Making objects may run other code of the program's, so nothing is kept in the block yet.
    with k.if_(results > 0):
        made.set(k.call_address(head["list"], [results]))
        with k.if_(made.get().equals(0), likely=False):
            k.return_(k.integer(0))
    with k.loop(0, results) as i:
        dtype, rank, sizes = entry("result_table", i, RESULT)
        k.call_address(head["take"], [dtype])
        array = k.call_address(head["empty"], [rank, sizes, dtype, k.integer(0)])
        with k.if_(array.equals(0), likely=False):
            give_up(k.integer(0))
        k.call_address(head["set_item"], [made.get(), i, array])

    with k.if_(head["release"].equals(1)):
        with k.if_(k.load(block + 8 * HEAD.index("busy"), I64).equals(1), likely=False):
            give_up(number(BUSY))
        k.store(k.integer(1), block + 8 * HEAD.index("busy"))
    items = k.variable(k.integer(0))
    with k.if_(results > 0):
        items.set(k.load(made.get() + _ITEMS, I64))
    with k.loop(0, head["patches"]) as i:
        position, kind, detail, word = entry("patch_table", i, PATCH)
        own = position < count
        place = k.select(own, arguments, items.get()) + k.select(own, position, position - count) * 8
        array = k.load(place, I64)
        with k.if_else(kind.equals(0)) as (address, size):
            with address:
                k.store(k.load(array + DATA, I64) + detail, word)
            with size:
                k.store(k.load(k.load(array + SHAPE, I64) + detail * 8, I64), word)
    thread = k.variable(k.integer(0))
    with k.if_(head["release"].equals(1)):
        thread.set(k.call_address(head["save"], []))
    done, status = k.variable(k.integer(0)), k.variable(k.integer(0))
    with k.while_(lambda: (done.get() < head["steps"]) & status.get().equals(0)):
        function, words = entry("step_table", done.get(), STEP)
        status.set(k.call_address(function, [words]))
        done.set(done.get() + 1)
    with k.if_(head["release"].equals(1)):
        k.call_address(head["restore"], [thread.get()])
        k.store(k.integer(0), block + 8 * HEAD.index("busy"))
    with k.if_(status.get().equals(0).equals(0), likely=False):
        give_up(number(done.get() - 1))
    with k.if_(results > 0):
        k.return_(made.get())
    k.finish(number(WELL))
    return k.text()


#: Where a list keeps the address of its items.
_ITEMS = 24
