"""Internal operation: a constant of values of less than a byte that stays packed."""

from __future__ import annotations

import numpy as np

from uncork.concurrency import lazy
from uncork.files import let_go
from uncork.ops._ports import Field
from uncork.ops.parameter import Const
from uncork.storage import pack, packed_size, unpack
from uncork.types import Array, ElementType, PartialShape, TensorSpec

#: Values that are packed at a time; even in every type, so that parts end where bytes do.
_PART = 1 << 18
_LINE = 64


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

    @lazy
    def in_four_bits(self) -> Array:
        """The codes of a type of fewer bits in 4 bits each, as kernels read them. It is made in
        parts, since codes in bytes take several times the room, and begins at a cache line, as it
        would in a file.
        """
        held = ElementType.u4
        made = np.empty(packed_size(held, self.count) + _LINE, np.uint8)
        made = made[-made.ctypes.data % _LINE :][: len(made) - _LINE]
        for start in range(0, self.count, _PART):
            count = min(_PART, self.count - start)
            first = packed_size(self.element_type, start)
            part = self.packed[first : first + packed_size(self.element_type, count)]
            packed = np.frombuffer(
                pack(unpack(part.data, self.element_type, count), held), np.uint8
            )
            made[start // 2 : start // 2 + len(packed)] = packed
            # all so far: looking at a page brings those before it back
            let_go(self.packed[: first + len(part)])
        return made

    def infer(self) -> TensorSpec:
        return TensorSpec(self.element_type, self.shape)
