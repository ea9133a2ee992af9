"""Codes in bit planes as the words of a wider type that kernels know."""

from __future__ import annotations

from functools import reduce
from operator import or_

from uncork.internal_ops.bit_planes import BLOCK_BYTES, BitPlanes
from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import I32, Kernel, Value


def block_at(form: BitPlanes, codes: Value, number: Value, lanes: int) -> Value:
    """Where the block of a vector of words lies, by its number among those of a row."""
    return codes + number // _vectors(lanes) * form.block


def words_at(k: Kernel, form: BitPlanes, codes: Value, number: Value, lanes: int) -> Value:
    """A vector of words of 32 bits of a row, by its number: of the lanes of which one, two or four
    make a block.
    """
    vectors = _vectors(lanes)
    place = block_at(form, codes, number, lanes)
    within = (number & (vectors - 1)) * (4 * lanes)
    fields = []
    for plane in form.planes:
        size = form.size(plane)
        read = min(size // 4, lanes)
        # A block is the plane, the plane shifted, and so on: where this vector begins in it.
        address = place + (within & (size - 1)) if vectors > 1 else place
        part = k.load(address, I32, read)
        if read < lanes:
            part = k.picked(part, part, [lane % read for lane in range(lanes)])
            part = part >> _constants(k, [lane // read * plane.bits for lane in range(lanes)])
        if vectors > 1:
            part = part >> k.splat((within // size * plane.bits).to(I32), lanes)
        mask = (plane.field(form.wide.bits) << plane.first) * 0x01010101
        signed = mask - (1 << 32) if mask >> 31 else mask
        fields.append((part << plane.first if plane.first else part) & signed)
        place = place + size
    return reduce(or_, fields)


def _vectors(lanes: int) -> int:
    """Vectors of words of a block."""
    return BLOCK_BYTES // (4 * lanes)


def _constants(k: Kernel, numbers: list[int]) -> Value:
    return Value(k, ir.Constant(ir.VectorType(I32.llvm, len(numbers)), numbers), I32, len(numbers))
