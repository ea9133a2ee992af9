"""What the embedding operations share: their first inputs, the checks of shapes and ids, the sum of
rows and the mean.

The order of summation is part of the meaning: the terms of a bag are added one by one by increasing
position, each product rounded before it is added, in the type of the table (f32 for f16 and bf16,
rounded once at the end). A bag of one term is that very term, the sign of a zero included.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._operation import Operation
from uncork.ops._ports import ARITHMETIC, I32_I64, Attribute, Input, Output, one_of
from uncork.types import Array, Dimension, PartialShape, TensorSpec

#: Elements of the table that are copied out at a time: the rows of all positions at once need not
#: fit in memory.
_BLOCK = 2**18


class Embedding(Operation):
    """An operation that sums rows of `emb_table [E, d...]` picked by `indices`, with as many more
    inputs as it likes.
    """

    emb_table = Input(ARITHMETIC, "T")
    indices = Input(I32_I64, "T_IND", ids=True)
    output = Output("T")

    def takes_mean(self) -> bool:
        """Whether the sums are divided by their numbers of terms."""
        return False

    def check_ranks(self, rank: int, **specs: TensorSpec | None) -> None:
        """Refuse inputs, given by their names, that do not have this rank."""
        expected = {0: "a scalar", 1: "one dimension"}.get(rank, f"{rank} dimensions")
        for name, spec in specs.items():
            if spec is not None:
                self.require(
                    spec.rank in (None, rank),
                    "input '{}': expected {}, got shape {}",
                    name,
                    expected,
                    spec.shape,
                )

    def check_one_each(self, indices: TensorSpec, **specs: TensorSpec | None) -> None:
        """Refuse inputs, given by name, that do not have exactly one value for each index."""
        for name, spec in specs.items():
            if spec is not None:
                template = "input '{}': expected shape {}, one value for each of 'indices', got {}"
                self.require(
                    spec.shape.agrees(indices.shape), template, name, indices.shape, spec.shape
                )

    def check_weights(self, indices: TensorSpec, per_sample_weights: TensorSpec | None) -> None:
        """Refuse weights that do not fit the indices, and any weights for a mean."""
        self.check_one_each(indices, per_sample_weights=per_sample_weights)
        self.require(
            per_sample_weights is None or not self.takes_mean(),
            "input 'per_sample_weights': a mean takes no weights, got some",
        )

    def rows(self, count: Dimension, table: TensorSpec) -> PartialShape:
        """The shape of `count` rows of the table."""
        if table.rank is None:
            return PartialShape()
        self.require(
            1 <= table.rank <= 8,
            "input 'emb_table': expected rows in 1 to 8 dimensions, got shape {}",
            table.shape,
        )
        return PartialShape([count]) + table.shape[1:]

    def check_indices(self, table: Array, indices: Array, first: int = 0) -> None:
        """Refuse an index without a row; positions before `first` are not looked up."""
        wrong = (indices < 0) | (indices >= len(table))
        wrong[:first] = False
        expected = below(len(table), "'emb_table' has no rows")
        refuse_first(self, "indices", indices, wrong, expected, 0, len(table) - 1)

    def summed(
        self,
        table: Array,
        indices: Array,
        owners: Array,
        count: int,
        weights: Array | None,
        default: Array | None = None,
        bag: str = "bag",
    ) -> Array:
        """`count` sums of `weights[i] * table[indices[i]]`, each over the positions i that it owns
        (`owners[i]`).

        A bag that owns nothing is zeros, or the row `default`, unweighted; indices and owners are
        in range.
        """
        columns = math.prod(table.shape[1:])
        rows = table.reshape(len(table), columns)
        sums = np.zeros((count, columns), table.dtype)
        if default is not None and int(default) != -1:
            empty = _first_missing(owners)
            if empty < count:
                row = int(default)
                if not 0 <= row < len(table):
                    expected = below(len(table), "'emb_table' has no rows")
                    self.refuse(
                        "input 'default_index': expected -1 (zeros) or {}, got {}: {} {} is empty",
                        expected,
                        row,
                        bag,
                        empty,
                    )
                sums[:] = rows[row]
        # Not 0: -0.0 is what a sum of floats starts from to leave its first term as it is.
        sums[owners] = -0.0
        step = max(1, _BLOCK // max(1, columns))
        for start in range(0, len(indices), step):
            part = slice(start, start + step)
            terms = rows[indices[part]]
            if weights is not None:
                terms = terms * weights[part, np.newaxis]
            np.add.at(sums, owners[part], terms)
        return sums.reshape(count, *table.shape[1:])


class ReducedEmbedding(Embedding):
    """An embedding operation with the choice between sums and means."""

    reduction = Attribute(one_of("sum", "mean"), default="sum")

    def takes_mean(self) -> bool:
        return self.reduction == "mean"


def averaged(sums: Array, sizes: Array) -> Array:
    """Sums divided by their numbers of terms; integers truncate toward zero. A row that sums
    nothing stays as it is.
    """
    counts = np.maximum(sizes, 1).reshape(-1, *(1,) * (sums.ndim - 1))
    if sums.dtype.kind == "f":
        return np.asarray(sums / counts.astype(sums.dtype))
    # A bag may have more terms than a small integer type can count.
    counts = counts.astype(np.uint64 if sums.dtype == np.uint64 else np.int64)
    return np.asarray((sums - np.fmod(sums, counts)) // counts)


def below(size: int, otherwise: str) -> str:
    """How a message names the numbers 0 to size - 1; `otherwise` tells why there are none."""
    return f"0 to {size - 1}" if size else f"none: {otherwise}"


def _first_missing(owners: Array) -> int:
    """The smallest bag that owns no position."""
    ordered = np.sort(owners)
    present = ordered[np.diff(ordered, prepend=-1) != 0]
    gaps = np.flatnonzero(present != np.arange(len(present)))
    return int(gaps[0]) if len(gaps) else len(present)
