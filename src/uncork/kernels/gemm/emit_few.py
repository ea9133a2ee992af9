"""Products of few rows by second matrices of the call, which are read as they lie: to bring one
into panels takes as long as to multiply some rows by it.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import Kernel, Type, Value
from uncork.kernels.codegen.joining import lane_sums
from uncork.kernels.gemm.spec_matmul import Matmul

#: Rows of the second matrix that are added at a time where its columns lie side by side.
_TOGETHER = 8
#: Stores the results of a row, by its number, from a column on.
Store = Callable[[Value, Value, Value], None]


def multiply_few(
    k: Kernel, spec: Matmul, type_: Type, first: Value, second: Value, store: Store
) -> None:
    """Multiply all rows, of which the first one and the second matrix lie at these addresses."""
    if spec.turned:
        _dots(k, spec, type_, first, second, store)
    else:
        _added_rows(k, spec, type_, first, second, store)


def _dots(k: Kernel, spec: Matmul, type_: Type, first: Value, second: Value, store: Store) -> None:
    """Columns lie along memory, and so do the rows: the products of a vector of columns are summed
    lane by lane, and the lanes at the end.
    """
    a, lanes, size = k.named, spec.lanes, spec.size
    rest = k.lanes_below(a["inner"] & lanes - 1, lanes)
    with k.loop(0, a["columns"], lanes) as column:
        # The last column again where there are not so many: nobody stores its products.
        numbers = [k.minimum(column + i, a["columns"] - 1) for i in range(lanes)]
        lines = [second + number * a["b_column"] for number in numbers]
        with k.loop(0, a["rows"]) as row:
            source = first + row * a["a_row"]
            sums = [k.variable(k.constant(0.0, type_, lanes)) for _ in lines]

            for position, partly in k.blocks(a["inner"], lanes):
                mask = rest if partly else None
                at = position * size
                factors = k.load(source + at, type_, lanes, mask)
                for total, line in zip(sums, lines, strict=True):
                    weights = k.load(line + at, type_, lanes, mask)
                    total.set(k.fma(weights, factors, total.get()))
            store(row, column, lane_sums(k, [total.get() for total in sums], lanes))


def _added_rows(
    k: Kernel, spec: Matmul, type_: Type, first: Value, second: Value, store: Store
) -> None:
    """Columns lie side by side: rows of the second matrix, each times a factor, are added to sums
    in working memory, some at a time, for memory gives neighbours soonest.
    """
    a, lanes, size = k.named, spec.lanes, spec.size
    line = (a["columns"] + (lanes - 1) & -lanes) * size

    def add(begin: Value, count: int) -> None:
        """Add some rows of the second matrix to all sums."""
        with k.loop(0, a["rows"]) as row:
            source, sums = first + row * a["a_row"], a["packed_weights"] + row * line
            factors = [
                k.splat(k.load(source + (begin + i) * size, type_), lanes) for i in range(count)
            ]

            for column, partly in k.blocks(a["columns"], lanes):
                mask = k.lanes_below(a["columns"] - column, lanes) if partly else None
                place = sums + column * size
                total = k.load(place, type_, lanes)
                # Of the first rows: nothing was added before.
                total = k.select(begin.equals(0), k.constant(0.0, type_, lanes), total)
                for i, factor in enumerate(factors):
                    there = second + (begin + i) * a["b_inner"] + column * size
                    total = k.fma(k.load(there, type_, lanes, mask), factor, total)
                k.store(total, place)

    with k.if_(a["inner"].equals(0)):  # No row is added, so nothing else makes the sums zeros.
        zeros = k.constant(0.0, type_, lanes)
        with k.loop(0, a["rows"] * line, lanes * size) as place:
            k.store(zeros, a["packed_weights"] + place)
    for begin, count in k.vectors(a["inner"], _TOGETHER):
        add(begin, count)
    with k.loop(0, a["rows"]) as row, k.loop(0, a["columns"], lanes) as column:
        store(row, column, k.load(a["packed_weights"] + row * line + column * size, type_, lanes))
