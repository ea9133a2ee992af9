"""The plan of an operation by kernels: calls of them, where their operands are, how threads share
the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from itertools import product as combinations
from math import prod
from typing import Union, overload

from msgspec import Struct, field

from uncork.kernels.kernel_spec import SORT_COUNTS, SORT_ENTRY, SORTS, KernelSpec
from uncork.kernels.runtime.target import LINE
from uncork.symbolic import Size, SizeLike, minimum


class In(Struct, frozen=True):
    """The address of an input of the operation."""

    position: int
    offset: SizeLike = 0


class Out(Struct, frozen=True):
    """The address of an output of the operation."""

    position: int
    offset: SizeLike = 0


class Scratch(Struct, frozen=True):
    """An address in the step's working memory."""

    offset: SizeLike = 0


class ReleaseGil(Struct, frozen=True):
    """The address of the system's function that lets other Python threads run; see
    `target.release_gil`.
    """


Operand = Union[int, Size, In, Out, Scratch, ReleaseGil]


@overload
def whole_lines(size: int) -> int: ...
@overload
def whole_lines(size: SizeLike) -> SizeLike: ...
def whole_lines(size: SizeLike) -> SizeLike:
    """Bytes rounded up to whole cache lines."""
    return (size + (LINE - 1)) // LINE * LINE


class Workspace:
    """The working memory of a step, laid out one piece after the other, each of whole cache
    lines.
    """

    def __init__(self, begin: SizeLike = 0) -> None:
        #: How much there is so far.
        self.bytes = begin

    def take(self, size: SizeLike) -> Scratch:
        """The address of so many bytes more."""
        taken = Scratch(self.bytes)
        self.bytes = self.bytes + whole_lines(size)
        return taken

    def sorts(self, rows: SizeLike, prefix: str = "") -> dict[str, Operand]:
        """The memory in which so many rows are sorted, by the names of the arguments, which begin
        with `prefix`.
        """
        sizes = (rows * SORT_ENTRY, rows * SORT_ENTRY, SORT_COUNTS)
        return {prefix + name: self.take(size) for name, size in zip(SORTS, sizes, strict=True)}


class AtLeast(Struct, frozen=True):
    """The condition of a call: a size is at least a number; with `otherwise`, it is below it.
    Another condition may have to hold, too.
    """

    size: Size
    least: int
    otherwise: bool = False
    also: AtLeast | None = None

    @property
    def all(self) -> list[AtLeast]:
        """Every condition."""
        return [self, *([] if self.also is None else self.also.all)]


#: A call of a kernel: what it is specialised for, and its operands.
KernelCall = tuple[KernelSpec, Sequence[Operand]]


