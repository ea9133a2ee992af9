"""A program: a table of (kernel, arguments) that one native call walks through.

Arguments are 64-bit words. Most are known when the program is made; an address or a size that only the call knows is patched
in by the native entry itself, from the arrays that the call passes or that it makes for the results.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from uncork.kernels.runtime.cpython_entry import (
    BUSY,
    HEAD,
    IN_ORDER,
    LIKE,
    OTHERS,
    PATCH,
    RESULT,
    STEP,
    WELL,
    WRITEABLE,
    bound,
    functions,
    native_entry,
)

__all__ = ["BUSY", "OTHERS", "WELL", "Address", "Call", "Is", "Like", "Program", "Size", "native_entry"]


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

    `same` is the number of another array, before this one, whose first dimension this one's must equal; `written`: it is
    written to. `dtype` is the very object that NumPy gives its own arrays.
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
class Is:
    """An argument of the call that is no array: it must be this very object."""

    what: object

    def fits(self, argument: Any, arguments: Sequence[Any]) -> bool:
        return argument is self.what


@dataclass(frozen=True, slots=True)
class Call:
    """One step: the address of a kernel and its arguments."""

    function: int
    words: tuple[Word, ...]


class _Block(np.ndarray):
    """The words of a program, and what must live as long as they do: `run` keeps its block alive, and nothing else."""

    keep: object


class Program:
    """Steps that run in order. `run(*arguments)` gives WELL, else the number of the step that refused its values.

    With `likes`, one for each argument, `run` looks at the arguments first and gives OTHERS when one is not as it should be: it is
    then safe to call with anything. Without, the caller knows them. With `results`, a list of shapes and types, it makes arrays
    for them, whose numbers follow those of the arguments, and gives them as a list instead of WELL.
    With `release` other Python threads run meanwhile, and one that enters the same program gets BUSY. `keep` is whatever lies at
    the addresses among the words: it lives as long as `run`.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        release: bool = False,
        likes: Sequence[Like | Is] = (),
        results: Sequence[tuple[tuple[int, ...], np.dtype[Any]]] = (),
        keep: object = None,
    ) -> None:
        self._likes, self._results = tuple(likes), tuple(results)
        self._lock = threading.Lock()
        self._words: list[int] = []
        starts: list[int] = []
        patches: list[tuple[int, int, int, int]] = []  # argument, 0 address or 1 size, offset or axis, word
        for call in calls:
            starts.append(len(self._words))
            for word in call.words:
                if isinstance(word, Address):
                    patches.append((word.argument, 0, word.offset, len(self._words)))
                elif isinstance(word, Size):
                    patches.append((word.argument, 1, word.axis, len(self._words)))
                self._words.append(word if isinstance(word, int) else 0)
        sizes: list[int] = []

        def sizes_of(shape: Sequence[int | None]) -> int:
            sizes.extend(-1 if size is None else size for size in shape)
            return len(sizes) - len(shape)

        like_rows = [
            (id(like.what), -1, 0, 0, -1)
            if isinstance(like, Is)
            else (
                id(like.dtype),
                len(like.shape),
                IN_ORDER | (WRITEABLE if like.written else 0),
                sizes_of(like.shape),
                -1 if like.same is None else like.same,
            )
            for like in likes
        ]
        result_rows = [(id(dtype), len(shape), sizes_of(shape)) for shape, dtype in results]
        # One block: the head, the tables, sizes, and the words of all steps.
        steps_at = len(HEAD)
        patches_at = steps_at + STEP * len(calls)
        likes_at = patches_at + PATCH * len(patches)
        results_at = likes_at + LIKE * len(likes)
        sizes_at = results_at + RESULT * len(results)
        words_at = sizes_at + len(sizes)
        self._block = block = np.zeros(words_at + len(self._words) + 1, np.int64).view(_Block)
        block.keep = keep, self._likes, self._results
        base = block.ctypes.data

        def address(word: int) -> int:
            return base + 8 * word

        head: dict[str, int] = {
            **functions(),
            "steps": len(calls), "step_table": address(steps_at), "patches": len(patches), "patch_table": address(patches_at),
            "likes": len(likes), "like_table": address(likes_at), "results": len(results), "result_table": address(results_at),
            "release": int(release), "busy": 0, "array_type": id(np.ndarray),
        }  # fmt: skip
        self._steps = [(call.function, address(words_at + start)) for call, start in zip(calls, starts)]
        self._patches = [(argument, kind, detail, words_at + word) for argument, kind, detail, word in patches]
        table: list[int] = [head[name] for name in HEAD]
        for step in self._steps:
            table += step
        for argument, kind, detail, word_at in self._patches:
            table += argument, kind, detail, address(word_at)
        for kind, rank, flags, first, same in like_rows:
            table += kind, rank, flags, address(sizes_at + first), same
        for kind, rank, first in result_rows:
            table += kind, rank, address(sizes_at + first)
        table += sizes + self._words
        block[: len(table)] = table
        self.run: Callable[..., Any] = bound(block) if native_entry() else self.run_by_ctypes

    def run_by_ctypes(self, *arguments: Any) -> Any:
        """The same without the native entry, for interpreters whose objects it does not know."""
        if self._likes:
            if len(arguments) != len(self._likes):
                return OTHERS
            if not all(like.fits(argument, arguments) for like, argument in zip(self._likes, arguments)):
                return OTHERS
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        arrays = (*arguments, *results)
        if not self._lock.acquire(blocking=False):
            return BUSY
        try:
            for argument, kind, detail, word in self._patches:
                self._block[word] = arrays[argument].ctypes.data + detail if kind == 0 else arrays[argument].shape[detail]
            for number, (function, words) in enumerate(self._steps):
                if _prototype()(function)(words):
                    return number
        finally:
            self._lock.release()
        return results or WELL


@functools.lru_cache(maxsize=1)
def _prototype() -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
