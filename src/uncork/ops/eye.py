"""Eye-9: matrices of zeros with ones on one diagonal.

    output[.., i, i + diagonal_index] = 1

Page: operation-specs/generation/eye-9. The formula holds for matrices that are not square too: the
page's remark on which indices leave a matrix without ones has rows and columns the wrong way round.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.shapes import require_one
from uncork.ops._common.vectors import count, sizes, vector
from uncork.ops._operation import Operation, register
from uncork.ops._ports import I32_I64, NUMERIC, Attribute, Input, Output, element_type
from uncork.types import Array, Element, ElementType, PartialShape, TensorSpec

#: f8e8m0 has no 0.
_TYPES = NUMERIC - {ElementType.f8e8m0}


@register("Eye", 9)
class Eye9(Operation):
    """`num_rows`, `num_columns`, `diagonal_index` `[]` or `[1]`, an optional `batch_shape [n]`."""

    num_rows = Input(I32_I64)
    num_columns = Input(I32_I64)
    diagonal_index = Input(I32_I64)
    batch_shape = Input(I32_I64, optional=True)
    output = Output()
    output_type = Attribute(
        element_type, check=lambda t: None if t in _TYPES else "a numeric type that has a 0"
    )

    def infer(
        self,
        num_rows: TensorSpec,
        num_columns: TensorSpec,
        diagonal_index: TensorSpec,
        batch_shape: TensorSpec | None,
    ) -> TensorSpec:
        sides: list[Element] = []
        for name, spec in (("num_rows", num_rows), ("num_columns", num_columns)):
            require_one(self, name, spec)
            sides.append(count(self, name, spec))
        require_one(self, "diagonal_index", diagonal_index)
        batch = [] if batch_shape is None else vector(self, "batch_shape", batch_shape)
        if batch is None:
            return TensorSpec(self.output_type, PartialShape())
        self.require(
            all(n is None or n >= 0 for n in batch),
            "input 'batch_shape': expected no negative numbers, got {}",
            batch,
        )
        lead = [] if batch_shape is None else sizes(self, "batch_shape", batch_shape)
        return TensorSpec(self.output_type, PartialShape([*lead, *sides]))

    def reference(
        self, num_rows: Array, num_columns: Array, diagonal_index: Array, batch_shape: Array | None
    ) -> Array:
        rows, columns, diagonal = (
            int(n.reshape(-1)[0]) for n in (num_rows, num_columns, diagonal_index)
        )
        batch = [] if batch_shape is None else batch_shape.tolist()
        output = np.zeros([*batch, rows, columns], np.uint8)
        diagonal = min(max(diagonal, -rows), columns)
        i = np.arange(max(0, -diagonal), min(rows, columns - diagonal))
        output[..., i, i + diagonal] = 1
        return output
