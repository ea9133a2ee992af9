"""Internal operation: the sparse embedding look-up of TensorFlow's feature columns.

A sparse matrix of ids, each row a bag: entries with a negative id are left out, the rest is looked
up and summed row by row, or averaged; rows without entries are zeros. Converters write it as thirty
layers.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import Operation
from uncork.ops._ports import I32_I64, REAL, Field, Input, Output
from uncork.types import Array, PartialShape, TensorSpec


class SparseLookup(Operation):
    """`table [E, d]`, `values [m]`, `indices [m, 2]`, `dense_shape [2]` to `[dense_shape[0], d]`.

    `fill` brings the entries into order and refuses those outside of the matrix, `gather` looks ids
    up, `pick` takes the indices of ids that are not negative: they are the layers themselves.
    Without `pick` there is no layer that leaves ids out.
    """

    type_name, opset = "SparseLookup", 0
    table = Input(REAL, "T")
    values = Input(I32_I64, "V")
    indices = Input(I32_I64, "I")
    dense_shape = Input(I32_I64, "I")
    output = Output("T")

    fill = Field[Operation]()
    gather = Field[Operation]()
    pick = Field[Operation | None]()
    mean = Field[bool]()

    def __init__(
        self, fill: Operation, gather: Operation, pick: Operation | None, mean: bool
    ) -> None:
        super().__init__(fill=fill, gather=gather, pick=pick, mean=mean)

    def infer(
        self, table: TensorSpec, values: TensorSpec, indices: TensorSpec, dense_shape: TensorSpec
    ) -> PartialShape:
        default = TensorSpec(values.element_type, PartialShape([]))
        # how many are left is not known, and indices past the values are not looked at
        if self.pick is not None:
            values = TensorSpec(values.element_type, PartialShape([None]))
            indices = TensorSpec(indices.element_type, PartialShape([None, *indices.shape[1:]]))
        rows = self.fill.describe([values, dense_shape, indices, default])[2].shape[0]
        return PartialShape([rows, table.shape[1]])

    def reference(self, table: Array, values: Array, indices: Array, dense_shape: Array) -> Array:
        if self.pick is not None:
            kept = np.flatnonzero(values >= 0)
            values, indices = (
                values[kept],
                np.asarray(self.pick.reference(indices, kept, np.int64(0))),
            )
        default = np.zeros((), values.dtype)
        places, ids, empty = (
            np.asarray(a) for a in self.fill.reference(values, dense_shape, indices, default)
        )
        looked_up = np.asarray(self.gather.reference(table, ids, np.int64(0)))
        result = np.zeros((len(empty), table.shape[1]), table.dtype)
        np.add.at(result, places[:, 0], looked_up)
        if self.mean:
            counts = np.bincount(places[:, 0], minlength=len(empty)).astype(table.dtype)
            result = result / counts[:, np.newaxis]
        result[empty] = 0
        return result
