"""Internal operation: a constant of values of less than a byte that stays packed."""

from __future__ import annotations

from uncork.concurrency import lazy
from uncork.ops._ports import Field
from uncork.ops.parameter import Const
from uncork.storage import unpack
from uncork.types import Array, ElementType, PartialShape, TensorSpec


class PackedConst(Const):
    """A constant of values of less than a byte that stays as `model.bin` has it: of 4 bits two a
    byte, the first in the low bits.

    `packed` are those bytes, flat. `value` is unpacked when it is first asked for, and kept, as the
    references need; neither inference nor a pass asks.
    """

    packed = Field[Array]()

    @staticmethod
    def of(element_type: ElementType, shape: tuple[int, ...], packed: Array) -> PackedConst:
        return PackedConst(element_type=element_type, shape=PartialShape(shape), packed=packed)

    @lazy
    def value(self) -> Array:
        return self.unpacked()

    def unpacked(self) -> Array:
        """The values, which are not kept: for passes, which ask once."""
        return unpack(self.packed.data, self.element_type, self.count).reshape(self.shape.static)

    def infer(self) -> TensorSpec:
        return TensorSpec(self.element_type, self.shape)
