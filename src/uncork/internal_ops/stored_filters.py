"""Internal operation: the filters of convolutions as they are stored in few bits."""

from __future__ import annotations

from msgspec import Struct

from uncork.internal_ops.compressed_linear import CompressedMatrix
from uncork.internal_ops.made_constant import MadeConstant
from uncork.ops._ports import Field
from uncork.types import Array


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
    def sources(self) -> list[Array]:
        """The arrays that the filters are made of."""
        numbers = [] if self.matrix.numbers is None else [self.matrix.numbers]
        return [self.matrix.codes, *self.matrix.operands, *numbers]


class StoredConstant(MadeConstant):
    """A constant of f32 that has its filters as they are stored."""

    type_name, opset = "StoredConstant", 0

    filters = Field[StoredFilters]()
