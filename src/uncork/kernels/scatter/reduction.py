"""How updates are joined with what is there: where results are held meanwhile, and what is done
before and after.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.elementwise.spec import conversion
from uncork.kernels.extents import certainly, decline_if, extents, product
from uncork.kernels.kernel_plan import In, KernelCall, Out, Scratch, shares
from uncork.kernels.movement.spec import COPY_BYTES, FillBytes
from uncork.kernels.runtime.target import LINE, Target
from uncork.kernels.scatter.spec import Action, Mean
from uncork.kernels.stored_types import element_bytes
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

#: The types that sums are held in, by the types of the elements, where these are not their own.
_HELD = {"f16": "f32", "bf16": "f32"}


class Joining(Struct, frozen=True):
    """How elements of a type are joined: where the results are held meanwhile, and the calls before
    and after the joining.
    """

    op: str
    stored: str
    held: str
    #: Places, and the elements of each: terms of all elements of a place are counted as one.
    places: SizeLike
    each: SizeLike
    lanes: int
    uses_data: bool = True

    @property
    def elements(self) -> SizeLike:
        return self.places * self.each

    @property
    def is_mean(self) -> bool:
        return self.op == "mean"

    @property
    def held_bytes(self) -> int:
        return element_bytes(self.held)

    @property
    def is_apart(self) -> bool:
        """Whether the results are held in working memory until all is done."""
        return self.held != self.stored or self.is_mean

    @property
    def scratch(self) -> SizeLike:
        sums = (self.elements * self.held_bytes + 7) // 8 * 8 if self.is_apart else 0
        return sums + (self.places * 8 if self.is_mean else 0)

    @property
    def destination(self) -> Out | Scratch:
        return Scratch() if self.is_apart else Out(0)

    @property
    def counts(self) -> Scratch:
        return Scratch(self.scratch - self.places * 8)

    def actions(self) -> list[tuple[Action, Out | Scratch]]:
        """What is done at the places, one after the other, and where these are."""
        op = "sum" if self.is_mean else self.op
        result: list[tuple[Action, Out | Scratch]] = []
        if not self.uses_data:
            result.append((Action("neutral", 0, self.held, self.stored, op), self.destination))
        result.append((Action(op, 0, self.held, self.stored), self.destination))
        if self.is_mean:
            result.append((Action("count", 0, "i64", self.stored), self.counts))
        return result

    def before(self, threads: int) -> list[list[KernelCall]]:
        """The stages before the joining for so many threads: they write the data in the type they
        are held in, and counts of 0.
        """
        held, stored = self.held_bytes, element_bytes(self.stored)
        stages: list[list[KernelCall]] = []
        if self.held == self.stored:
            stages.append(copied(self.elements * held, threads, self.destination))
        else:
            recast = conversion(self.stored, self.held, 1, self.lanes, self.lanes > 1)
            stages.append(
                [
                    (recast, [_from(self.destination, first * held), In(0, first * stored), number])
                    for first, number in shares(self.elements, threads, LINE)
                ]
            )
        if self.is_mean:
            stages.append(
                [
                    (FillBytes(0), [0, _from(self.counts, first * 8), number * 8])
                    for first, number in shares(self.places, threads, LINE)
                ]
            )
        return stages

    def after(self, threads: int) -> list[list[KernelCall]]:
        """The stages after the joining for so many threads: they write the results in the type they
        are stored in.
        """
        if not self.is_apart:
            return []
        held, stored = self.held_bytes, element_bytes(self.stored)
        if self.is_mean:
            wide = not certainly(self.each, 1)
            divide = Mean(self.held, self.stored, self.lanes if wide else 1)
            return [
                [
                    divide(
                        places=_from(self.destination, first * self.each * held),
                        counts=_from(self.counts, first * 8),
                        output=Out(0, first * self.each * stored),
                        count=number,
                        each=self.each,
                        more=int(self.uses_data),
                    )
                    for first, number in shares(self.places, threads, LINE)
                ]
            ]
        recast = conversion(self.held, self.stored, 1, self.lanes, self.lanes > 1)
        return [
            [
                (recast, [Out(0, first * stored), _from(self.destination, first * held), number])
                for first, number in shares(self.elements, threads, LINE)
            ]
        ]


def copied(size: SizeLike, threads: int, target: Out | Scratch) -> list[KernelCall]:
    """The calls in which so many threads copy the first input, of so many bytes."""
    return [
        COPY_BYTES(source=In(0, first), target=_from(target, first), run=number)
        for first, number in shares(size, threads, LINE)
    ]


def _from(place: Out | Scratch, offset: SizeLike) -> Out | Scratch:
    return replace(place, offset=place.offset + offset)


def reduction_of(op: str, uses_data: bool, data: TensorSpec, target: Target, axes: int) -> Joining:
    """The reduction for elements of this type, at places that lie along so many first axes. Raises
    KernelDeclined where there is none.
    """
    element_type = data.element_type
    name = element_type.name
    is_plain = element_type.bits in (8, 16, 32, 64) and (
        element_type.is_integer or name in ("f32", "f64", "f16", "bf16", "boolean")
    )
    decline_if(not is_plain, f"no kernel for reductions of {name}")
    held, shape = _HELD.get(name, name), extents(data)
    if op == "mean" and element_type.is_integer:
        decline_if(element_type.bits == 64, "no kernel for means of 64-bit integers")
        held = "i64"
    return Joining(
        op,
        name,
        held,
        product(shape[:axes]),
        product(shape[axes:]),
        max(1, target.lanes * 4 // element_bytes(held)),
        uses_data,
    )
