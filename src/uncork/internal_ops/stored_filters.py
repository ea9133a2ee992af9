"""Internal operation: the filters of convolutions as they are stored in few bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.compressed_linear import CompressedMatrix
from uncork.internal_ops.made_constant import MadeConstant
from uncork.ops._ports import Field
from uncork.types import Array

Fill = Callable[[Array], Array]


class StoredFilters(Struct, frozen=True, eq=False):
    """Filters of a shape, of which each output is a column of a matrix: zero points and scales are
    one for all or one for each output.
    """

    matrix: CompressedMatrix
    shape: tuple[int, ...]

    def codes(self) -> Array:
        """The codes as carrier values, in the shape of the filters."""
        return self.matrix.carriers().reshape(self.shape)

    def values(self) -> Array:
        """The filters in f32, which are not kept."""
        return self.matrix.values().reshape(self.shape)

    @property
    def has_zeros(self) -> bool:
        """Whether a code of 0 stands for 0, whatever the scales are."""
        matrix = self.matrix
        subtracted = any(step.subtracts for step in matrix.later)
        return matrix.numbers is None and matrix.zero_points is None and not subtracted

    def with_zeros(self, fill: Fill, fill_outputs: Fill) -> StoredFilters:
        """The filters with zeros, which stand where `fill` puts them in the shape of the filters,
        and `fill_outputs` in what there is of each output.
        """
        matrix, codes = self.matrix, fill(self.codes())

        def filled(operand: Array) -> Array:
            return fill_outputs(operand) if len(operand) > 1 else operand

        later = tuple(replace(step, operand=filled(step.operand)) for step in matrix.later)
        scales = None if matrix.scales is None else filled(matrix.scales)
        columns = len(fill_outputs(np.empty(matrix.shape[0], np.bool_)))
        held = codes.reshape(columns, 1, -1)
        made = replace(matrix, codes=held, axes=(0, 1, 2), packed=None, scales=scales, later=later)
        return StoredFilters(made, codes.shape)

    @property
    def sources(self) -> list[Array]:
        """The arrays that the filters are made of."""
        numbers = [] if self.matrix.numbers is None else [self.matrix.numbers]
        return [self.matrix.codes, *self.matrix.operands, *numbers]


class StoredConstant(MadeConstant):
    """A constant of f32 that has its filters as they are stored."""

    type_name, opset = "StoredConstant", 0

    filters = Field[StoredFilters]()
