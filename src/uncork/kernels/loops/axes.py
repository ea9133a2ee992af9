"""Tensors as groups of neighbouring axes, of which some are reduced and the others kept: what
reductions along any axes loop over.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from msgspec import Struct

from uncork.kernels.extents import certainly, decline_if, product
from uncork.kernels.kernel_plan import In, Out, Scratch
from uncork.kernels.loops.language import parse
from uncork.kernels.loops.nest_call import Call, View, computed_type, row_bytes
from uncork.kernels.loops.spec import AGAIN, EITHER, MASKED
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import element_bytes
from uncork.symbolic import SizeLike

#: Nests of more loops are left to the references.
_MOST = 6
#: Sums of more values than the first number are sums of blocks of the second.
_LONG, BLOCK = 1 << 14, 1 << 12
#: Rows whose columns are joined at a time.
_ROWS = 8
#: What a join begins with, and how two values are joined, by the word of the language.
_JOINS = {
    "sum": ("0", "{} + {}"),
    "prod": ("1", "{} * {}"),
    "max": ("lowest", "larger({}, {})"),
    "min": ("highest", "smaller({}, {})"),
}


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

    def are_columns(self, name: str, target: Target) -> bool:
        """Whether columns of an element type are reduced, and not in registers: these hold up to
        eight vectors of them, and fewer than four wait for each other.
        """
        size, lanes = self.groups[-1].size, _lanes(name, target)
        held = isinstance(size, int) and 4 * lanes <= size <= 8 * lanes
        return not self.groups[-1].reduced and not held

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
            line = f"{self.reduced}: {before}{name} = sum({term})"
            return [line.replace("{e}", self.element)]
        star, part, block = "*" * (own is self.groups[-1]), f"{name}_part", f"{name}_block"

        def over(axis: str, bounds: str) -> str:
            element = ", ".join(axis if g is own else g.name for g in self.groups)
            line = f"{axis}{star}={bounds}: {before}{part} = sum({term})"
            return line.replace("{e}", element)

        begin = f"{block}*{BLOCK}"
        return [
            f"{block}=0..blocks:",
            f"  {over(f'{block}_row', f'{begin}..{begin}+{BLOCK}')}",
            f"  {name}_blocks = sum({part})",
            over(f"{name}_row", f"blocks*{BLOCK}..count"),
            f"{name} = {name}_blocks + {part}",
        ]

    def joined_rows(self, word: str, term: str, exact: bool) -> list[str]:
        """The lines that join a term over columns, some whole rows at a time: neighbours come
        soonest from memory. `T` holds the columns so far, and at the end what they come to;
        `{e}` in the term and `exact` are as in `summed`, and `rows` in the text as in `nest`.
        """
        last = self.groups[-1].name
        *outer, rows = [g for g in self.groups if g.reduced]
        around = "".join(f"{g.name} " for g in outer)
        t, s, some = f"T[{last}]", f"S[{last}]", f"{rows.name}_some"
        begin, join = _JOINS[word]

        def over(bounds: str) -> list[str]:
            element = ", ".join(f"{_ROWS}*{some} + j" if g is rows else g.name for g in self.groups)
            return [
                f"{around}{some}={bounds}:",
                f"  {last}*:",
                f"    j={_ROWS}: joined = {word}({term.replace('{e}', element)})",
                f"    {t} = {join.format(t, 'joined')}",
            ]

        one = f"{rows.name}_one"
        element = ", ".join(one if g is rows else g.name for g in self.groups)
        rest = [
            f"{around}{one}={_ROWS}*some..rows:",
            f"  {last}*: {t} = {join.format(t, term.replace('{e}', element))}",
        ]
        if word != "sum" or exact or (isinstance(rows.size, int) and rows.size <= _ROWS * _LONG):
            return [f"{last}*: {t} = {begin}", *over("0..some"), *rest]
        lines = over(f"part*{BLOCK}..part*{BLOCK}+{BLOCK}")
        return [
            f"{last}*: {s} = {begin}",
            "part=0..parts:",
            f"  {last}*: {t} = {begin}",
            *(f"  {line}" for line in lines),
            f"  {last}*: {s} = {s} + {t}",
            f"{last}*: {t} = {begin}",
            *over(f"parts*{BLOCK}..some"),
            *rest,
            f"{last}*: {t} = {s} + {t}",
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
        many elements are reduced to one, and `rows` how many rows the columns have.
        """
        shape, last = tuple(g.size for g in self.groups), self.groups[-1]
        kept = tuple(g.size for g in self.groups if not g.reduced)
        views = {"X": View(In(0), name, shape), "Y": View(Out(0), name, kept if results else shape)}
        work = product(shape) * max(1, round(cost * 64)) // 64
        lanes, tail = _lanes(name, target), EITHER
        if isinstance(last.size, int):
            while lanes > max(1, last.size):
                lanes //= 2
            while vectors * lanes > max(lanes, last.size):
                vectors //= 2
            tail = AGAIN
        if last.reduced:
            # Long rows are joined in four chains: an addition waits for the one before it.
            vectors = 1 if isinstance(last.size, int) and last.size < 8 * lanes else 4
        scratch: SizeLike = 0
        held = computed_type(name)
        for view in [name for name in parse(text).views if name not in views]:  # of columns so far
            views[view] = View(Scratch(scratch), held, (last.size,))
            scratch, tail, vectors = scratch + row_bytes(last.size, held), MASKED, 2
        along = [g.size for g in self.groups if g.reduced]
        count, some = product(along), along[-1] // _ROWS
        parts = {"rows": along[-1], "some": some, "parts": some // BLOCK}
        sizes = self.sizes | parts | {"blocks": count // BLOCK, "count": count}
        return Call(
            *(label, text, sizes, views, target, vectors, work, scratch),
            shared=[g.name for g in self.groups if not g.reduced],
            tail=tail,
            lanes=lanes,
        )


def _lanes(name: str, target: Target) -> int:
    """The lanes of a vector of an element type, as it is computed with."""
    return max(1, target.lanes * 4 // element_bytes(computed_type(name)))


def literal(number: float) -> str:
    """A number as the language writes it."""
    decline_if(not math.isfinite(number), f"no kernel for {number} among its attributes")
    return repr(float(number))
