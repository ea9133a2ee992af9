"""Unique-10: each value of a tensor, or each slice along an axis, once.

    unique_elements   the values, in ascending order or (sorted = false) in the order in which they
                      first occur
    indices           where each first occurs in the input (flattened when no axis is given)
    reverse_indices   for each place of the input its place in unique_elements
    counts            how often each occurs

Page: operation-specs/movement/unique-10. Slices are compared by their elements in row-major order,
strings by their characters' code points. NaN equals nothing, so each is an element of its own; they
stand after all numbers. Of -0.0 and 0.0, which are equal, the first one is given. The axis need not
be a constant.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.ops._common.vectors import axis_along
from uncork.ops._operation import Operation, register
from uncork.ops._ports import (
    ANY,
    I32_I64,
    Attribute,
    Input,
    Output,
    boolean,
    index_type,
)
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec


@register("Unique", 10)
class Unique10(Operation):
    """`data` of any shape, and optionally `axis []` or `[1]`."""

    data = Input(ANY, "T")
    axis = Input(I32_I64, optional=True)
    unique_elements = Output("T")
    indices = Output()
    reverse_indices = Output()
    counts = Output()
    sorted = Attribute(boolean, default=True)
    index_element_type = index_type()
    count_element_type = index_type()

    def infer(self, data: TensorSpec, axis: TensorSpec | None) -> list[TensorSpec]:
        along = None if axis is None else axis_along(self, data, axis, "slice")
        if along is not None:
            count = data.shape[along]
        else:
            count = data.shape.size if axis is None else DYNAMIC
        found = Dimension(min(count.low, 1), count.high)
        if axis is None:
            shape = PartialShape([found])
        elif along is None:
            shape = PartialShape(None if data.rank is None else [None] * data.rank)
        else:
            shape = data.shape.with_dimension(along, found)
        return [
            TensorSpec(data.element_type, shape),
            TensorSpec(self.index_element_type, PartialShape([found])),
            TensorSpec(self.index_element_type, PartialShape([count])),
            TensorSpec(self.count_element_type, PartialShape([found])),
        ]

    def reference(self, data: Array, axis: Array | None) -> list[Array]:
        along = 0 if axis is None else int(axis.reshape(-1)[0])
        table = data.reshape(-1, 1) if axis is None else np.moveaxis(data, along, 0)
        rows = _comparable(table.reshape(table.shape[0], math.prod(table.shape[1:])))
        # Sorting is stable: of equal rows the first one comes first.
        order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
        begins = np.ones(len(rows), bool)
        begins[1:] = (rows[order][1:] != rows[order][:-1]).any(1)
        first = order[begins]
        reverse = np.empty(len(rows), np.int64)
        reverse[order] = np.cumsum(begins) - 1
        if not self.sorted:
            by_place = np.argsort(first)
            first, reverse = first[by_place], np.argsort(by_place)[reverse]
        unique = (
            np.ascontiguousarray(np.moveaxis(table[first], 0, along))
            if axis is not None
            else table[first, 0]
        )
        return [unique, first, reverse, np.bincount(reverse, minlength=len(first))]


def _comparable(rows: Array) -> Array:
    """The rows with numbers in the order of the strings in place of strings; numbers stay as they
    are.
    """
    if rows.dtype != object:
        return rows
    ranks = {text: rank for rank, text in enumerate(sorted(set(rows.ravel().tolist())))}
    return np.array([ranks[text] for text in rows.ravel().tolist()], np.int64).reshape(rows.shape)
