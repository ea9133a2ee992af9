"""Kernel of attention for many queries: the keys are packed into panels once for a group of heads,
then each block of queries meets the keys block by block, by the steps of `emit_blocks`.

A block of queries and keys has its scores computed as products of matrices are: rows of queries by
vectors of keys, in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from uncork.kernels.attention.emit_blocks import ScoreBlock
from uncork.kernels.attention.emit_tiles import AttentionTiles
from uncork.kernels.attention.spec import TILE_KEYS, Attention
from uncork.kernels.codegen.emit import F32, U16, U32, Kernel, Value, emitter
from uncork.kernels.movement.emit_transpose import columns_of

#: Rows of scores that become weights at once: one alone would wait for its own results.
_WEIGHED = 3


class _Head(Struct, frozen=True):
    """Where one head's rows begin."""

    query: Value
    value: Value
    value_row: Value
    output: Value
    mask: Value
    sink: Value
    #: Whether every value is finite: values that weigh nothing may be left out then.
    plain: Value | None


@emitter
def emit_attention(k: Kernel, spec: Attention) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    block = ScoreBlock(k, spec, a)
    tiles = AttentionTiles(block) if spec.tiles else None
    packed = a["scratch"] + spec.fixed_offsets["keys"]
    copied = packed + (
        ((a["sources"] + (spec.panel - 1)) // spec.panel * spec.panel_bytes + 63) & -64
    )
    blocks = (a["targets"] + (spec.queries - 1)) // spec.queries
    before, plain = k.variable(k.integer(-1)), k.variable(k.integer(1))
    with k.loop(a["first"], a["first"] + a["count"]) as item:
        whole = item // blocks
        pair = whole // a["members"]
        batch, member = pair // a["heads"], whole - pair * a["members"]
        head = pair - batch * a["heads"]

        def begin(
            name: str, batch: Value = batch, head: Value = head, member: Value | None = member
        ) -> Value:
            address = a[name] + batch * a[f"{name}_batch"] + head * a[f"{name}_head"]
            return address if member is None else address + member * a[f"{name}_member"]

        values = begin("value", member=None)
        with k.if_(pair > before.get()):
            before.set(pair)
            _pack_keys(block, begin("key", member=None), packed)
            plain.set(_take_values(block, values, copied))
        own = _Head(
            begin("query"),
            copied if spec.copies_values else values,
            k.integer(spec.width * spec.packed_size) if spec.copies_values else a["value_row"],
            begin("output"),
            begin("mask", block.batch_of_mask(batch)),
            begin("sink"),
            plain.get() if spec.causal else None,
        )
        _attend(block, tiles, own, packed, (item - whole * blocks) * spec.queries)
    if tiles is not None:
        tiles.release()


def _pack_keys(block: ScoreBlock, source: Value, packed: Value) -> None:
    """Pack all keys as panels `[size][panel]` of f32, or `[size / 2][panel]` of pairs of bf16,
    transposed in registers; lanes past the last key are not used.
    """
    k, spec, a = block.k, block.spec, block.a
    lanes, sources = spec.lanes, a["sources"]

    def place(key: Value) -> Value:
        panel = key // spec.panel
        return packed + panel * spec.panel_bytes + (key - panel * spec.panel) * 4

    if spec.turned:
        for key, partly in k.blocks(sources, lanes):
            there = k.lanes_below(sources - key, lanes) if partly else None
            target = place(key)
            with k.loop(0, spec.size) as d:
                numbers = block.row_of(source + d * a["key_number"], spec.size)
                k.store(numbers(key, lanes, there), target + d * (spec.panel * 4))
        return
    with k.loop(0, sources, lanes) as key:
        lines = [source + k.minimum(key + i, sources - 1) * a["key_row"] for i in range(lanes)]
        target = place(key)

        def square(
            d: Value, count: int, lines: Sequence[Value] = lines, target: Value = target
        ) -> None:
            there = block.tail(count)
            rows = [_of_key(block, line, d, there) for line in lines]
            for i, column in enumerate(columns_of(rows)[:count]):
                k.store(column, target + (d + i) * (spec.panel * 4))

        words = _words(spec)
        full = words // lanes * lanes
        if full:
            with k.loop(0, full, lanes) as d:
                square(d, lanes)
        if words > full:
            square(k.integer(full), words - full)


def _words(spec: Attention) -> int:
    """The words of 32 bits that the numbers of a head are: numbers of f32, or pairs of bf16."""
    return spec.size // 2 if spec.pairs else spec.size


def _of_key(block: ScoreBlock, line: Value, word: Value, there: Value | None) -> Value:
    """A vector of the words of a key."""
    if not block.spec.pairs:
        return block.row_of(line, block.spec.size)(word, block.spec.lanes, there)
    k, place = block.k, line + word * F32.bytes
    return k.load(place, F32, block.spec.lanes, there)


def _take_values(block: ScoreBlock, values: Value, copied: Value) -> Value:
    """Copy the values where the kernel reads copies. The result is 1 where every value is finite,
    or where none was looked at, else 0.
    """
    k, spec, a = block.k, block.spec, block.a
    if not spec.copies_values and not spec.causal:
        return k.integer(1)
    lanes = spec.lanes
    if spec.pairs:
        return _pair_values(block, values, copied)
    zeros = k.variable(k.constant(0.0, F32, lanes))
    with k.loop(0, a["sources"]) as key:
        numbers = block.row_of(values + key * a["value_row"], spec.depth)
        for column in range(0, spec.width, lanes):
            there = block.tail(spec.depth) if column + lanes > spec.depth else None
            x = numbers(column, lanes, there)
            zeros.set(
                k.fma(x, k.constant(0.0, F32, lanes), zeros.get())
            )  # NaN of infinities and NaN
            if spec.copies_values:
                k.store(x, copied + (key * spec.width + column) * 4)
    return k.select(k.all_of(zeros.get().equals(0.0)), k.integer(1), k.integer(0))


def _pair_values(block: ScoreBlock, values: Value, copied: Value) -> Value:
    """Copy the values as pairs of neighbouring keys; beside the last one alone lies 0, and where
    more keys are multiplied zeros follow. The result is as in `_take_values`.
    """
    k, spec, a = block.k, block.spec, block.a
    lanes, row = spec.lanes, a["value_row"]
    zeros = k.variable(k.constant(0.0, F32, lanes))
    end = (a["sources"] + (TILE_KEYS - 1)) & -TILE_KEYS if spec.tiles else a["sources"]
    depth = k.integer(spec.depth)
    with k.loop(0, end, 2) as key:
        address = values + key * row
        here = k.select(key < a["sources"], depth, k.integer(0)) if spec.tiles else depth
        beside = k.select(key + 1 < a["sources"], depth, k.integer(0))
        for column in range(0, spec.width, lanes):
            place = address + column * U16.bytes
            low, high = (
                k.load(at, U16, lanes, k.lanes_below(count - column, lanes)).to(U32)
                for at, count in ((place, here), (place + row, beside))
            )
            if spec.causal:
                for codes in (low, high):
                    x = (codes << 16).bits_as(F32)
                    zeros.set(k.fma(x, k.constant(0.0, F32, lanes), zeros.get()))
            k.store(low | (high << 16), copied + (key // 2 * spec.width + column) * U32.bytes)
    return k.select(k.all_of(zeros.get().equals(0.0)), k.integer(1), k.integer(0))


def _attend(
    block: ScoreBlock, tiles: AttentionTiles | None, own: _Head, packed: Value, first: Value
) -> None:
    """Compute attention for the block of one head's queries that begins at number `first`."""
    k, spec, a = block.k, block.spec, block.a
    sources, last = a["sources"], a["targets"] - 1
    count = k.minimum(a["targets"] - first, k.integer(spec.queries))
    rows = (count + (spec.rows - 1)) // spec.rows * spec.rows

    def query(row: Value) -> Value:
        return own.query + k.minimum(first + row, last) * a["query_row"]

    def mask(row: Value) -> Value:
        return own.mask + k.minimum(first + row, last) * a["mask_row"]

    block.begin(rows, lambda row: own.sink + k.minimum(first + row, last) * a["sink_row"])
    if spec.copies_queries:
        _copy_queries(block, rows, query)
    end = sources
    if own.plain is not None:
        needed = k.minimum(first + count, sources)
        end = k.select(own.plain > 0, needed, sources)
    if tiles is not None:
        tiles.begin(count, own.query + first * a["query_row"])
    with k.loop(0, end, spec.keys) as base:
        width = k.minimum(end - base, k.integer(spec.keys))
        _score(block, tiles, rows, query, mask, packed, base, width)

        def limit(row: Value, base: Value = base, width: Value = width) -> Value:
            return first + row + 1 - base if spec.causal else width

        block.weigh(rows, _WEIGHED, width, limit)
        values = own.value + base * own.value_row
        if tiles is not None:
            tiles.add_values(values, width)
        else:
            block.add_values(rows, spec.vectors, values, own.value_row, width)
    block.finish(count, lambda row: own.output + (first + row) * a["output_row"])


def _copy_queries(block: ScoreBlock, rows: Value, query: Callable[[Value], Value]) -> None:
    k, spec = block.k, block.spec
    target = block.queries
    with k.loop(0, rows) as row:
        source = query(row)
        with k.loop(0, spec.size) as d:
            k.store(
                block.load(source + d * block.stored.bytes, 1), target + (row * spec.size + d) * 4
            )


def _score(
    block: ScoreBlock,
    tiles: AttentionTiles | None,
    rows: Value,
    query: Callable[[Value], Value],
    mask: Callable[[Value], Value],
    packed: Value,
    base: Value,
    width: Value,
) -> None:
    """Compute the scores of all rows with the keys from `base` on: whole panels first, the last of
    which may have fewer keys, then the vectors left, the largest power of two of them at a time.
    """
    k, spec = block.k, block.spec
    lanes, panel = spec.lanes, spec.panel
    vectors_there = (width + (lanes - 1)) // lanes
    whole = vectors_there // spec.vectors

    def address(row: Value) -> Value:
        return block.queries + row * (spec.size * 4) if spec.copies_queries else query(row)

    def scores(number: Value, vectors: int, begin: Value) -> None:
        """Compute the scores with some vectors of a panel, from its key `begin` on."""
        table = packed + (base // panel + number) * spec.panel_bytes + begin * 4
        key = number * panel + begin

        def store(row: Value, sums: Sequence[Value]) -> None:
            """Store a row of scores."""
            bias = mask(row)
            line = block.scores + row * spec.score_row + key * 4
            for v, total in enumerate(sums):
                there = k.lanes_below(width - key - v * lanes, lanes) if v == vectors - 1 else None
                x = block.masked(block.score(total), bias, base + key + v * lanes, there)
                k.store(x, line + v * lanes * 4)

        if tiles is not None:
            tiles.score(table, vectors, rows, store)
            return
        with k.loop(0, rows, spec.rows) as first:
            lines = [address(first + r) for r in range(spec.rows)]
            sums = [
                [k.variable(k.constant(0.0, F32, lanes)) for _ in range(vectors)]
                for _ in range(spec.rows)
            ]

            def step(d: Value) -> None:
                columns = [
                    k.load(table + d * (panel * 4) + v * lanes * 4, block.factor, lanes)
                    for v in range(vectors)
                ]
                for r in range(spec.rows):
                    x = k.splat(k.load(lines[r] + d * 4, block.factor), lanes)
                    for v in range(vectors):
                        sums[r][v].set(block.multiplied(x, columns[v], sums[r][v].get()))

            words = _words(spec)
            with k.loop(0, words // 2 * 2, 2) as d:
                step(d)
                step(d + 1)
            if words % 2:
                step(k.integer(words - 1))
            for r in range(spec.rows):
                store(first + r, [total.get() for total in sums[r]])

    with k.loop(0, whole) as number:
        scores(number, spec.vectors, k.integer(0))
    left = vectors_there - whole * spec.vectors
    done = k.variable(k.integer(0))
    some = 1 << (spec.vectors - 1).bit_length() >> 1
    while some:
        with k.if_(left - done.get() >= some):
            scores(whole, some, done.get() * lanes)
            done.set(done.get() + some)
        some //= 2
