"""A program: a table of (kernel, arguments) that one native call walks through.

Arguments are 64-bit words. Most are known when the program is made; an address or a size that only the call knows is patched
in by the native entry itself, from the arrays that the call passes. A program is used by one call at a time.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from uncork.kernels.store import STORE
from uncork.types import Array

#: Where a NumPy array object keeps its data pointer and the pointer to its shape (NumPy's C ABI, on CPython with a GIL).
_DATA, _SHAPE = 16, 32


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an array of the call, plus an offset in bytes."""

    argument: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    """A dimension of an array of the call."""

    argument: int
    axis: int


Word = Union[int, Address, Size]


@dataclass(frozen=True, slots=True)
class Call:
    """One step: the address of a kernel and its arguments."""

    function: int
    words: tuple[Word, ...]


class Program:
    """Steps that run in order. `run(*arrays)` gives -1 when all went well, else the number of the step that refused its values.

    With `release` other Python threads run meanwhile.
    """

    def __init__(self, calls: Sequence[Call], release: bool = False) -> None:
        words: list[int] = []
        starts: list[int] = []
        patches: list[tuple[int, int, int, int]] = []  # argument, 0 address or 1 size, offset or axis, word
        for call in calls:
            starts.append(len(words))
            for word in call.words:
                if isinstance(word, Address):
                    patches.append((word.argument, 0, word.offset, len(words)))
                elif isinstance(word, Size):
                    patches.append((word.argument, 1, word.axis, len(words)))
                words.append(word if isinstance(word, int) else 0)
        steps_at = 8
        patches_at = steps_at + 2 * len(calls)
        words_at = patches_at + 4 * len(patches)
        self._block = block = np.zeros(words_at + len(words) + 1, np.int64)
        base = block.ctypes.data
        block[:steps_at] = len(calls), base + 8 * steps_at, len(patches), base + 8 * patches_at, *_python(), int(release)
        for i, (call, start) in enumerate(zip(calls, starts)):
            block[steps_at + 2 * i :][:2] = call.function, base + 8 * (words_at + start)
        for i, (argument, kind, detail, word_at) in enumerate(patches):
            block[patches_at + 4 * i :][:4] = argument, kind, detail, base + 8 * (words_at + word_at)
        block[words_at : words_at + len(words)] = words
        self._patches = [(a, k, d, words_at + w) for a, k, d, w in patches]
        self._steps = [(call.function, base + 8 * (words_at + start)) for call, start in zip(calls, starts)]
        self.run: Callable[..., int] = _bound(block) if native_entry() else self.run_by_ctypes

    def run_by_ctypes(self, *arrays: Array) -> int:
        """The same without the native entry, for interpreters whose objects it does not know."""
        for argument, kind, detail, word in self._patches:
            self._block[word] = arrays[argument].ctypes.data + detail if kind == 0 else arrays[argument].shape[detail]
        for number, (function, words) in enumerate(self._steps):
            if _prototype()(function)(words):
                return number
        return -1


@functools.lru_cache(maxsize=1)
def _prototype() -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


@functools.lru_cache(maxsize=1)
def _python() -> tuple[int, int, int]:
    """Addresses of the interpreter's functions that the entry calls."""
    names = ("PyLong_FromLongLong", "PyEval_SaveThread", "PyEval_RestoreThread")
    found = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names]
    return found[0], found[1], found[2]


@functools.lru_cache(maxsize=1)
def native_entry() -> bool:
    """Array objects lie in memory as the entry reads them: tried on one, not assumed."""
    probe = np.zeros((2, 3), np.int64)
    try:
        word = ctypes.c_int64.from_address
        return (
            word(id(probe) + _DATA).value == probe.ctypes.data
            and word(word(id(probe) + _SHAPE).value).value == 2
            and ctypes.sizeof(ctypes.c_void_p) == 8
            and ctypes.pythonapi is not None
        )
    except (AttributeError, ValueError):
        return False


class _MethodDefinition(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_METH_FASTCALL = 0x80


@functools.lru_cache(maxsize=1)
def _definition() -> _MethodDefinition:
    return _MethodDefinition(b"run", STORE.function("entry", "1", _emit_entry), _METH_FASTCALL, None)


def _bound(block: Array) -> Callable[..., int]:
    """A built-in function whose `self` is the program's block: a call costs about as much as one of C."""
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., int] = create(ctypes.addressof(_definition()), block, None)
    return function


def _emit_entry() -> str:
    """`PyObject *entry(PyObject *block, PyObject **arrays, Py_ssize_t count)`; the block's layout is `Program.__init__`'s."""
    from uncork.kernels.emit import I64, Kernel

    k = Kernel("entry", ["self", "arrays", "count"], direct=True)
    self_, arrays, _ = k.arguments
    block = k.load(self_ + _DATA, I64)
    steps, step_table, patches, patch_table, to_python, save, restore, release = (k.load(block + 8 * i, I64) for i in range(8))
    with k.loop(0, patches) as i:
        argument, kind, detail, word = (k.load(patch_table + i * 32 + 8 * j, I64) for j in range(4))
        array = k.load(arrays + argument * 8, I64)
        with k.either(kind.equals(0)) as (address, size):
            with address:
                k.store(k.load(array + _DATA, I64) + detail, word)
            with size:
                k.store(k.load(k.load(array + _SHAPE, I64) + detail * 8, I64), word)
    thread = k.variable(k.integer(0))
    with k.when(release.equals(1)):
        thread.set(k.call_address(save, []))
    done, status = k.variable(k.integer(0)), k.variable(k.integer(0))
    with k.during(lambda: (done.get() < steps) & status.get().equals(0)):
        step = step_table + done.get() * 16
        status.set(k.call_address(k.load(step, I64), [k.load(step + 8, I64)]))
        done.set(done.get() + 1)
    with k.when(release.equals(1)):
        k.call_address(restore, [thread.get()])
    result = k.select(status.get().equals(0), k.integer(-1), done.get() - 1)
    k.finish(k.call_address(to_python, [result]))
    return k.text()
