"""Internal operation: a tensor in another shape.

The compiler makes it of layers that move nothing for the shapes of a call.
"""

from __future__ import annotations

from uncork.ops._operation import Moving
from uncork.ops._ports import Field
from uncork.types import Array, PartialShape, TensorSpec


class View(Moving):
    """The elements of `data` in the same order, in the shape `shape`."""

    shape = Field[PartialShape]()

    def infer(self, data: TensorSpec) -> PartialShape:
        self.require(
            data.shape.size.agrees(self.shape.size),
            "data {} does not have the elements of {}",
            data.shape,
            self.shape,
        )
        return self.shape

    def reference(self, data: Array) -> Array:
        return data.reshape(self.shape.static)
