"""The microkernel of all products of f32 matrices: up to 8 rows times a panel of columns, held in
registers.

`sums[v] = sum over k of source[k] * panel[k][v]` for each row and each vector v of the panel; what
then happens with the sums of a row is up to the `end` that the user gives: it is part of the same
function, so the sums never go through memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from uncork.kernels.codegen.emit import F32, I32, I64, Kernel, Value, Variable, pieces
from uncork.kernels.codegen.epilogue import ended
from uncork.kernels.epilogue import CHANNEL, ELEMENT, Epilogue

End = Callable[[Kernel, "Row"], None]


@dataclass(frozen=True, slots=True)
class Row:
    """What the end of a microkernel sees of one row: its number in its block, the address of its
    source, its sums, the extra arguments.
    """

    number: int | Value
    source: Value
    sums: list[Value]
    extra: dict[str, Value]


class Microkernel:
    """One function each for 8, 4, 2 and 1 rows; see the module."""

    def __init__(
        self,
        outer: Kernel,
        name: str,
        lanes: int,
        vectors: int,
        extra: Sequence[str],
        end: End,
        pairs: bool = False,
    ) -> None:
        """With `pairs` sources and panels hold pairs of bf16 in place of f32, and `inner` counts
        those.
        """
        self.pairs = pairs
        # 32 vector registers (AVX-512, NEON) hold the sums of 8 rows of 3 vectors; 16 (AVX2) those
        # of 4.
        most = 8 if vectors <= 3 and lanes != 8 else 4
        self.sizes = [n for n in (8, 4, 2, 1) if n <= most]
        self.extra = tuple(extra)
        self.functions = {
            n: self._function(outer, f"{name}_{n}", n, lanes, vectors, end) for n in self.sizes
        }

    def _function(
        self, outer: Kernel, name: str, rows: int, lanes: int, vectors: int, end: End
    ) -> Kernel:
        k = Kernel(name, ["table", "panel", "inner", *self.extra], inside=outer)
        table, panel, inner, *others = k.arguments
        extra = dict(zip(self.extra, others))
        sources = [k.load(table + row * 8, I64) for row in range(rows)]
        # A sum waits for the addition before it: few rows need several chains each to keep the
        # multipliers busy.
        chains = 4 if rows * vectors <= 4 else 2 if rows * vectors <= 12 else 1
        sums = [
            [[k.variable(k.number(0.0, F32, lanes)) for _ in range(vectors)] for _ in range(rows)]
            for _ in range(chains)
        ]

        def step(position: Value, chain: int) -> None:
            type_ = I32 if self.pairs else F32
            weights = [
                k.load(panel + (position * vectors + v) * (lanes * 4), type_, lanes)
                for v in range(vectors)
            ]
            for row in range(rows):
                factor = k.splat(k.load(sources[row] + position * 4, type_), lanes)
                for total, weight in zip(sums[chain][row], weights):
                    total.set(
                        k.dot_pairs(total.get(), factor, weight)
                        if self.pairs
                        else k.fma(factor, weight, total.get())
                    )

        in_chains(k, inner, chains, step)
        for row in range(rows):
            end(
                k,
                Row(
                    row,
                    sources[row],
                    [joined([chain[row][v] for chain in sums]) for v in range(vectors)],
                    extra,
                ),
            )
        k.finish()
        return k

    def run(
        self,
        k: Kernel,
        table: Value,
        panel: Value,
        inner: Value,
        rows: Value,
        extra: Callable[[Value], dict[str, Value]],
    ) -> None:
        """All rows of a table of addresses, in blocks; `extra(first row)` gives the further
        arguments of a block.
        """
        done = k.variable(k.integer(0))
        for size in self.sizes:
            with k.loop(done.get(), rows - (size - 1), size) as row:
                given = extra(row)
                k.call(
                    self.functions[size],
                    [table + row * 8, panel, inner, *(given[name] for name in self.extra)],
                )
                done.set(row + size)


def finished(
    k: Kernel,
    row: Row,
    lanes: int,
    columns: int,
    end: Epilogue,
    element: Callable[[str, int, int], Value],
) -> Iterator[tuple[int, Value]]:
    """What is stored for the sums of a row, piece by piece: (the first column, its numbers).

    Only the first `columns` of the panel exist in memory. `element(name, column, lanes)` loads from
    an operand of elements.
    """
    for v, total in enumerate(row.sums):
        count = min(lanes, columns - v * lanes)
        for first, n in pieces(max(0, count), lanes):
            column = v * lanes + first

            def operand(name: str, kind: str, column: int = column, n: int = n) -> Value:
                if kind == ELEMENT:
                    return element(name, column, n)
                return (
                    k.load(row.extra[name] + column * 4, F32, n)
                    if kind == CHANNEL
                    else k.load(row.extra[name], F32)
                )

            yield column, ended(k, end, total.part(first, n), operand)


def in_chains(k: Kernel, inner: Value, chains: int, step: Callable[[Value, int], None]) -> None:
    """`step(position, chain)` for every position of an inner product, four at a time; the chains
    take turns.
    """
    unrolled = 4
    whole = inner & -unrolled
    with k.loop(0, whole, unrolled) as position:
        for u in range(unrolled):
            step(position + u, u % chains)
    with k.loop(whole, inner) as position:
        step(position, 0)


def joined(chains: Sequence[Variable]) -> Value:
    """The sum of what the chains have summed up."""
    total = chains[0].get()
    for chain in chains[1:]:
        total = total + chain.get()
    return total
