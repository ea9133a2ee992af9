"""Internal operations: layers whose data tell the size of the result, each as two layers.

The count is a tensor of one i64. Shapes read it as they read any number, so that what comes after
has sizes like all others.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.vectors import size
from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, I32_I64, STRING, Field, Input, Output
from uncork.ops.non_zero import NonZero3
from uncork.ops.sparse_fill_empty_rows import SparseFillEmptyRows16
from uncork.ops.unique import Unique10
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec

#: What a layer that counts gives.
_ONE = TensorSpec(ElementType.i64, PartialShape([1]))


def counted(operation: Operation, count: TensorSpec, bounds: Dimension) -> Dimension:
    """The dimension that a count gives; where the count is unknown, 0 to the upper bound."""
    element = size(operation, "count", count)
    return Dimension(0, bounds.high) if element is None else Dimension.of(element)


class NonZeroCount(Operation):
    """`data` of any shape to how many of its elements are not 0."""

    data = Input(ANY - STRING)
    count = Output()

    def infer(self, data: TensorSpec) -> TensorSpec:
        return _ONE

    def reference(self, data: Array) -> Array:
        return np.array([np.count_nonzero(data)])


class NonZeroPlaces(Operation):
    """The places that NonZero gives of `data`, of which so many elements are not 0."""

    data = Input(ANY - STRING)
    count = Input(I32_I64)
    output = Output()

    layer = Field[NonZero3]()

    def infer(self, data: TensorSpec, count: TensorSpec) -> TensorSpec:
        found = self.layer.infer(data)
        return TensorSpec(
            found.element_type, PartialShape([found.shape[0], counted(self, count, found.shape[1])])
        )

    def reference(self, data: Array, count: Array) -> Array:
        return self.layer.reference(data)


class SortedPlaces(Operation):
    """`data [n..]` flattened to the places of its elements in ascending order, and how many
    different ones there are.
    """

    data = Input(ANY - STRING)
    places = Output()
    count = Output()

    def infer(self, data: TensorSpec) -> list[TensorSpec]:
        return [TensorSpec(ElementType.i32, PartialShape([data.shape.size])), _ONE]

    def reference(self, data: Array) -> list[Array]:
        flat = data.reshape(-1)
        order = np.argsort(flat, kind="stable")
        return [
            order,
            np.array([np.count_nonzero(flat[order][1:] != flat[order][:-1]) + (flat.size > 0)]),
        ]


class UniqueElements(Operation):
    """The elements that Unique gives of flattened `data`, whose places are sorted and of which so
    many are different.
    """

    data = Input(ANY - STRING, "T")
    places = Input(I32_I64)
    count = Input(I32_I64)
    unique_elements = Output("T")
    indices = Output()
    reverse_indices = Output()
    counts = Output()

    layer = Field[Unique10]()

    def infer(self, data: TensorSpec, places: TensorSpec, count: TensorSpec) -> list[TensorSpec]:
        found = self.layer.infer(data, None)
        number = PartialShape([counted(self, count, found[0].shape[0])])
        return [
            TensorSpec(spec.element_type, spec.shape if i == 2 else number)
            for i, spec in enumerate(found)
        ]

    def reference(self, data: Array, places: Array, count: Array) -> list[Array]:
        return self.layer.reference(data, None)


class FilledCount(Operation):
    """`dense_shape [2]`, `indices [m, 2]` to the entries that SparseFillEmptyRows makes of them."""

    dense_shape = Input(I32_I64, "I")
    indices = Input(I32_I64, "I")
    count = Output()

    def infer(self, dense_shape: TensorSpec, indices: TensorSpec) -> TensorSpec:
        return _ONE

    def reference(self, dense_shape: Array, indices: Array) -> Array:
        rows = indices[:, 0]
        # others are refused by who fills
        present = np.unique(rows[(rows >= 0) & (rows < dense_shape[0])])
        return np.array([len(indices) + int(dense_shape[0]) - len(present)])


class FilledRows(Operation):
    """The rows that SparseFillEmptyRows gives, which have so many entries."""

    values = Input(ANY, "T", moved=True)
    dense_shape = Input(I32_I64, "I")
    indices = Input(I32_I64, "I")
    default_value = Input(ANY, "T", moved=True)
    count = Input(I32_I64)
    output_indices = Output("I")
    output_values = Output("T")
    empty_row_indicator = Output(ElementType.boolean)

    layer = Field[SparseFillEmptyRows16]()

    def infer(
        self,
        values: TensorSpec,
        dense_shape: TensorSpec,
        indices: TensorSpec,
        default_value: TensorSpec,
        count: TensorSpec,
    ) -> list[PartialShape]:
        places, _, rows = self.layer.infer(values, dense_shape, indices, default_value)
        total = counted(self, count, places[0])
        return [PartialShape([total, 2]), PartialShape([total]), rows]

    def reference(
        self, values: Array, dense_shape: Array, indices: Array, default_value: Array, count: Array
    ) -> list[Array]:
        return self.layer.reference(values, dense_shape, indices, default_value)


class SegmentCount(Operation):
    """`segment_ids [n]` in ascending order to how many segments there are: one more than the
    last.
    """

    segment_ids = Input(I32_I64)
    count = Output()

    def infer(self, segment_ids: TensorSpec) -> TensorSpec:
        return TensorSpec(ElementType.i64, PartialShape([]))

    def reference(self, segment_ids: Array) -> Array:
        return np.array(int(segment_ids[-1]) + 1 if segment_ids.size else 0)
