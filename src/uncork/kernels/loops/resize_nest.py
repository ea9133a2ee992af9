"""The nest that resizes. All axes but the last are joined into a row in working memory, cell by
cell; then the row is resized.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from uncork.kernels.extents import decline_if, product
from uncork.kernels.kernel_plan import In, KernelCall, Out, Scratch
from uncork.kernels.loops.nest_call import Call, View, computed_type, row_bytes
from uncork.kernels.loops.resize_taps import Taps
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import element_bytes
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType

_NAMES = "abcdefgh"
#: So many taps are written out; more are loops.
_WRITTEN_OUT = 8
#: A row in working memory is followed by so many elements that may be read, though not used.
_SLACK = 32
#: Bytes of elements that processors pick out of two vectors.
PICKED = 4


class Resizing:
    """A nest under construction: the loops of the result, and the lines inside them."""

    def __init__(
        self,
        along: Sequence[Taps],
        shape: Sequence[SizeLike],
        result: Sequence[SizeLike],
        name: str,
        computed: str = "",
    ) -> None:
        """`along`: what happens to the axes that change; `name` is the type of the elements, and
        `computed` the one they are computed in.
        """
        self.name, self.computed = name, computed or computed_type(name)
        self.loops: list[str] = []
        self.counts: list[SizeLike] = []
        self.extents: list[SizeLike] = []
        self.before: list[str] = []
        self.tables: dict[str, View] = {}
        self.keep: list[Array] = []
        self.calls: list[KernelCall] = []
        #: Bytes of the tables that are made in each call.
        self.made: SizeLike = 0
        #: What joins rows, by its loop.
        self.rows: dict[str, Taps] = {}
        #: Terms of a cell of a row: indices of changed axes by their loop, and weights.
        self.terms: list[tuple[dict[str, str], list[str]]] = [({}, [])]
        #: The loops over the taps of rows, where they are not written out.
        self.taps: dict[str, int] = {}
        self.last: Taps | None = None
        self._loops({taps.axis: taps for taps in along}, shape, result)
        if math.prod(taps.count for taps in self.rows.values()) > _WRITTEN_OUT:
            self._in_loops()
        else:
            for loop, taps in self.rows.items():
                self._joined(loop, taps)

    def _loops(
        self, changed: dict[int, Taps], shape: Sequence[SizeLike], result: Sequence[SizeLike]
    ) -> None:
        """A loop for each axis that changes, and for neighbours that do not."""
        merges = False
        for axis, (size, count) in enumerate(zip(shape, result, strict=True)):
            found = changed.get(axis)
            if found is None and merges:
                self.counts[-1], self.extents[-1] = self.counts[-1] * count, self.extents[-1] * size
                continue
            merges = found is None
            decline_if(len(self.loops) == len(_NAMES), "no kernel for so many axes")
            self.loops.append(_NAMES[len(self.loops)])
            self.counts.append(count)
            self.extents.append(size)
            if found is None:
                continue
            self.keep += found.keep
            self.calls += found.calls
            self.made = self.made + found.scratch
            if axis == len(shape) - 1:
                self.last = found
                continue
            loop = self.loops[-1]
            self.rows[loop], self.tables[f"R{loop}"] = found, found.cells
            if found.weighted:
                self.tables[f"P{loop}"] = found.weights

    def _joined(self, loop: str, found: Taps) -> None:
        """Join the cells of an axis of rows; their numbers and weights are read before the row
        is.
        """
        terms: list[tuple[dict[str, str], list[str]]] = []
        for tap in range(found.count):
            factor = [f"p{loop}{tap}"] if found.weighted else []
            self.before.append(f"r{loop}{tap} = R{loop}[{tap}, {loop}]")
            self.before += [f"{name} = P{loop}[{tap}, {loop}]" for name in factor]
            terms += [
                ({**places, loop: f"at(r{loop}{tap})"}, factors + factor)
                for places, factors in self.terms
            ]
        self.terms = terms

    def _in_loops(self) -> None:
        """The resized result by loops over the taps."""
        self.taps = {f"t{loop}": taps.count for loop, taps in self.rows.items()}
        places = {loop: f"R{loop}[t{loop}, {loop}]" for loop in self.rows}
        weights = [f"P{loop}[t{loop}, {loop}]" for loop, taps in self.rows.items() if taps.weighted]
        self.terms = [(places, weights)]

    def _row(self, axis: str, column: str, target: str, ends: bool = False) -> list[str]:
        """The lines that set `target`, along an axis, to what the changed axes before the last one
        make; `ends`: that is the result.
        """
        products: list[str] = []
        for places, factors in self.terms:
            index = ", ".join([*(places.get(loop, loop) for loop in self.loops[:-1]), column])
            cell = f"X[{index}]" if self.name == self.computed else f"real(X[{index}])"
            products.append(" * ".join([cell, *factors]))
        value = " + ".join(products)
        if not self.taps:
            return [f"{axis}*: {target} = {self._ended(value) if ends else value}"]
        return [
            f"{axis}*:",
            f"  {' '.join(self.taps)}: m = sum({value})",
            f"  {target} = {self._ended('m') if ends else 'm'}",
        ]

    def _ended(self, value: str) -> str:
        """The expression of a number as an element of the result: whole ones are rounded and
        limited.
        """
        element_type = ElementType.parse(self.name)
        if not element_type.is_integer or self.name == self.computed:
            return value
        limits = np.iinfo(element_type.dtype)
        return f"smaller(larger(rint({value}), {float(limits.min)}), {float(limits.max)})"

    def _lines(self) -> list[str]:
        """The lines inside the outer loops, which compute a row and the result of it."""
        x, out, last = self.loops[-1], ", ".join(self.loops), self.last
        if last is None:
            return self._row(x, x, f"Y[{out}]", ends=True)
        if times := last.repeats:
            return self._row(x, f"{x} // {times}", f"Y[{out}]", ends=True)
        self.tables["S"] = last.cells
        if not last.weighted and last.is_near and element_bytes(self.name) == PICKED:
            return [*self._row("u", "u", "T[u]"), f"{x}*: Y[{out}] = T[near(S[0, {x}])]"]
        if not last.weighted:
            return self._row(x, f"S[0, {x}]", f"Y[{out}]", ends=True)
        self.tables["Q"] = last.weights
        cell = f"near(S[t, {x}])" if last.is_near else f"S[t, {x}]"
        loop = f"t={last.count}" if last.count <= _WRITTEN_OUT else "t"
        columns = [f"{x}*:", f"  {loop}: s = sum(T[{cell}] * Q[t, {x}])"]
        return [*self._row("u", "u", "T[u]"), *columns, f"  Y[{out}] = {self._ended('s')}"]

    def nest(self, target: Target) -> Call:
        """The call of the nest."""
        outer, lines = self.loops[:-1], [*self.before, *self._lines()]
        text = "\n".join(
            [" ".join(outer) + ":", *("  " + line for line in lines)] if outer else lines
        )
        taps = self.last.count if self.last else 1
        cells = math.prod(found.count for found in self.rows.values())
        call = Call(
            "resize",
            text,
            dict(zip(self.loops, self.counts, strict=True))
            | {"u": self.extents[-1], "t": taps}
            | self.taps,
            {
                "X": View(In(0), self.name, tuple(self.extents)),
                "Y": View(Out(0), self.name, tuple(self.counts)),
                "T": View(Scratch(self.made), self.computed, (self.extents[-1],)),
                **self.tables,
            },
            target,
            unroll=2,
            cost=product(self.counts) * (cells + taps) // 8,
            scratch=row_bytes(self.extents[-1] + _SLACK, self.computed),
            # Loops with tables are not shared: what a table says of a place holds for the whole.
            shared=[loop for loop in outer if loop not in self.rows],
            keep=self.keep,
            scalar_type="" if self.computed == computed_type(self.name) else self.computed,
        )
        return replace(call, before=self.calls, tables=self.made)
