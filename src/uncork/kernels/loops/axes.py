"""Tensors as groups of neighbouring axes, of which some are reduced and the others kept: what
reductions along any axes loop over.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from msgspec import Struct

from uncork.kernels.extents import certainly, decline_if, product
from uncork.kernels.kernel_plan import In, Out
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.runtime.target import Target
from uncork.symbolic import SizeLike

#: Nests of more loops are left to the references.
_MOST = 6


class AxisGroup(Struct, frozen=True):
    """Neighbouring axes that are all reduced, or all kept, as one loop."""

    name: str
    size: SizeLike
    reduced: bool


class Groups(Struct, frozen=True):
    """All axes of a tensor, from the outermost on. The last group runs by vectors."""

    groups: tuple[AxisGroup, ...]

    @staticmethod
    def of(shape: Sequence[SizeLike], axes: Collection[int]) -> Groups:
        """The groups of a shape. At least one is kept and one is reduced: of size 1 where the shape
        has none.
        """
        found: list[tuple[SizeLike, bool]] = []
        for axis, size in enumerate(shape):
            if certainly(size, 1):
                continue
            if found and found[-1][1] == (axis in axes):
                found[-1] = (found[-1][0] * size, found[-1][1])
            else:
                found.append((size, axis in axes))
        for reduced in (True, False):
            if not any(kind is reduced for _, kind in found):
                found.insert(0, (1, reduced))
        decline_if(len(found) > _MOST, "no kernel for so many axes in turn")
        return Groups(
            tuple(AxisGroup("abcdef"[n], size, reduced) for n, (size, reduced) in enumerate(found))
        )

    def _loops(self, reduced: bool) -> str:
        names = [
            g.name + ("*" if g is self.groups[-1] else "")
            for g in self.groups
            if g.reduced is reduced
        ]
        return " ".join(names)

    @property
    def kept(self) -> str:
        """The loops over what is kept."""
        return self._loops(False)

    @property
    def reduced(self) -> str:
        """The loops over what is reduced."""
        return self._loops(True)

    @property
    def element(self) -> str:
        """The indices of an element."""
        return ", ".join(g.name for g in self.groups)

    @property
    def result(self) -> str:
        """The indices of a result of a reduction."""
        return ", ".join(g.name for g in self.groups if not g.reduced)

    @property
    def count(self) -> str:
        """How many elements are reduced to one, as a number."""
        return "(" + " * ".join(f"size({g.name})" for g in self.groups if g.reduced) + ")"

    @property
    def sizes(self) -> dict[str, SizeLike]:
        return {g.name: g.size for g in self.groups}

    def nest(
        self,
        label: str,
        text: str,
        name: str,
        target: Target,
        cost: float,
        results: bool = False,
        vectors: int = 2,
    ) -> Call:
        """The call of the nest, over an input X and an output Y of one element type; with `results`
        Y has only the groups that are kept.

        `vectors`: vectors of columns that are reduced at the same time.
        """
        shape = tuple(g.size for g in self.groups)
        kept = tuple(g.size for g in self.groups if not g.reduced)
        views = {"X": View(In(0), name, shape), "Y": View(Out(0), name, kept if results else shape)}
        work = product(shape) * max(1, round(cost * 64)) // 64
        # Rows are joined in four chains; of columns as many go together as registers hold.
        unroll = 4 if self.groups[-1].reduced else vectors
        shared = [g.name for g in self.groups if not g.reduced]
        return Call(label, text, self.sizes, views, target, unroll, work, shared=shared)


def literal(number: float) -> str:
    """A number as the language writes it."""
    decline_if(not math.isfinite(number), f"no kernel for {number} among its attributes")
    return repr(float(number))
