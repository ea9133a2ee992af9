"""Shared steps: the kernels of the thread pool, and the words of a step that threads share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from uncork.kernels.kernel_spec import KernelSpec, llvm_text
from uncork.kernels.runtime.addresses import Wanted, symbol
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.target import Target, host_target
from uncork.kernels.runtime.thread_pool import Pool, pool, pool_address


class Dispatch(KernelSpec, frozen=True):
    """The kernel that makes calls together: see the module."""

    emitter: ClassVar[str] = "uncork.kernels.runtime.emit_thread_pool:emit_dispatch"
    arguments: ClassVar[tuple[str, ...]] = ("pool", "calls", "table")


class Serve(KernelSpec, frozen=True):
    """What a thread of the pool does: it is called with the address of the pool and never
    returns.
    """

    emitter: ClassVar[str] = "uncork.kernels.runtime.emit_thread_pool:emit_serve"


def wanted(spec: KernelSpec, target: Target) -> Wanted:
    """A kernel as a function that is wanted for a target."""
    return Wanted(spec.name, repr(spec), partial(llvm_text, spec, target))


#: The kernels of a pool, for whoever has them compiled with those of a model.
POOL_KERNELS = (Dispatch(), Serve())


def serve(target: Target | None = None) -> int:
    """The address of what the pool's threads do, for a target, or this machine."""
    return STORE.address(Serve(), target or host_target())


def own_pool(target: Target | None = None) -> Pool | None:
    """The pool of this process, whose threads serve by the kernel of the target that came first."""
    return pool(partial(serve, target))


#: What makes calls together in place of the pool, the last one that was asked for; see `made_by`.
_makers: list[int] = []


@contextlib.contextmanager
def made_by(function: int) -> Iterator[None]:
    """A context for measuring parts one by one: in plans that are made inside, a native function at
    this address makes the calls of shared steps, as the kernel does.
    """
    _makers.append(function)
    try:
        yield
    finally:
        _makers.remove(function)


def dispatch(
    calls: int, table: Any, target: Target | None = None
) -> tuple[int, tuple[int, int, Any]]:
    """The kernel, and the words of a step that makes so many calls together, whose table is the
    last word.
    """
    if _makers:
        return _makers[-1], (0, calls, table)
    target = target or host_target()

    def address() -> int:
        own_pool(target)
        return pool_address()

    return STORE.address(Dispatch(), target), (symbol("pool", address), calls, table)
