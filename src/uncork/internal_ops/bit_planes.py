"""Codes of 1, 2, 3 and 6 bits as kernels read them: in no more bits than they have, and so that a
few instructions make codes of 4 or 8 bits of them.

A block has as many codes as 64 bytes have of the wider type. Its bits lie in planes, the lowest
ones first: a plane of `b` bits is `64 b / wide` bytes, in which every field of the wider type has
the bits of several codes. Its lowest ones are those of the code at this place of the 64 bytes, the
next ones those of the code as many bytes behind it as the plane has, and so on: the block is the
plane, then the plane shifted, each masked. Files have u3 and u6 otherwise (see `uncork.storage`),
which takes more instructions, and u2 four to a byte, which are as many bits.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from uncork.types import Array, ElementType

#: Bytes of a block of codes of the wider type.
BLOCK_BYTES = 64


class Plane(Struct, frozen=True):
    """A part of the bits of every code: how many, and the first of them."""

    bits: int
    first: int = 0

    def field(self, wide: int) -> int:
        """The bits of a byte that the lowest codes of a plane take."""
        mask = (1 << self.bits) - 1
        return sum(mask << at for at in range(0, 8, wide))


class BitPlanes(Struct, frozen=True):
    """The planes of a type, and the wider type that a kernel makes of its codes."""

    wide: ElementType
    planes: tuple[Plane, ...]

    @property
    def count(self) -> int:
        """The codes of a block."""
        return BLOCK_BYTES * 8 // self.wide.bits

    def size(self, plane: Plane) -> int:
        """Bytes of a plane of a block."""
        return BLOCK_BYTES * plane.bits // self.wide.bits

    @property
    def block(self) -> int:
        """Bytes of a block."""
        return sum(map(self.size, self.planes))

    def row(self, count: int) -> int:
        """Bytes of so many codes, in whole blocks."""
        return -(-count // self.count) * self.block

    def spares(self, count: int) -> bool:
        """Whether rows of so many codes take fewer bytes than in the wider type."""
        return self.row(count) * 8 < count * self.wide.bits

    def packed(self, codes: Array) -> Array:
        """Codes [rows, count] as bytes [rows, bytes of a row]; codes behind the last one are 0."""
        rows, count = codes.shape
        blocks = -(-count // self.count)
        padded = np.zeros((rows, blocks * self.count), np.uint8)
        padded[:, :count] = codes
        if self.wide.bits == 4:
            padded = padded[:, 0::2] | padded[:, 1::2] << 4
        wide = padded.reshape(rows, blocks, BLOCK_BYTES)
        made, at = np.empty((rows, blocks, self.block), np.uint8), 0
        for plane in self.planes:
            size = self.size(plane)
            fields = (wide >> plane.first) & np.uint8(plane.field(self.wide.bits))
            parts = fields.reshape(rows, blocks, -1, size)
            shifts = np.arange(parts.shape[2], dtype=np.uint8)[:, np.newaxis] * plane.bits
            made[:, :, at : at + size] = np.bitwise_or.reduce(parts << shifts, axis=2)
            at += size
        return made.reshape(rows, -1)

    def unpacked(self, packed: Array, count: int) -> Array:
        """So many codes of each row of bytes; the inverse of `packed`."""
        rows = len(packed)
        blocks, at = packed.reshape(rows, -1, self.block), 0
        wide = np.zeros((*blocks.shape[:2], BLOCK_BYTES), np.uint8)
        for plane in self.planes:
            size = self.size(plane)
            part = blocks[:, :, np.newaxis, at : at + size]
            shifts = np.arange(BLOCK_BYTES // size, dtype=np.uint8)[:, np.newaxis] * plane.bits
            fields = (part >> shifts) & np.uint8(plane.field(self.wide.bits))
            wide |= (fields << plane.first).reshape(wide.shape)
            at += size
        if self.wide.bits == 4:
            wide = np.stack([wide & 15, wide >> 4], axis=-1)
        return np.asarray(wide.reshape(rows, -1)[:, :count])


BIT_PLANES = {
    ElementType.u1: BitPlanes(ElementType.u4, (Plane(1),)),
    ElementType.u2: BitPlanes(ElementType.u4, (Plane(2),)),
    ElementType.u3: BitPlanes(ElementType.u4, (Plane(2), Plane(1, 2))),
    ElementType.u6: BitPlanes(ElementType.u8, (Plane(4), Plane(2, 4))),
}
