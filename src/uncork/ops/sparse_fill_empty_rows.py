"""SparseFillEmptyRows-16: a sparse matrix, with an entry in column 0 of every row that had none.

Outputs: the indices and values of all entries in row-major order, and for each row whether it was
empty. Page: operation-specs/sparse/fill-empty-rows-16. Entries at the same place keep their order.
An index outside dense_shape is refused. Rows of no columns are filled all the same, although their
entries lie outside (refused with `strict`). Strings and all other types pass.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._common.shapes import require_rank
from uncork.ops._common.vectors import length, vector
from uncork.ops._common.vectors import sizes as sizes_of
from uncork.ops._operation import FOLD_LIMIT, Operation, register
from uncork.ops._ports import ANY, I32_I64, Input, Output
from uncork.types import DYNAMIC, Array, Dimension, ElementType, PartialShape, TensorSpec


@register("SparseFillEmptyRows", 16)
class SparseFillEmptyRows16(Operation):
    """`values [m]`, `dense_shape [2]`, `indices [m, 2]`, `default_value []`."""

    values = Input(ANY, "T", moved=True)
    dense_shape = Input(I32_I64, "I")
    indices = Input(I32_I64, "I")
    default_value = Input(ANY, "T", moved=True)
    output_indices = Output("I")
    output_values = Output("T")
    empty_row_indicator = Output(ElementType.boolean)

    def infer(
        self,
        values: TensorSpec,
        dense_shape: TensorSpec,
        indices: TensorSpec,
        default_value: TensorSpec,
    ) -> list[PartialShape]:
        require_rank(self, "values", values, 1)
        require_rank(self, "default_value", default_value, 0)
        sizes = vector(self, "dense_shape", dense_shape)
        self.require(
            length(dense_shape).agrees(2),
            "input 'dense_shape': expected 2 numbers, got shape {}",
            dense_shape.shape,
        )
        self.require(
            all(n is None or n >= 0 for n in sizes or []),
            "input 'dense_shape': expected no negative numbers, got {}",
            sizes,
        )
        entries = DYNAMIC if values.rank is None else values.shape[0]
        self.require(
            indices.shape.agrees(PartialShape([entries, 2])),
            "input 'indices': expected shape {}, two indices for each of the values, got {}",
            PartialShape([entries, 2]),
            indices.shape,
        )
        entries = entries if indices.rank is None else indices.shape[0].merge(entries) or entries
        elements = sizes_of(self, "dense_shape", dense_shape)
        rows = sizes[0] if sizes else None
        total = entries + self.empty_rows(rows, entries, indices)
        return [
            PartialShape([total, 2]),
            PartialShape([total]),
            PartialShape([elements[0] if elements else None]),
        ]

    def empty_rows(self, rows: int | None, entries: Dimension, indices: TensorSpec) -> Dimension:
        """How many rows can be empty."""
        if rows is None or entries.is_open:
            return DYNAMIC
        if indices.value is not None and indices.value.size <= FOLD_LIMIT:
            full = {row for row in indices.value[:, 0].tolist() if 0 <= row < rows}
            return Dimension.of(rows - len(full))
        return Dimension(
            0 if entries.high is None else max(0, rows - entries.high),
            rows - (1 if rows and entries.low else 0),
        )

    def reference(
        self, values: Array, dense_shape: Array, indices: Array, default_value: Array
    ) -> list[Array]:
        wrong = (indices < 0) | (indices >= dense_shape)
        refuse_first(
            self, "indices", indices, wrong, f"an index within dense_shape {dense_shape.tolist()}"
        )
        empty = np.ones(int(dense_shape[0]), bool)
        empty[indices[:, 0]] = False
        missing = np.flatnonzero(empty).astype(indices.dtype)
        if self.strict and len(missing) and dense_shape[1] == 0:
            self.refuse(
                "input 'dense_shape': row {} is empty and has no column for the default value",
                missing[0],
            )
        places = np.concatenate([indices, np.stack([missing, np.zeros_like(missing)], 1)])
        filled = np.concatenate([values, np.full(len(missing), default_value, values.dtype)])
        order = np.lexsort((places[:, 1], places[:, 0]))  # stable
        return [places[order], filled[order], empty]
