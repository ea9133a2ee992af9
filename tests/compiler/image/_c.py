"""Compiled models as libraries of C, called by ctypes; and C compilers that the machine has."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
COMPILER = shutil.which("cc") or shutil.which("gcc")
DTYPES = (
    None, "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8",
)  # fmt: skip
OK, NO_MEMORY, OTHER_PROCESSOR, WRONG_ARGUMENTS, WRONG_SIZES, WRONG_VALUES, NO_ROOM, BUSY = range(8)


class Tensor(ctypes.Structure):
    """`model_tensor` of model.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("type", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * 8),
    ]


def tensor(array: Array) -> Tensor:
    """A tensor that looks at an array."""
    kind = next(n for n, name in enumerate(DTYPES) if name and np.dtype(name) == array.dtype)
    sizes = (ctypes.c_int64 * 8)(*array.shape)
    return Tensor(array.ctypes.data, array.nbytes, kind, array.ndim, sizes)


def parts(folder: Path) -> list[str]:
    """The files of a model that are compiled."""
    return [
        "runtime.c",
        "image.c",
        *sorted(f"parts/{p.name}" for p in (folder / "parts").iterdir()),
    ]


def build(folder: Path, *options: str, compiler: str | None = COMPILER) -> None:
    """Call a C compiler in the folder of a model. It must have nothing to say."""
    assert compiler is not None
    warn = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-I."]
    done = subprocess.run(
        [compiler, *warn, *options], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


class Library:
    """A model that was built as a shared library."""

    def __init__(self, folder: Path, name: str = "model") -> None:
        build(folder, "-shared", "-fPIC", "-o", f"lib{name}.so", *parts(folder), "-lpthread")
        self.functions = ctypes.CDLL(os.fspath(folder / f"lib{name}.so"))
        self._name = name
        for function in ("text", "why"):
            self[function].restype = ctypes.c_char_p

    def __getitem__(self, function: str) -> Any:
        return getattr(self.functions, f"{self._name}_{function}")

    def open(self, memory_limit: int = 0) -> Opened:
        """A new instance."""
        return Opened(self, memory_limit)


class Opened:
    """An instance of a model."""

    def __init__(self, library: Library, memory_limit: int) -> None:
        self._library, self._instance = library, ctypes.c_void_p()
        code = library["open"](ctypes.byref(self._instance), ctypes.c_int64(memory_limit))
        assert code == OK
        self.outputs = library["outputs"]()

    def call(
        self, inputs: Sequence[Array | Tensor], outputs: Any = None, function: str = "run"
    ) -> int:
        """A call: its code."""
        kept = [t if isinstance(t, Tensor) else np.asarray(t, order="C") for t in inputs]
        given = [t if isinstance(t, Tensor) else tensor(t) for t in kept]
        self.results = outputs or (Tensor * max(1, self.outputs))()
        array = (Tensor * max(1, len(given)))(*given)
        code: int = self._library[function](self._instance, array, self.results)
        return code

    def run(self, *inputs: Array) -> list[Array]:
        """The results of a call that goes well."""
        code = self.call(inputs)
        assert code == OK, (code, self.why)
        return [self.result(number) for number in range(self.outputs)]

    def result(self, number: int) -> Array:
        """A copy of a result of the last call."""
        found = self.results[number]
        dtype, shape = np.dtype(DTYPES[found.type]), tuple(found.sizes[: found.rank])
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return np.frombuffer(ctypes.string_at(found.data, count), dtype).reshape(shape)

    @property
    def why(self) -> str:
        """What was wrong with the last call."""
        return str(self._library["why"](self._instance).decode())

    def reset(self) -> int:
        return int(self._library["reset"](self._instance))

    def close(self) -> None:
        self._library["close"](self._instance)
