"""The native functions that calls of segments go through: the entry, and what binds new sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from uncork.errors import warn_once
from uncork.kernels.runtime.addresses import Wanted, native_function
from uncork.kernels.runtime.entry_method import MethodDefinition, bound_to, lays_out_as_expected
from uncork.kernels.runtime.kernel_cache import STORE, CannotCompile
from uncork.kernels.runtime.target import Target
from uncork.types import Array

#: What calls of segments go through.
ENTRY = native_function("segment_entry", "uncork.kernels.runtime.emit_entry:emit_entry")
_RESIZE = native_function("resize", "uncork.kernels.runtime.emit_resize:emit_resize")


def entry_functions() -> tuple[Wanted, ...]:
    """The functions that calls of segments go through, for whoever has them compiled with the
    kernels of a model.
    """
    return _RESIZE, ENTRY


def resize_function(target: Target) -> int:
    """The address of the function that binds new sizes."""
    return STORE.address_of(_RESIZE, target)


@functools.lru_cache(maxsize=8)
def native_entry(target: Target) -> bool:
    """Whether the native entry of a target works here, which is compiled."""
    if not lays_out_as_expected():
        return False
    try:
        _definition(target)
        return True
    except CannotCompile as error:
        warn_once(
            "compile",
            f"{error}; calls go through ctypes, which takes microseconds longer: please report it",
        )
        return False


#: The method tables of segments. Their functions keep the address, and Python never copies it.
_definitions: dict[Target, MethodDefinition] = {}


def _definition(target: Target) -> MethodDefinition:
    """The method table of all segments of a target; threads that ask at once get the same."""
    if target not in _definitions:
        address = STORE.address_of(ENTRY, target)
        _definitions.setdefault(target, MethodDefinition.of(address))
    return _definitions[target]


def bound(block: Array, target: Target) -> Callable[..., Any]:
    """A built-in function whose `self` is a segment's block: a call costs as much as one of C."""
    return bound_to(_definition(target), block)
