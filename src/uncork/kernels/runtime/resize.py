"""The native functions that calls of segments go through: the entry, and what binds new sizes."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from uncork.kernels.runtime.addresses import Wanted
from uncork.kernels.runtime.entry_method import ENTRY
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.target import Target


@functools.lru_cache(maxsize=1)
def prototype() -> Any:
    """The type of native functions of one word."""
    # With the lock of the interpreter, so that what a handler of a signal raises is raised.
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def _resize_text() -> str:
    from uncork.kernels.runtime.emit_resize import emit_resize

    return emit_resize()


_RESIZE = Wanted("resize", "resize", _resize_text)


def entry_functions() -> tuple[Wanted, ...]:
    """The functions that calls of segments go through, for whoever has them compiled with the
    kernels of a model.
    """
    return _RESIZE, ENTRY


def resize_function(target: Target) -> int:
    """The address of the function that binds new sizes."""
    return STORE.address_of(_RESIZE, target)
