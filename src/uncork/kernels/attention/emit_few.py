"""Attention of few queries: keys and values are read once, as they lie, for several queries that
share them.

Vectors lie along the numbers of a head. The products of as many keys as a vector has lanes are
added up by a tree, which leaves the score of each key in its lane; partial sums are joined as soon
as there are two of a kind, so that few registers hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from uncork.kernels.attention.emit_blocks import ScoreBlock
from uncork.kernels.attention.spec import FewQueries
from uncork.kernels.codegen.emit import Kernel, Value, emitter
from uncork.kernels.codegen.joining import lane_sums

#: Columns of values whose sums registers hold, times rows.
_SUMS = 8


@emitter
def emit_few_queries(k: Kernel, spec: FewQueries) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    block = ScoreBlock(k, spec, a)
    queries = a["targets"] * a["members"]
    with k.loop(a["first"], a["first"] + a["count"]) as pair:
        batch = pair // a["heads"]
        head = pair - batch * a["heads"]
        keys, values = (
            a[n] + batch * a[f"{n}_batch"] + head * a[f"{n}_head"] for n in ("key", "value")
        )
        with k.loop(0, queries, spec.query_rows) as first:
            # The last query again where there are not so many: what is written twice is the same.
            numbers = [k.minimum(first + r, queries - 1) for r in range(spec.query_rows)]
            members = [number // a["targets"] for number in numbers]
            targets = [
                number - member * a["targets"]
                for number, member in zip(numbers, members, strict=True)
            ]

            def rows(
                name: str,
                batch: Value = batch,
                head: Value = head,
                members: Sequence[Value] = members,
                targets: Sequence[Value] = targets,
            ) -> list[Value]:
                begin = a[name] + batch * a[f"{name}_batch"] + head * a[f"{name}_head"]
                return [
                    begin + m * a[f"{name}_member"] + t * a[f"{name}_row"]
                    for m, t in zip(members, targets, strict=True)
                ]

            own = {name: rows(name) for name in ("query", "output", "sink")}
            own["mask"] = rows("mask", block.batch_of_mask(batch))
            _attend(spec, block, own, keys, values, targets)


def _picked(k: Kernel, addresses: Sequence[Value], number: Value) -> Value:
    """One of a few addresses."""
    result = addresses[0]
    for i, address in enumerate(addresses[1:], 1):
        result = k.select(number.equals(i), address, result)
    return result


def _attend(
    spec: FewQueries,
    block: ScoreBlock,
    own: Mapping[str, Sequence[Value]],
    keys: Value,
    values: Value,
    targets: Sequence[Value],
) -> None:
    """Compute attention of some queries, whose rows of each tensor are its `own`, over all keys of
    their head.
    """
    k, a = block.k, block.a
    rows = k.integer(spec.query_rows)
    vectors = max(1, _SUMS // spec.query_rows)
    block.begin(rows, lambda row: _picked(k, own["sink"], row))
    starts = range(0, spec.size, spec.lanes)
    tails = [block.tail(spec.size) if start + spec.lanes > spec.size else None for start in starts]
    parts = [
        [
            block.load(q + start * block.stored.bytes, spec.lanes, tail)
            for start, tail in zip(starts, tails, strict=True)
        ]
        for q in own["query"]
    ]
    with k.loop(0, a["sources"], spec.keys) as base:
        width = k.minimum(a["sources"] - base, k.integer(spec.keys))
        with k.loop(0, width, spec.lanes) as key:
            lines = [
                keys + k.minimum(base + key + i, a["sources"] - 1) * a["key_row"]
                for i in range(spec.lanes)
            ]
            there = k.lanes_below(width - key, spec.lanes)
            for r, part in enumerate(parts):
                products = (
                    _product(k, _numbers(block, line, starts, tails), part) for line in lines
                )
                score = block.score(lane_sums(k, products, spec.lanes))
                score = block.masked(score, own["mask"][r], base + key, there)
                k.store(score, block.scores + (key * 4 + r * spec.score_row))

        def limit(row: Value, base: Value = base, width: Value = width) -> Value:
            return _picked(k, targets, row) + 1 - base if spec.causal else width

        block.weigh(rows, spec.query_rows, width, limit)
        block.add_values(rows, vectors, values + base * a["value_row"], a["value_row"], width)
    block.finish(rows, lambda row: _picked(k, own["output"], row))


def _numbers(
    block: ScoreBlock, line: Value, starts: Sequence[int], tails: Sequence[Value | None]
) -> Iterator[Value]:
    """All numbers of a key, each vector decoded where it is taken: registers hold one of them."""
    numbers = block.row_of(line, block.spec.size)
    for start, tail in zip(starts, tails, strict=True):
        yield numbers(start, block.spec.lanes, tail)


def _product(k: Kernel, a: Iterable[Value], b: Iterable[Value]) -> Value:
    factors = zip(a, b, strict=True)
    x, y = next(factors)
    total = x * y
    for x, y in factors:
        total = k.fma(x, y, total)
    return total