@overload
def shares(count: int, parts: int, block: int = 1) -> list[tuple[int, int]]: ...
@overload
def shares(count: SizeLike, parts: int, block: int = 1) -> list[tuple[SizeLike, SizeLike]]: ...
def shares(count: SizeLike, parts: int, block: int = 1) -> Sequence[tuple[SizeLike, SizeLike]]:
    """`count` things in up to `parts` runs (first, number) of about equal length, each of whole
    blocks but the last.

    Where only the call knows how many things there are, some runs may have none.
    """
    if isinstance(count, Size):
        if parts == 1:
            return [(0, count)]
        blocks_of = (count + (block - 1)) // block
        ends = [minimum([count, blocks_of * part // parts * block]) for part in range(1, parts)]
        return [(first, end - first) for first, end in pairwise([Size.of(0), *ends, count])]
    blocks = -(-count // block)
    parts = max(1, min(parts, blocks))
    borders = [min(count, blocks * part // parts * block) for part in range(parts + 1)]
    return [(first, last - first) for first, last in pairwise(borders)]


def whole_shares(count: SizeLike, parts: int, block: int) -> Sequence[tuple[SizeLike, SizeLike]]:
    """The runs of `shares`, but none of a known count has less than a block where there is one: the
    last one has what is left as well.
    """
    if isinstance(count, Size):
        return shares(count, parts, block)
    found = [(first * block, some * block) for first, some in shares(count // block, parts)]
    first, some = found[-1]
    return [*found[:-1], (first, some + count % block)]


#: What an axis of a size that only the call knows counts as: more than any number of threads.
_OPEN_AXIS = 1 << 20
#: An axis is divided before one that is worth more where the largest part is so much smaller.
_WORTH = 1.05


def parts_along(
    axes: Sequence[tuple[SizeLike, int]], threads: int, whole: bool = False
) -> tuple[int, ...]:
    """The number of parts along each axis (size, things that stay together) for so many threads:
    the largest part is about as small as can be, and first axes are divided before later ones.
    `whole`: what is less than a block joins the last one.
    """
    blocks = [
        _OPEN_AXIS
        if isinstance(size, Size)
        else max(1, size // some)
        if whole
        else -(-size // some)
        for size, some in axes
    ]
    found: list[tuple[int, ...]] = [()]
    for count in blocks:
        found = [
            (*some, parts)
            for some in found
            for parts in range(1, max(1, min(count, threads // prod(some))) + 1)
        ]
    largest = {
        some: prod(-(-count // parts) for count, parts in zip(blocks, some, strict=True))
        for some in found
    }
    limit = min(largest.values()) * _WORTH
    return max(some for some in found if largest[some] <= limit)


def grid(
    axes: Sequence[tuple[SizeLike, int]], threads: int, whole: bool = False
) -> list[tuple[tuple[SizeLike, SizeLike], ...]]:
    """The work of all axes as parts: of each axis (first, number). See `parts_along`; `whole` as in
    `whole_shares`.
    """
    parts = parts_along(axes, threads, whole)
    divided = whole_shares if whole else shares
    return list(
        combinations(
            *(divided(size, some, block) for (size, block), some in zip(axes, parts, strict=True))
        )
    )


class Stages(Struct, frozen=True):
    """The work of a step as stages, one after the other; the calls of a stage may run at the same
    time.
    """

    stages: Sequence[Sequence[KernelCall]]
    #: Bytes of working memory.
    scratch: SizeLike
    #: When each stage is part of the work, where only some sizes want it; none: always.
    when: Sequence[AtLeast | None] = field(default=())

    def only(self, condition: AtLeast | None) -> Stages:
        """The same work, where a condition holds."""
        return Stages(self.stages, self.scratch, [condition] * len(self.stages))


class Extends(Struct, frozen=True):
    """An output that is the input at `position`, which the calls write to: it must be of at least
    this `shape`.
    """

    position: int
    shape: tuple[SizeLike, ...]


class KernelPlan(Struct, frozen=True):
    """How an operation runs natively: calls of kernels."""

    kernel: str
    calls: Sequence[KernelCall]
    #: Bytes of working memory.
    scratch: SizeLike = 0
    #: What lies at addresses among the operands: it must outlive the calls.
    keep: Sequence[object] = field(default=())
    #: Rough cost in nanoseconds, to decide whether other threads should run meanwhile.
    cost: Union[float, Size] = 0.0
    #: The same work for so many threads.
    split: Callable[[int], Stages] | None = None
    #: When each call is made, where only some sizes want it; none: always.
    when: Sequence[AtLeast | None] = field(default=())
    #: What is written into an input, where that is what the operation is for.
    extends: Extends | None = None

    def stages(self, threads: int) -> Stages:
        """The work of so many threads: of one its calls, one after the other."""
        if threads == 1 or self.split is None:
            return Stages([[call] for call in self.calls], self.scratch, self.when)
        return self.split(threads)


class Alias(Struct, frozen=True):
    """An output that is an input seen in another shape: there is nothing to do."""

    position: int


Selection = Union[KernelPlan, Alias, str]
