"""Internal operation: rows of a table of states, written in place.

The states of many sessions are rows of one table. A step reads some rows by their numbers, as any
Gather does, and writes what comes after into other rows, which are nobody's meanwhile: so a step
that fails has changed nothing, and one that has succeeded is told by the numbers of its new rows.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, I32_I64, STRING, Field, Input, Output
from uncork.types import Array, ElementType, PartialShape, TensorSpec


class StoreRows(Operation):
    """`new`, a row for each number in `rows`, written into these rows of the table; the output is
    empty, and there so that somebody asks for the layer.
    """

    table = Input(ANY - STRING, "T", moved=True)
    rows = Input(I32_I64)
    new = Input(ANY - STRING, "T", moved=True)
    written = Output()

    #: What the rows are the states of.
    variable = Field[str]()

    def infer(self, table: TensorSpec, rows: TensorSpec, new: TensorSpec) -> TensorSpec:
        wanted = PartialShape([rows.shape[0], *table.shape.dims[1:]])
        self.require(
            wanted.merge(new.shape) is not None,
            "the model assigned shape {} to variable '{}', and sessions keep {}: states of one "
            "size",
            new.shape,
            self.variable,
            wanted,
        )
        return TensorSpec(ElementType.u8, PartialShape([0]))

    def reference(self, table: Array, rows: Array, new: Array) -> Array:
        table[rows] = new
        return np.empty(0, np.uint8)
