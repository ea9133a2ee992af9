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
from uncork.kernels.loops.spec import AGAIN, EITHER
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import element_bytes
from uncork.symbolic import SizeLike

#: Nests of more loops are left to the references.
_MOST = 6
#: Sums of more values than the first number are sums of blocks of the second.
_LONG, _BLOCK = 1 << 14, 1 << 12


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
    def sizes(self) -> dict[str, SizeLike]:
        return {g.name: g.size for g in self.groups}

    def summed(self, name: str, term: str, before: str = "", exact: bool = False) -> list[str]:
        """The lines that sum a term over what is reduced: a `term` and what comes `before` it, in
        which `{e}` stands for the indices of an element. Sums of many numbers that are not `exact`
        are those of blocks, which lose less.
        """
        along = [g for g in self.groups if g.reduced]
        own = along[0]
        if exact or len(along) > 1 or (isinstance(own.size, int) and own.size <= _LONG):
            line = f"  {self.reduced}: {before}{name} = sum({term})"
            return [line.replace("{e}", self.element)]
        star, part, block = "*" * (own is self.groups[-1]), f"{name}_part", f"{name}_block"

        def over(axis: str, bounds: str) -> str:
            element = ", ".join(axis if g is own else g.name for g in self.groups)
            line = f"{axis}{star}={bounds}: {before}{part} = sum({term})"
            return line.replace("{e}", element)

        begin = f"{block}*{_BLOCK}"
        return [
            f"  {block}=0..blocks:",
            f"    {over(f'{block}_row', f'{begin}..{begin}+{_BLOCK}')}",
            f"    {name}_blocks = sum({part})",
            f"  {over(f'{name}_row', f'blocks*{_BLOCK}..count')}",
            f"  {name} = {name}_blocks + {part}",
        ]

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

        `vectors`: vectors of columns that are reduced at the same time. In the text `count` is how
        many elements are reduced to one.
        """
        shape, last = tuple(g.size for g in self.groups), self.groups[-1]
        kept = tuple(g.size for g in self.groups if not g.reduced)
        views = {"X": View(In(0), name, shape), "Y": View(Out(0), name, kept if results else shape)}
        work = product(shape) * max(1, round(cost * 64)) // 64
        size, tail = 4 if name in ("f16", "bf16") else element_bytes(name), EITHER
        lanes = max(1, target.lanes * 4 // size)
        if isinstance(last.size, int):
            while lanes > max(1, last.size):
                lanes //= 2
            while vectors * lanes > max(lanes, last.size):
                vectors //= 2
            tail = AGAIN
        if last.reduced:
            # Long rows are joined in four chains: an addition waits for the one before it.
            vectors = 1 if isinstance(last.size, int) and last.size < 8 * lanes else 4
        shared = [g.name for g in self.groups if not g.reduced]
        count = product([g.size for g in self.groups if g.reduced])
        sizes = self.sizes | {"blocks": count // _BLOCK, "count": count}
        return Call(
            label, text, sizes, views, target, vectors, work, shared=shared, tail=tail, lanes=lanes
        )


def literal(number: float) -> str:
    """A number as the language writes it."""
    decline_if(not math.isfinite(number), f"no kernel for {number} among its attributes")
    return repr(float(number))
