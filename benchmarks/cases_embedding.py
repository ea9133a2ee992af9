"""Cases of EmbeddingBagOffsetsSum-3 and EmbeddingSegmentsSum-3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from benchmarks import (
    arrays,
    contenders_fbgemm,
    contenders_numpy,
    contenders_openvino,
    contenders_torch,
    contenders_uncork,
    limit_kernels,
)
from benchmarks.cases import Case, Prepared
from benchmarks.options import Options
from benchmarks.timing import Contender, Expected
from uncork import Builder, Model
from uncork import functional as F
from uncork.types import Array

ROWS, DIMS, POOLS, BAGS = (10_000, 1_000_000), (16, 64, 128, 256), (1, 10, 80), (1, 128, 4096)
#: Bytes of rows that all sets of inputs touch together, so that large work does not take all
#: memory.
_TOUCHED = 300e6
#: Rows of a call that is made as a function, too, as peers make it: in larger ones the work hides
#: what a call costs.
_SMALL = 20_000


@dataclass(frozen=True)
class Bags:
    """What one case is: `bags` sums of about `pool` rows each."""

    rows: int
    dim: int
    bags: int
    pool: int
    ids: str = "uniform"
    weighted: bool = False
    table: str = "float32"
    index: str = "int64"
    segments: bool = False

    @property
    def name(self) -> str:
        flags = [self.ids] if self.ids != "uniform" else []
        flags += ["weights"] * self.weighted
        flags += [n for n, usual in ((self.table, "float32"), (self.index, "int64")) if n != usual]
        return " ".join(
            [f"{self.rows:.0e} x {self.dim}, {self.bags} x {self.pool}".replace("e+0", "e"), *flags]
        )

    @property
    def group(self) -> str:
        if not self.segments:
            return f"bag, {self.bags} bag{'s' * (self.bags > 1)}"
        return (
            f"segments, {self.bags} x {self.pool}"
            if self.bags > 1000
            else f"segments, {self.bags} segment{'s' * (self.bags > 1)}"
        )


@dataclass(frozen=True)
class _Set:
    """The inputs of one call: every index belongs to a bag, given by where bags start and by a
    number for each index.
    """

    indices: Array
    offsets: Array
    segments: Array
    weights: Array

    def inputs(self, bags: Bags) -> list[Array]:
        return [
            self.indices,
            self.segments if bags.segments else self.offsets,
            *([self.weights] if bags.weighted else []),
        ]


def cases() -> Iterator[Case]:
    """All of them, those on the same table together."""
    grid = [
        Bags(rows, dim, bags, pool)
        for rows in ROWS
        for dim in DIMS
        for bags in BAGS
        for pool in POOLS
    ]
    grid += [
        Bags(1_000_000, dim, bags, pool, "zipf") for dim in DIMS for bags in BAGS for pool in POOLS
    ]
    grid += [
        Bags(rows, dim, bags, pool, weighted=True)
        for rows in ROWS
        for dim in (64, 128)
        for bags in BAGS
        for pool in (10, 80)
    ]
    grid += [
        Bags(rows, dim, bags, pool, table="float16")
        for rows in ROWS
        for dim in (64, 128)
        for bags in BAGS
        for pool in (10, 80)
    ]
    grid += [Bags(rows, 64, bags, 10, index="int32") for rows in ROWS for bags in BAGS]
    pairs = [(rows, dim) for rows in ROWS for dim in (16, 64, 128)]
    grid += [
        Bags(rows, dim, bags, pool, segments=True)
        for rows, dim in pairs
        for bags in BAGS
        for pool in (10, 80)
    ]
    grid += [Bags(1_000_000, 64, bags, 10, segments=True, weighted=True) for bags in BAGS]
    grid += [Bags(1_000_000, 64, bags, 10, "zipf", segments=True) for bags in BAGS]
    for bags in sorted(grid, key=lambda b: (b.segments, b.rows, b.dim, b.table)):
        small = bags.rows == 10_000 and bags.dim == 64 and bags.index == "int64" and bags.pool != 1
        skewed = bags.ids == "zipf" and bags.dim == 16
        yield Case(bags.group, bags.name, partial(prepare, bags), quick=small or skewed)


def prepare(bags: Bags, options: Options) -> Prepared:
    """Arrays and contenders of a case."""
    table = arrays.table(bags.rows, bags.dim, bags.table)
    count = int(np.clip(_TOUCHED / (bags.bags * bags.pool * bags.dim * table.itemsize), 4, 64))
    generator = np.random.default_rng(bags.bags * 1000 + bags.pool)
    sets = [_set(bags, generator) for _ in range(count)]
    inputs = [s.inputs(bags) for s in sets]
    indices, offsets, segments = (
        [s.indices for s in sets],
        [s.offsets for s in sets],
        [s.segments for s in sets],
    )
    weights = [s.weights for s in sets] if bags.weighted else None
    prepared = Prepared(
        sets=count,
        expect=lambda i: [expected(table, sets[i], bags.weighted)],
        # Rounded sums of up to some hundred terms; f16 results are rounded once more, and some
        # peers add in f16.
        tolerance=4e-3 if bags.table == "float16" else 1e-5,
        about=asdict(bags)
        | {
            "indices": float(np.mean([len(a) for a in indices])),
            "tiny": bags.bags == 1 and bags.pool <= 10,
        },
    )
    prepared.add(
        "uncork", lambda: contenders_uncork.of_model(model(bags, table), inputs, options.threads)
    )
    if bags.bags * bags.pool <= _SMALL:
        prepared.add("uncork functional", lambda: [_functional(bags, table, sets)])
    openvino, torch, fbgemm, numpy = (
        options.peers.get(name) for name in ("openvino", "torch", "fbgemm", "numpy")
    )
    if openvino:
        indices_known = len(indices[0]) if len({len(a) for a in indices}) == 1 else None
        made = partial(
            contenders_openvino.bags,
            openvino,
            table,
            bags.index,
            indices_known if bags.weighted else None,
            bags.bags,
        )
        result = [((bags.bags, bags.dim), table.dtype)]
        prepared.add(
            "openvino",
            lambda: contenders_openvino.of_model(
                openvino, made(bags.weighted, bags.segments), inputs, options.threads, result
            ),
        )
    if torch and bags.segments:
        prepared.add(
            "torch",
            lambda: contenders_torch.segments(torch, table, indices, segments, bags.bags, weights),
        )
    elif torch:
        prepared.add(
            "torch", lambda: contenders_torch.bags(torch, table, indices, offsets, weights)
        )
    if fbgemm and bags.segments:
        prepared.add(
            "fbgemm",
            lambda: contenders_fbgemm.segments(
                fbgemm, table, indices, segments, bags.bags, weights
            ),
        )
    elif fbgemm:
        prepared.add(
            "fbgemm", lambda: contenders_fbgemm.bags(fbgemm, table, indices, offsets, weights)
        )
    plain = not bags.weighted and bags.table == "float32"
    if numpy and plain and bags.bags < 1000:
        prepared.add("numpy", lambda: contenders_numpy.bags(table, indices, offsets))
    if plain:
        prepared.add("limit", lambda: limit_kernels.sums(table, indices, offsets))
    return prepared


def _set(bags: Bags, generator: np.random.Generator) -> _Set:
    sizes = arrays.lengths(generator, bags.bags, bags.pool, bags.weighted)
    count = int(sizes.sum())
    return _Set(
        indices=arrays.ids(generator, bags.rows, count, bags.ids, bags.index),
        offsets=(np.cumsum(sizes) - sizes).astype(bags.index),
        segments=np.repeat(np.arange(bags.bags), sizes).astype(bags.index),
        weights=generator.standard_normal(count).astype(bags.table),
    )


def expected(table: Array, given: _Set, weighted: bool) -> Expected:
    """Sums in f64, and the sums of |terms|; some bags at a time, for they need twice the room."""
    ends = [*given.offsets[1:].tolist(), len(given.indices)]
    sums, scales = np.empty((2, len(ends), table.shape[1]))
    step = max(1, 50_000 * len(ends) // max(1, len(given.indices)))
    for first in range(0, len(ends), step):
        bags = slice(first, min(first + step, len(ends)))
        start, end = int(given.offsets[first]), ends[bags.stop - 1]
        terms = table[given.indices[start:end]].astype(np.float64)
        if weighted:
            terms *= given.weights[start:end, None].astype(np.float64)
        sums[bags] = np.add.reduceat(terms, given.offsets[bags] - start)
        scales[bags] = np.add.reduceat(np.abs(terms), given.offsets[bags] - start)
    return Expected(sums, scales)


def model(bags: Bags, table: Array) -> Model:
    """The case as a model for uncork."""
    builder = Builder("bags")
    index = {"int64": "i64", "int32": "i32"}[bags.index]
    source = builder.constant(table)
    indices = builder.parameter("indices", index, [None])
    places = builder.parameter("segments" if bags.segments else "offsets", index, [None])
    inputs = [source, indices, places]
    if bags.segments:
        inputs.append(builder.constant(np.array(bags.bags, bags.index)))
    if bags.weighted:
        inputs.append(builder.constant(np.array(-1, bags.index)))
        inputs.append(
            builder.parameter("weights", {"float32": "f32", "float16": "f16"}[bags.table], [None])
        )
    (sums,) = builder.add(
        "EmbeddingSegmentsSum" if bags.segments else "EmbeddingBagOffsetsSum", 3, *inputs
    )
    builder.result(sums, "sums")
    return builder.model()


def _functional(bags: Bags, table: Array, sets: Sequence[_Set]) -> Contender:
    weights = [s.weights if bags.weighted else None for s in sets]
    if bags.segments:
        return contenders_uncork.functional(
            lambda i: F.embedding_segments_sum(
                table, sets[i].indices, sets[i].segments, bags.bags, None, weights[i]
            )
        )
    return contenders_uncork.functional(
        lambda i: F.embedding_bag_offsets_sum(
            table, sets[i].indices, sets[i].offsets, None, weights[i]
        )
    )
