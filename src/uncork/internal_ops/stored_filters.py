"""Internal operation: the filters of convolutions as they are stored in few bits."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from uncork.internal_ops.compressed_linear import CompressedMatrix
from uncork.internal_ops.quantized import Remade
from uncork.ops._ports import Field
from uncork.ops.parameter import Const
from uncork.types import Array, TensorSpec


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


class StoredConstant(Const):
    """A constant of f32 that has its filters as they are stored. Its value is made when somebody
    asks for it, and forgotten with the last who has it: kernels that read the codes never ask.
    """

    type_name, opset = "StoredConstant", 0

    filters = Field[StoredFilters]()
    make = Field[Remade]()

    @property
    def value(self) -> Array:  # type: ignore[override]
        return np.asarray(self.make())

    def infer(self) -> TensorSpec:
        return TensorSpec(self.element_type, self.shape)
