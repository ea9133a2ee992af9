"""The work of a layer as native calls: by one thread, by several that share it, or either, as the
sizes of a call tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from msgspec import Struct

from uncork.compiler.policy import SPLIT_COST
from uncork.kernels.extents import KernelDeclined, largest
from uncork.kernels.kernel_plan import AtLeast, In, KernelCall, KernelPlan, Operand, Stages
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime.thread_pool import has_threads
from uncork.symbolic import Size, SizeLike


class Variant(Struct, frozen=True):
    """One way to do the work: stages one after the other, the calls of a stage at the same time.
    Another variant does it where `when` does not hold.

    `each` says of every stage when it is part of the work; none: always.
    """

    stages: Sequence[Sequence[KernelCall]]
    when: AtLeast | None = None
    each: Sequence[AtLeast | None] = ()

    @property
    def groups(self) -> Iterator[tuple[list[AtLeast], list[KernelCall]]]:
        """The groups of calls that are made at the same time, each with the conditions for making
        them.
        """
        own = [] if self.when is None else [self.when]
        for stage, when in zip_longest(self.stages, self.each):
            yield [*own, *([] if when is None else when.all)], list(stage)


class Work(Struct, frozen=True):
    """The variants of a layer's work, the bytes of working memory for any of them, its cost, and
    the most threads that may do it.
    """

    variants: tuple[Variant, ...]
    scratch: SizeLike
    cost: float | Size
    thread_limit: int

    @staticmethod
    def of(choice: KernelPlan, threads: int) -> Work:
        """The work for at most so many threads."""
        alone = [[call] for call in choice.calls]
        stages = _shared(choice, threads)
        if stages is None:
            return Work((Variant(alone, each=choice.when),), choice.scratch, choice.cost, threads)
        if not isinstance(choice.cost, Size):
            shared = (Variant(stages.stages, each=stages.when),)
            return Work(shared, stages.scratch, choice.cost, threads)
        few = Variant(alone, AtLeast(choice.cost, SPLIT_COST, otherwise=True), choice.when)
        many = Variant(stages.stages, AtLeast(choice.cost, SPLIT_COST), stages.when)
        scratch = largest(choice.scratch, stages.scratch)
        return Work((few, many), scratch, choice.cost, threads)

    @property
    def parallelism(self) -> int:
        """The most calls that are made together."""
        return max(
            (len(calls) for variant in self.variants for _, calls in variant.groups), default=1
        )

    @property
    def threads(self) -> str:
        """How many threads do the work, for the plan; empty for one. Work may be cut into more
        pieces than there are threads.
        """
        threads = min(self.parallelism, self.thread_limit)
        if threads < 2:
            return ""
        return f" in {'up to ' if len(self.variants) > 1 else ''}{threads} threads"

    @property
    def kernels(self) -> list[KernelSpec]:
        """The kernels of all calls."""
        return [spec for variant in self.variants for stage in variant.stages for spec, _ in stage]

    @property
    def _operands(self) -> Iterator[Operand]:
        for variant in self.variants:
            for stage in variant.stages:
                for call in stage:
                    yield from call[1]

    @property
    def inputs(self) -> frozenset[int]:
        """The positions of the inputs that the calls read."""
        return frozenset(word.position for word in self._operands if isinstance(word, In))

    @property
    def sizes(self) -> list[Size]:
        """The open sizes that the calls are made by."""
        found: list[object] = [self.scratch, self.cost]
        found += [
            when.size for variant in self.variants for whens, _ in variant.groups for when in whens
        ]
        found += [
            word if isinstance(word, Size) else getattr(word, "offset", 0)
            for word in self._operands
        ]
        return [size for size in found if isinstance(size, Size)]


def _shared(choice: KernelPlan, threads: int) -> Stages | None:
    """The work for several threads; None where one does it."""
    if threads < 2 or choice.split is None or not has_threads():
        return None
    if not isinstance(choice.cost, Size) and choice.cost <= SPLIT_COST:
        return None
    try:
        stages = choice.split(threads)
    except (KernelDeclined, TypeError):  # what depends on a size that only the call knows
        return None
    return stages if any(len(stage) > 1 for stage in stages.stages) else None
