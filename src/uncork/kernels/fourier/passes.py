"""Passes of Fourier transforms, one along each axis, and the plan of calls that makes them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from uncork.kernels.extents import largest, nanoseconds, smallest
from uncork.kernels.fourier.spec import FINE, PADDED, PAIR, WORDS, Fourier, FourierTable
from uncork.kernels.fourier.tables import Table, table, table_bytes
from uncork.kernels.kernel_plan import (
    AtLeast,
    KernelCall,
    KernelPlan,
    Operand,
    Scratch,
    Stages,
    shares,
    whole_lines,
)
from uncork.kernels.layer import Layer, staged
from uncork.kernels.runtime.addresses import address_of_words
from uncork.kernels.runtime.target import LINE, Target
from uncork.symbolic import Size, SizeLike
from uncork.types import Array

#: Bytes of working memory of several transforms, so that it stays in the second-level cache.
_NEAR = 1 << 21
#: Nanoseconds of a number in a step.
_EACH = 0.4
#: Steps of a length that only the call knows, as far as its cost goes.
_STEPS = 10.0
#: Bytes from a transform to the next outer and inner one, and from a number to the next.
Strides = tuple[SizeLike, SizeLike, SizeLike]
#: A kernel, and for which lengths, where only the call knows the length.
_Choice = tuple[Fourier, "AtLeast | None"]


class Pass(Struct, frozen=True):
    """A pass: transforms of one length, with the arguments that `spec.Fourier` describes."""

    kind: str
    pairs: bool
    size: int
    source: Operand
    source_strides: Strides
    target: Operand
    target_strides: Strides
    count: SizeLike
    inner: SizeLike
    length: SizeLike
    end: SizeLike
    kept: SizeLike
    begin: int = 0
    inverse: bool = False
    window: Operand = 0

    def kernels(self, target: Target) -> list[_Choice]:
        """The kernels. So many transforms are made at a time: no more than there are, and than fit
        in the cache; of a long one that only the call knows, one.
        """
        lanes = max(1, target.lanes * 4 // self.size)
        while lanes > 1 and (
            (isinstance(self.count, int) and lanes > self.count)
            or (isinstance(self.length, int) and self.length > self._longest(lanes))
        ):
            lanes //= 2
        many, one = (Fourier(self.kind, self.pairs, n, self.size) for n in (lanes, 1))
        if lanes == 1 or not isinstance(self.length, Size):
            return [(many, None)]
        least = self._longest(lanes) + 1
        return [
            (many, AtLeast(self.length, least, otherwise=True)),
            (one, AtLeast(self.length, least)),
        ]

    def _longest(self, lanes: int) -> int:
        """The longest transforms that the cache has room for, so many at a time."""
        return _NEAR // (4 * lanes * self.size)

    def room(self, spec: Fourier, made: Table | None) -> SizeLike:
        """Bytes of working memory of one of the kernels."""
        if made is not None:
            return _room(spec, made.padded, 2 if self.length == made.padded else 3)
        most = smallest(self.length, self._longest(spec.lanes)) if spec.lanes > 1 else self.length
        return _room(spec, most * PADDED, 3)

    def kernel_call(
        self, spec: Fourier, words: Operand, room: SizeLike, first: SizeLike, some: SizeLike
    ) -> KernelCall:
        """The call for some of the transforms, with the table of these words."""
        operands: dict[str, Operand] = {
            "source": self.source,
            "target": self.target,
            "begin": self.begin,
            "end": self.end,
            "kept": self.kept,
            "inner": self.inner,
            "first": first,
            "last": first + some,
            "length": self.length,
            "swapped": spec.size if self.inverse else 0,
            "divisor": self.length if self.inverse else 1,
            "window": self.window,
            "table": words,
            "room": Scratch(room),
        }
        for side, strides in (("source", self.source_strides), ("target", self.target_strides)):
            operands.update(
                {f"{side}_{n}": s for n, s in zip(("outer", "inner", "step"), strides, strict=True)}
            )
        return spec(**operands)

    @property
    def cost(self) -> float | Size:
        """Rough nanoseconds."""
        if isinstance(self.length, Size):
            return nanoseconds(self.count * self.length, _STEPS * _EACH)
        return nanoseconds(self.count, self.length * max(1.0, math.log2(self.length)) * _EACH)


def planned(
    layer: Layer,
    passes: Sequence[Pass],
    memory: SizeLike,
    then: Sequence[KernelCall] = (),
    keep: Sequence[Array] = (),
) -> KernelPlan:
    """The plan of the passes, one after the other, and of the calls `then`, with `memory` bytes for
    what is between them. Tables of lengths that only the call knows are made first.
    """
    before: list[KernelCall] = []
    made: list[tuple[Pass, Table | None, Operand]] = []
    for each in passes:
        if isinstance(each.length, int):
            layer.require_room(table_bytes(each.length, each.size))
            steps = table(each.length, each.size)
            made.append((each, steps, address_of_words(steps.words, "table")))
            continue
        memory = whole_lines(memory)
        spec = FourierTable(each.size)
        before.append((spec, [each.length, Scratch(memory)]))
        made.append((each, None, Scratch(memory)))
        memory = memory + _table_room(spec, each.length)
    room: SizeLike = 0
    for each, known, _ in made:
        for kernel, _when in each.kernels(layer.target):
            room = largest(room, each.room(kernel, known))
    first, room = whole_lines(memory), room + 2 * LINE

    def stages(threads: int) -> Stages:
        found: list[list[KernelCall]] = [[call] for call in before]
        when: list[AtLeast | None] = [None] * len(found)
        for each, _, words in made:
            for kernel, condition in each.kernels(layer.target):
                found.append(
                    [
                        each.kernel_call(kernel, words, first + n * room, *part)
                        for n, part in enumerate(shares(each.count, threads, kernel.lanes))
                    ]
                )
                when.append(condition)
        found += [[call] for call in then]
        return Stages(found, first + threads * room, [*when, *[None] * len(then)])

    arrays = [
        array for _, known, _ in made if known is not None for array in (known.words, *known.keep)
    ]
    cost = sum((each.cost for each in passes), 0.0)
    return staged(stages, cost, [*keep, *arrays], passes[0].kernels(layer.target)[0][0].name)


def _room(spec: Fourier, padded: SizeLike, buffers: int) -> SizeLike:
    """Bytes of working memory: two buffers, a third one for the chirp's transform, and the places
    of each of the transforms.
    """
    return buffers * padded * spec.cell + 2 * spec.lanes * 8


def _table_room(spec: FourierTable, length: SizeLike) -> SizeLike:
    """Bytes of the words, the first roots, and the roots and the chirp of the longest steps."""
    return WORDS * 8 + FINE * PAIR + (PADDED + 1) * length * (2 * spec.size)
