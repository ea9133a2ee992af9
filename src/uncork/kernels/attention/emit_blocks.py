"""The steps of attention on a block of scores: weights by a running maximum, and sums of values by
them.

The scores of a block of keys are weighted by the largest score so far. Where a later block has a
larger one, what was summed up before is multiplied by the power of the difference; the sum of all
weights is divided by at the very end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Union

from uncork.kernels.attention.spec import TILE_KEYS, Attention
from uncork.kernels.codegen.activations import LOG2_E, WHOLE, polynomial, tanh
from uncork.kernels.codegen.emit import F32, I32, U8, Kernel, Type, Value, Variable, pieces
from uncork.kernels.elementwise.emit import STORED, narrowed, widened

#: The lowest f32: rows of nothing but -infinity must not subtract it from itself.
_LEAST = -3.4028234663852886e38
#: 2**f on [-1/2, 1/2], constant first: exactly 1 at 0; relative error 1.5e-7.
_POWER = (
    1.0,
    0.6931470036506653,
    0.24022242426872253,
    0.05550733581185341,
    0.009671512991189957,
    0.001326472731307149,
)
#: The same with a relative error of 1.4e-4, for weights that are rounded to bf16.
_ROUGH_POWER = (1.0, 0.69310567, 0.24226399, 0.05588052)
#: Values of keys are added up in so many sums in turn where few sums are made at once.
_ACCUMULATORS = 8

#: Numbers of a row as f32: from a number on, so many, or those that a mask says.
Row = Callable[[Union[Value, int], int, Union[Value, None]], Value]

#: How many keys of the block a row may look at, by the row's number: None is all of them.
Limit = Callable[[Value], Value]


def power(k: Kernel, x: Value, series: Sequence[float] = _POWER) -> Value:
    """e**x of x <= 0: exactly 1 at 0, exactly 0 from -88.03 down. NaN stays NaN."""
    x = x * LOG2_E
    low, start = k.constant(-127.0, F32, x.lanes), k.constant(WHOLE + 127, F32, x.lanes)
    x = k.select(x < low, low, x)  # an ordered comparison keeps NaN
    shifted = x + start
    scale = (shifted.bits_as(I32) << 23).bits_as(F32)  # of -127 it is 0
    return polynomial(k, series, x - (shifted - start)) * scale


def across(k: Kernel, x: Value, join: Callable[[Value, Value], Value]) -> Value:
    """All lanes of a vector joined by `join` (a sum or a maximum, say), repeated in every lane."""
    step = x.lanes // 2
    while step:
        x = join(x, k.picked(x, x, [i ^ step for i in range(x.lanes)]))
        step //= 2
    return x


class ScoreBlock:
    """A block of rows in working memory: largest scores, sums of weights, factors; sums of values;
    scores.
    """

    def __init__(self, k: Kernel, spec: Attention, arguments: dict[str, Value]) -> None:
        self.k, self.spec, self.a = k, spec, arguments
        self.stored = STORED[spec.element_type]
        #: The type of keys and values.
        self.kept: Type = STORED[spec.kept or spec.element_type]
        #: The type of factors: numbers, or pairs of bf16.
        self.factor = I32 if spec.pairs else F32
        offsets = spec.fixed_offsets  # what depends on the number of keys comes last
        self.state, self.sums, self.scores, self.queries = (
            arguments["scratch"] + offsets[name] for name in ("state", "sums", "scores", "queries")
        )
        self.scale = self._loaded_scale()

    def _loaded_scale(self) -> Value:
        given = self.a["scale"]
        return self.load(given, 1) if self.spec.scaled else given.to(I32).bits_as(F32)

    def load(self, address: Value, lanes: int, mask: Value | None = None) -> Value:
        """Numbers of the tensors' type as f32."""
        return widened(
            self.k, self.spec.element_type, self.k.load(address, self.stored, lanes, mask)
        )

    def row_of(self, line: Value, numbers: int) -> Row:
        """The row of a key or a value with so many numbers, which begins at an address."""
        k, name, kept = self.k, self.spec.kept or self.spec.element_type, self.kept
        if kept != U8:
            return lambda start, lanes, mask: widened(
                k, name, k.load(line + start * kept.bytes, kept, lanes, mask)
            )
        step, low = (k.load(line + (numbers + 4 * i), F32) for i in (0, 1))

        def decoded(start: Value | int, lanes: int, mask: Value | None) -> Value:
            codes = k.load(line + start, kept, lanes, mask).to(F32)
            return k.fma(codes, k.splat(step, lanes), k.splat(low, lanes))

        return decoded

    def multiplied(self, x: Value, y: Value, total: Value) -> Value:
        """A vector of sums with the products of a factor, the same for all lanes, and a vector of
        factors added.
        """
        return self.k.dot_pairs(total, x, y) if self.spec.pairs else self.k.fma(x, y, total)

    def tail(self, count: int) -> Value | None:
        """The mask of the last vector of so many numbers; None where it is a full one."""
        rest = count % self.spec.lanes
        return self.k.lanes_below(self.k.integer(rest), self.spec.lanes) if rest else None

    def row(self, kind: int, number: Value) -> Value:
        """The address of a row's largest score (0), sum of weights (1) or factor (2)."""
        return self.state + (number + kind * self.spec.queries) * 4

    # ---- scores

    def score(self, products: Value) -> Value:
        """Scores of such products, before the mask."""
        k, lanes = self.k, products.lanes
        scores = products * k.splat(self.scale, lanes)
        if not self.spec.capped:
            return scores
        return tanh(k, scores) * k.splat(self.a["cap"].to(I32).bits_as(F32), lanes)

    def batch_of_mask(self, batch: Value) -> Value:
        """The batch of the mask that a batch has."""
        if not self.spec.mask:
            return batch
        batches = self.a["mask_batches"]
        return batch - batch // batches * batches

    def masked(self, score: Value, mask_row: Value, key: Value, there: Value | None) -> Value:
        """Scores with the mask of their row applied; `there` says which of the keys exist."""
        k, spec = self.k, self.spec
        if not spec.mask:
            return score
        stored = STORED[spec.mask]
        if spec.row_mask:
            found = k.load(mask_row, stored)
        else:
            address = mask_row + key * stored.bytes
            found = k.load(address, stored, score.lanes, there)
        if spec.row_mask:
            found = k.splat(found, score.lanes)
        if stored == U8:
            hidden = k.splat(self.a["hidden"].to(I32).bits_as(F32), score.lanes)
            return k.select(found > 0, score, hidden)
        return score + widened(k, spec.mask, found)

    # ---- the stages

    def begin(self, rows: Value, sink: Callable[[Value], Value]) -> None:
        """Start rows without sums. The sink of a row, whose address `sink(row)` gives, counts as a
        key without a value.
        """
        k, spec = self.k, self.spec
        least = k.constant(_LEAST, F32)
        with k.loop(0, rows) as r:
            top, total = least, k.constant(0.0, F32)
            if spec.sink:
                given = self.load(sink(r), 1)
                top = k.maximum(given, least)
                total = power(k, given - top)
            k.store(top, self.row(0, r))
            k.store(total, self.row(1, r))
        with k.loop(0, rows * spec.width, spec.lanes) as i:
            k.store(k.constant(0.0, F32, spec.lanes), self.sums + i * 4)

    def weigh(self, rows: Value, query_rows: int, width: Value, limit: Limit) -> None:
        """Turn the scores of `width` keys into weights, `query_rows` rows at a time; behind them
        lie zeros for keys that are multiplied, too.
        """
        k, lanes = self.k, self.spec.lanes
        all_keys = (width + (TILE_KEYS - 1)) & -TILE_KEYS if self.spec.tiles else width
        each = range(query_rows)
        with k.loop(0, rows, query_rows) as first:
            lines = [self.scores + (first + u) * self.spec.score_row for u in each]
            here = [k.minimum(limit(first + u), width) for u in each]
            full = (
                k.maximum(functools.reduce(k.minimum, here), k.integer(0)) // lanes * lanes
            )  # so far every row looks at all keys
            before = [k.splat(k.load(self.row(0, first + u), F32), lanes) for u in each]
            tops = [k.variable(k.constant(_LEAST, F32, lanes)) for _ in each]
            totals = [k.variable(k.constant(0.0, F32, lanes)) for _ in each]

            def score(
                u: int,
                key: Value,
                edge: bool,
                lines: Sequence[Value] = lines,
                here: Sequence[Value] = here,
            ) -> Value:
                x = k.load(lines[u] + key * 4, F32, lanes)
                return (
                    k.select(
                        k.lanes_below(here[u] - key, lanes), x, k.constant(-math.inf, F32, lanes)
                    )
                    if edge
                    else x
                )

            def along(step: Callable[[Value, bool], None], full: Value = full) -> None:
                with k.loop(0, full, lanes) as key:
                    step(key, False)
                with k.loop(full, all_keys, lanes) as key:
                    step(key, True)

            def highest(key: Value, edge: bool, tops: Sequence[Variable] = tops) -> None:
                for u in each:
                    tops[u].set(k.maximum(tops[u].get(), score(u, key, edge)))

            along(highest)
            most = [k.maximum(across(k, tops[u].get(), k.maximum), before[u]) for u in each]

            def weights(
                key: Value,
                edge: bool,
                lines: Sequence[Value] = lines,
                most: Sequence[Value] = most,
                totals: Sequence[Variable] = totals,
            ) -> None:
                pairs = self.spec.pairs
                series = _ROUGH_POWER if pairs else _POWER
                found = [power(k, score(u, key, edge) - most[u], series) for u in each]
                for u in each:
                    # over the scores that they come of: rows of half the bytes end before those
                    weight, size = (k.to_bf16(found[u]), 2) if pairs else (found[u], 4)
                    k.store(weight, lines[u] + key * size)
                    totals[u].set(totals[u].get() + found[u])

            along(weights)
            for u in each:
                factor = power(k, before[u] - most[u]).part(0, 1)
                total = across(k, totals[u].get(), Value.__add__).part(0, 1)
                k.store(most[u].part(0, 1), self.row(0, first + u))
                k.store(
                    k.fma(k.load(self.row(1, first + u), F32), factor, total),
                    self.row(1, first + u),
                )
                k.store(factor, self.row(2, first + u))

    def add_values(
        self, rows: Value, vectors: int, values: Value, value_row: Value, width: Value
    ) -> None:
        """Add the values of `width` keys, multiplied by their weights, to the sums of all rows,
        `vectors` vectors of columns at a time.
        """
        k, spec = self.k, self.spec
        whole, rest = divmod(spec.width // spec.lanes, vectors)
        with k.loop(0, rows, spec.rows) as first:
            if whole:
                with k.loop(0, whole * vectors * spec.lanes, vectors * spec.lanes) as column:
                    self._add_columns(first, column, vectors, values, value_row, width)
            if rest:
                self._add_columns(
                    first, k.integer(whole * vectors * spec.lanes), rest, values, value_row, width
                )

    def _add_columns(
        self,
        first: Value,
        column: Value,
        vectors: int,
        values: Value,
        value_row: Value,
        width: Value,
    ) -> None:
        k, spec = self.k, self.spec
        rows, lanes = range(spec.rows), spec.lanes
        masked = (
            self.tail(spec.depth) if not spec.copies_values and spec.width != spec.depth else None
        )
        lines = [self.scores + (first + r) * spec.score_row for r in rows]
        offsets = [self.sums + ((first + r) * spec.width + column) * 4 for r in rows]
        accumulators = max(1, min(4, _ACCUMULATORS // (spec.rows * vectors)))
        zero = k.constant(0.0, F32, lanes)
        sums = [
            [[k.variable(zero) for _ in range(vectors)] for _ in rows] for _ in range(accumulators)
        ]
        for r in rows:
            factor = k.splat(k.load(self.row(2, first + r), F32), lanes)
            for v in range(vectors):
                sums[0][r][v].set(k.load(offsets[r] + v * lanes * 4, F32, lanes) * factor)

        def numbers_of(line: Value) -> list[Value]:
            if spec.copies_values:
                place = line + column * 4
                return [k.load(place + v * lanes * 4, self.factor, lanes) for v in range(vectors)]
            numbers = self.row_of(line, spec.depth)
            # Which vector is the last one is known where all of them are computed at once, else as
            # the kernel runs.
            left = [k.integer(spec.depth - v * lanes) - column for v in range(vectors)]
            return [
                numbers(
                    column + v * lanes, lanes, k.lanes_below(left[v], lanes) if masked else None
                )
                for v in range(vectors)
            ]

        def add(key: Value, chain: int) -> None:
            numbers = numbers_of(values + key * row)
            for r in rows:
                weight = k.splat(k.load(lines[r] + key * 4, self.factor), lanes)
                for v in range(vectors):
                    total = sums[chain][r][v]
                    total.set(self.multiplied(weight, numbers[v], total.get()))

        row = value_row
        if spec.pairs:  # of keys
            row, width = value_row * 2, (width + 1) // 2

        step = max(2, accumulators)
        for turn, key in enumerate(k.unrolled(width, step)):
            add(key, turn % accumulators)
        for r in rows:
            for v in range(vectors):
                total = sums[0][r][v].get()
                for chain in sums[1:]:
                    total = total + chain[r][v].get()
                k.store(total, offsets[r] + v * lanes * 4)

    def finish(self, rows: Value, output: Callable[[Value], Value]) -> None:
        """Divide the sums of values by the sums of weights, and store each row at its output's
        address. Without keys they stay 0; a row that may look at none of its keys is NaN.
        """
        k, spec = self.k, self.spec
        with k.loop(0, rows) as r:
            target = output(r)
            factor = k.constant(1.0, F32) / k.load(self.row(1, r), F32)
            factor = k.select(self.a["sources"] > 0, factor, k.constant(0.0, F32))
            inverse = k.splat(factor, spec.lanes)
            for column in range(0, spec.width, spec.lanes):
                x = k.load(self.sums + (r * spec.width + column) * 4, F32, spec.lanes) * inverse
                # of rounded weights the processor's own rounding, which takes subnormals for 0
                stored = k.to_bf16(x) if spec.pairs else narrowed(k, x, spec.element_type)
                place = target + column * self.stored.bytes
                for start, n in pieces(min(spec.lanes, spec.depth - column), spec.lanes):
                    k.store(stored.part(start, n), place + start * self.stored.bytes)
