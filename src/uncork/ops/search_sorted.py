"""SearchSorted-15: where values belong in sorted rows.

    output[p.., j] = the number of elements < values[p.., j] in row p.. of sorted_sequence
                     (<= with right_mode)

Page: operation-specs/sort/search-sorted-15. A sequence of one dimension serves values of any shape.
NaN counts as greater than every number and may stand at the end of a row. Rows that are not sorted
are refused.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from uncork.ops._operation import Operation, register
from uncork.ops._ports import (
    NUMERIC,
    Attribute,
    Input,
    Output,
    boolean,
    index_type,
)
from uncork.ops.bucketize import refuse_unsorted
from uncork.types import Array, PartialShape, TensorSpec


@register("SearchSorted", 15)
class SearchSorted15(Operation):
    """`sorted_sequence [n]` and `values` of any shape, or `[p.., n]` and `[p.., m]`."""

    sorted_sequence = Input(NUMERIC, "T")
    values = Input(NUMERIC, "T")
    output = Output()
    right_mode = Attribute(boolean, default=False)
    #: Not on the page, but in files.
    output_type = index_type()

    def infer(self, sorted_sequence: TensorSpec, values: TensorSpec) -> TensorSpec:
        row, wanted = sorted_sequence.shape, values.shape
        self.require(
            row.rank != 0, "input 'sorted_sequence' is a scalar: there is no row to search"
        )
        if row.rank is None or row.rank == 1:
            return TensorSpec(self.output_type, wanted)
        if wanted.rank is None:
            wanted = PartialShape([None] * row.rank)
        lead = self.wanted(
            row[:-1].merge(wanted[:-1]) if row.rank == wanted.rank else None,
            "expected equal dimensions but the last, got sorted_sequence {} and values {}",
            row,
            values.shape,
        )
        return TensorSpec(self.output_type, PartialShape(lead) + wanted[-1:])

    def reference(self, sorted_sequence: Array, values: Array) -> Array:
        refuse_unsorted(self, "sorted_sequence", sorted_sequence)
        side: Literal["left", "right"] = "right" if self.right_mode else "left"
        if sorted_sequence.ndim == 1:
            return np.asarray(np.searchsorted(sorted_sequence, values, side))
        output = np.empty(values.shape, np.int64)
        for row in np.ndindex(*values.shape[:-1]):
            output[row] = np.searchsorted(sorted_sequence[row], values[row], side)
        return output
