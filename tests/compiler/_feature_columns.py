"""Models that look a sparse matrix of ids up row by row, in the ways in which people and converters
write it. Ids below 0 are left out.

Each is a function of a builder and a table; its inputs are `values [m]`, `indices [m, 2]`, `shape
[2]` and, where it is weighted, `weights [m]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import uncork
from uncork.ir.model import Source


class _Layers:
    """Short words for layers of one output."""

    def __init__(self, b: uncork.Builder, table: np.ndarray) -> None:
        self.b, self.table = b, b.constant(table)
        self.columns = table.shape[1]
        self.values = b.parameter("values", "i64", [None])
        self.indices = b.parameter("indices", "i64", [None, 2])
        self.shape = b.parameter("shape", "i64", [2])

    def integer(self, value: Any) -> Source:
        return self.b.constant(np.array(value, np.int64))

    def number(self, value: Any) -> Source:
        return self.b.constant(np.array(value, np.float32))

    def add(self, kind: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return self.b.add(kind, opset, *inputs, **attributes)[0]

    def gather(self, data: Source, indices: Source, axis: int = 0) -> Source:
        return self.add("Gather", 8, data, indices, self.integer(axis))

    def reshape(self, data: Source, shape: list[int]) -> Source:
        return self.add("Reshape", 1, data, self.integer(shape), special_zero=False)

    def column(self, numbers: Source) -> Source:
        return self.add("Unsqueeze", 1, numbers, self.integer([1]))

    def rows(self) -> Source:
        """How many rows there are."""
        return self.gather(self.shape, self.integer(0))

    def kept(self) -> Source:
        """The places of ids that count, by NonZero."""
        condition = self.add("GreaterEqual", 1, self.values, self.integer([0]))
        return self.reshape(self.add("NonZero", 3, condition, output_type="i64"), [-1])

    def kept_entries(self) -> tuple[Source, Source]:
        """Ids that count, and the row of each."""
        kept = self.kept()
        first = self.gather(self.indices, self.integer(0), 1)
        return self.gather(self.values, kept), self.gather(first, kept)

    def segments(self, ids: Source, rows: Source, *more: Source) -> Source:
        return self.add("EmbeddingSegmentsSum", 3, self.table, ids, rows, self.rows(), *more)

    def ones(self, like: Source) -> Source:
        return self.add("Broadcast", 3, self.integer(1), self.add("ShapeOf", 3, like))

    def counts(self, rows: Source) -> Source:
        """How many entries each row has, by Unique and ScatterElementsUpdate."""
        unique = self.b.add("Unique", 10, rows, sorted=True)
        zeros = self.add("Broadcast", 3, self.integer(0), self.reshape(self.rows(), [1]))
        return self.add("ScatterElementsUpdate", 3, zeros, unique[0], unique[3], self.integer(0))

    def divided(self, sums: Source, counts: Source, root: bool = False) -> Source:
        """Sums over counts, or their roots; where there is nothing, nothing."""
        least = self.add("Maximum", 1, counts, self.integer(1))
        numbers = self.add("Convert", 1, least, destination_type="f32")
        if root:
            numbers = self.add("Sqrt", 1, numbers)
        return self.add("Divide", 1, sums, self.column(numbers))


def mean_of_unique(b: uncork.Builder, table: np.ndarray) -> Source:
    """Each different id is looked up once; counts by Unique."""
    layers = _Layers(b, table)
    ids, rows = layers.kept_entries()
    unique = b.add("Unique", 10, ids, sorted=False, index_element_type="i32")
    places = layers.add("Convert", 1, unique[2], destination_type="i64")
    found = layers.gather(layers.table, unique[0])
    sums = layers.add("EmbeddingSegmentsSum", 3, found, places, rows, layers.rows())
    return layers.divided(sums, layers.counts(rows))


def plain_mean(b: uncork.Builder, table: np.ndarray) -> Source:
    """Without Unique; counts are a sum of ones by segment."""
    layers = _Layers(b, table)
    ids, rows = layers.kept_entries()
    one, zeros = layers.number([[1.0]]), layers.add("Multiply", 1, rows, layers.integer(0))
    counts = layers.add("EmbeddingSegmentsSum", 3, one, zeros, rows, layers.rows())
    least = layers.add("Maximum", 1, counts, layers.number(1.0))
    return layers.add("Divide", 1, layers.segments(ids, rows), least)


def root_of_tuples(b: uncork.Builder, table: np.ndarray) -> Source:
    """GatherND by transposed places; sums over the roots of counts."""
    layers = _Layers(b, table)
    condition = layers.add("GreaterEqual", 1, layers.values, layers.integer([0]))
    places = layers.add(
        "Transpose",
        1,
        layers.add("NonZero", 3, condition, output_type="i64"),
        layers.integer([1, 0]),
    )
    ids = layers.add("GatherND", 8, layers.values, places)
    entries = layers.add("GatherND", 8, layers.indices, places)
    rows = layers.gather(entries, layers.integer(0), 1)
    sums = layers.segments(ids, rows)
    return layers.divided(sums, layers.counts(rows), root=True)


def filled_sum(b: uncork.Builder, table: np.ndarray) -> Source:
    """SparseFillEmptyRows with a row of zeros behind the table for what is empty."""
    zeros = np.zeros((1, table.shape[1]), np.float32)
    layers = _Layers(b, np.concatenate([table, zeros]))
    kept = layers.kept()
    places, ids, _ = b.add(
        "SparseFillEmptyRows",
        16,
        layers.gather(layers.values, kept),
        layers.shape,
        layers.gather(layers.indices, kept),
        layers.integer(len(table)),
    )
    unique = b.add("Unique", 10, ids, sorted=True)
    rows = layers.gather(places, layers.integer(0), 1)
    found = layers.gather(layers.gather(layers.table, unique[0]), unique[2])
    every = layers.add(
        "Range",
        4,
        layers.integer(0),
        layers.gather(layers.add("ShapeOf", 3, rows), layers.integer(0)),
        layers.integer(1),
        output_type="i64",
    )
    return layers.add("EmbeddingSegmentsSum", 3, found, every, rows, layers.rows())


def mean_of_bags(b: uncork.Builder, table: np.ndarray) -> Source:
    """Bags by offsets, which are running sums of counts."""
    layers = _Layers(b, table)
    ids, rows = layers.kept_entries()
    counts = layers.counts(rows)
    offsets = layers.add("CumSum", 3, counts, layers.integer(0), exclusive=True)
    sums = layers.add("EmbeddingBagOffsetsSum", 3, layers.table, ids, offsets)
    return layers.divided(sums, counts)


def weighted_sum(b: uncork.Builder, table: np.ndarray) -> Source:
    """Weights of segments; different ids once."""
    layers = _Layers(b, table)
    weights = b.parameter("weights", "f32", [None])
    kept = layers.kept()
    ids, rows = layers.kept_entries()
    unique = b.add("Unique", 10, ids, sorted=True)
    found = layers.gather(layers.table, unique[0])
    return layers.add(
        "EmbeddingSegmentsSum",
        3,
        found,
        unique[2],
        rows,
        layers.rows(),
        layers.integer(-1),
        layers.gather(weights, kept),
    )


@dataclass(frozen=True)
class Spelling:
    """A way to write a look-up, and what it does with the rows of an entry."""

    build: Callable[[uncork.Builder, np.ndarray], Source]
    combiner: str
    weighted: bool = False


SPELLINGS = {
    "mean of unique": Spelling(mean_of_unique, "mean"),
    "plain mean": Spelling(plain_mean, "mean"),
    "root of tuples": Spelling(root_of_tuples, "sqrtn"),
    "filled sum": Spelling(filled_sum, "sum"),
    "mean of bags": Spelling(mean_of_bags, "mean"),
    "weighted sum": Spelling(weighted_sum, "sum", weighted=True),
}


def spelled(name: str, table: np.ndarray) -> uncork.Model:
    """The model of one spelling."""
    builder = uncork.Builder(name)
    builder.result(SPELLINGS[name].build(builder, table), "y")
    return builder.model()


def combined(
    spelling: Spelling,
    table: np.ndarray,
    values: np.ndarray,
    indices: np.ndarray,
    rows: int,
    weights: np.ndarray,
) -> np.ndarray:
    """What a spelling gives, row by row."""
    result = np.zeros((rows, table.shape[1]))
    for row in range(rows):
        kept = [i for i in range(len(values)) if indices[i, 0] == row and values[i] >= 0]
        for i in kept:
            result[row] += table[values[i]] * (float(weights[i]) if spelling.weighted else 1.0)
        if kept and spelling.combiner != "sum":
            result[row] /= len(kept) if spelling.combiner == "mean" else np.sqrt(len(kept))
    return result
