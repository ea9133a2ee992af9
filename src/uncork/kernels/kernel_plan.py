"""How an operation runs by kernels: calls of them, where their operands are, and how threads share the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Union

from uncork.kernels.kernel_spec import KernelSpec


@dataclass(frozen=True, slots=True)
class In:
    """The address of an input of the operation."""

    position: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Out:
    """The address of an output of the operation."""

    position: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """An address in the step's working memory."""

    offset: int = 0


@dataclass(frozen=True, slots=True)
class Length:
    """The size of an input along an axis: it may differ from call to call when the kernel says so in `free`."""

    position: int
    axis: int = 0


@dataclass(frozen=True, slots=True)
class LetRun:
    """The address of the system's function that lets other threads run; see `target.let_run`."""


Operand = Union[int, In, Out, Room, Length, LetRun]
#: A call of a kernel: what it is specialised for, and its operands.
KernelCall = tuple[KernelSpec, Sequence[Operand]]


def shares(count: int, parts: int, block: int = 1) -> list[tuple[int, int]]:
    """`count` things as up to so many runs of about equal length, each of whole blocks but the last: (first, number)."""
    blocks = -(-count // block)
    parts = max(1, min(parts, blocks))
    borders = [min(count, blocks * part // parts * block) for part in range(parts + 1)]
    return [(first, last - first) for first, last in pairwise(borders)]


@dataclass(frozen=True)
class Stages:
    """The work of a step as stages, one after the other; the calls of a stage may run at the same time."""

    stages: Sequence[Sequence[KernelCall]]
    room: int


@dataclass(frozen=True)
class Native:
    """How an operation runs natively: calls of kernels."""

    kernel: str
    calls: Sequence[KernelCall]
    #: Bytes of working memory.
    room: int = 0
    #: What lies at addresses among the operands: it must outlive the calls.
    keep: Sequence[object] = field(default=())
    #: Rough cost in nanoseconds, to decide whether other threads should run meanwhile.
    cost: float = 0.0
    #: The same work for so many threads.
    split: Callable[[int], Stages] | None = None


@dataclass(frozen=True, slots=True)
class Alias:
    """The output is an input seen in another shape: there is nothing to do."""

    position: int


Choice = Union[Native, Alias, str]
