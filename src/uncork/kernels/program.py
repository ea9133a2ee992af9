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

#: Where an object keeps its type, and a NumPy array its data pointer, number of dimensions, shape, element type and flags
#: (CPython's and NumPy's C ABI, with a GIL).
_TYPE, _DATA, _RANK, _SHAPE, _DTYPE, _FLAGS = 8, 16, 24, 32, 56, 64
#: Flags of an array in C order, of one that may be written, and of both.
_IN_ORDER, _WRITEABLE = 0x1, 0x400
#: What `run` gives when all went well, and when the arrays are not as the program was told: then nothing was run.
WELL, OTHERS = -1, -2


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
class Like:
    """What an array of the call must be: exactly of this type, in C order, of these sizes. None is any size.

    `same` is the number of another array whose first dimension this one's must equal; `written`: it is written to.
    """

    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    same: int | None = None
    written: bool = False

    def fits(self, array: Any, arrays: Sequence[Any]) -> bool:
        """One of the `arrays` is as it must be; the native entry looks in the same way."""
        if type(array) is not np.ndarray or array.dtype is not self.dtype or array.ndim != len(self.shape):
            return False
        if not array.flags.c_contiguous or (self.written and not array.flags.writeable):
            return False
        if self.same is not None and array.shape[0] != arrays[self.same].shape[0]:
            return False
        return all(want is None or want == got for want, got in zip(self.shape, array.shape))


@dataclass(frozen=True, slots=True)
class Call:
    """One step: the address of a kernel and its arguments."""

    function: int
    words: tuple[Word, ...]


class Program:
    """Steps that run in order. `run(*arrays)` gives WELL, else the number of the step that refused its values.

    With `likes`, one for each array, `run` looks at the arrays first and gives OTHERS when one is not as it should be: it is then
    safe to call with anything. Without, the caller knows them. With `release` other Python threads run meanwhile. `keep` is whatever
    lies at the addresses among the words: it lives as long as the program.
    """

    def __init__(self, calls: Sequence[Call], release: bool = False, likes: Sequence[Like] = (), keep: object = None) -> None:
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
        # The sizes that are asked for: one is exact, -1 any, and below that the number of the array that has the same one.
        sizes = [-1 if size is None else size for like in likes for size in like.shape]
        steps_at = _HEAD
        patches_at = steps_at + 2 * len(calls)
        likes_at = patches_at + 4 * len(patches)
        sizes_at = likes_at + 5 * len(likes)
        words_at = sizes_at + len(sizes)
        self._block = block = np.zeros(words_at + len(words) + 1, np.int64)
        base = block.ctypes.data
        block[:8] = len(calls), base + 8 * steps_at, len(patches), base + 8 * patches_at, *_python(), int(release)
        block[8:_HEAD] = len(likes), base + 8 * likes_at, id(np.ndarray)
        for i, (call, start) in enumerate(zip(calls, starts)):
            block[steps_at + 2 * i :][:2] = call.function, base + 8 * (words_at + start)
        for i, (argument, kind, detail, word_at) in enumerate(patches):
            block[patches_at + 4 * i :][:4] = argument, kind, detail, base + 8 * (words_at + word_at)
        at = sizes_at
        for i, like in enumerate(likes):
            flags = _IN_ORDER | (_WRITEABLE if like.written else 0)
            same = -1 if like.same is None else like.same
            block[likes_at + 5 * i :][:5] = id(like.dtype), len(like.shape), flags, base + 8 * at, same
            at += len(like.shape)
        block[sizes_at:words_at] = sizes
        block[words_at : words_at + len(words)] = words
        self._keep = keep
        self._likes = tuple(likes)  # which also keeps their types where the block says that they are
        self._patches = [(a, k, d, words_at + w) for a, k, d, w in patches]
        self._steps = [(call.function, base + 8 * (words_at + start)) for call, start in zip(calls, starts)]
        self.run: Callable[..., int] = _bound(block) if native_entry() else self.run_by_ctypes

    def run_by_ctypes(self, *arrays: Any) -> int:
        """The same without the native entry, for interpreters whose objects it does not know."""
        if self._likes and len(arrays) != len(self._likes):
            return OTHERS
        if not all(like.fits(array, arrays) for like, array in zip(self._likes, arrays)):
            return OTHERS
        for argument, kind, detail, word in self._patches:
            self._block[word] = arrays[argument].ctypes.data + detail if kind == 0 else arrays[argument].shape[detail]
        for number, (function, words) in enumerate(self._steps):
            if _prototype()(function)(words):
                return number
        return WELL


#: Words at the beginning of a block; see `Program.__init__`.
_HEAD = 11


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
            word(id(probe) + _TYPE).value == id(np.ndarray)
            and word(id(probe) + _DATA).value == probe.ctypes.data
            and word(id(probe) + _RANK).value & 0xFFFFFFFF == 2
            and word(word(id(probe) + _SHAPE).value).value == 2
            and word(id(probe) + _DTYPE).value == id(probe.dtype)
            and word(id(probe) + _FLAGS).value & (_IN_ORDER | _WRITEABLE) == _IN_ORDER | _WRITEABLE
            and word(id(probe.T) + _FLAGS).value & _IN_ORDER == 0
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
    return _MethodDefinition(b"run", STORE.function("entry", "2", _emit_entry), _METH_FASTCALL, None)


def _bound(block: Array) -> Callable[..., int]:
    """A built-in function whose `self` is the program's block: a call costs about as much as one of C."""
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., int] = create(ctypes.addressof(_definition()), block, None)
    return function


def _emit_entry() -> str:
    """`PyObject *entry(PyObject *block, PyObject **arrays, Py_ssize_t count)`; the block's layout is `Program.__init__`'s."""
    from uncork.kernels.emit import I32, I64, Kernel, Value

    k = Kernel("entry", ["self", "arrays", "count"], direct=True)
    self_, arrays, count = k.arguments
    block = k.load(self_ + _DATA, I64)
    head = [k.load(block + 8 * i, I64) for i in range(_HEAD)]
    steps, step_table, patches, patch_table, to_python, save, restore, release, likes, like_table, array_type = head

    def need(condition: Value) -> None:
        with k.when(condition.equals(0), likely=False):
            k.leave(k.call_address(to_python, [k.integer(OTHERS)]))

    need(likes.equals(0) | likes.equals(count))
    with k.loop(0, likes) as i:
        array = k.load(arrays + i * 8, I64)
        dtype, rank, flags, sizes, same = (k.load(like_table + i * 40 + 8 * j, I64) for j in range(5))
        need(k.load(array + _TYPE, I64).equals(array_type))
        need(k.load(array + _DTYPE, I64).equals(dtype))
        need((k.load(array + _FLAGS, I32).to(I64) & flags).equals(flags))
        need(k.load(array + _RANK, I32).to(I64).equals(rank))
        shape = k.load(array + _SHAPE, I64)
        with k.loop(0, rank) as axis:
            size = k.load(sizes + axis * 8, I64)
            need(size.equals(-1) | size.equals(k.load(shape + axis * 8, I64)))
        with k.when(same >= 0):  # an array before this one, so it has been looked at
            other = k.load(k.load(arrays + same * 8, I64) + _SHAPE, I64)
            need(k.load(shape, I64).equals(k.load(other, I64)))
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
    result = k.select(status.get().equals(0), k.integer(WELL), done.get() - 1)
    k.finish(k.call_address(to_python, [result]))
    return k.text()
