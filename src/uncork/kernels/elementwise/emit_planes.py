"""Codes in bit planes as the words of a wider type that kernels know."""

from __future__ import annotations

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
    vectors, size = _vectors(lanes), 4 * lanes
    place = block_at(form, codes, number, lanes)
    within = (number & (vectors - 1)) * size if vectors > 1 else k.integer(0)
    total: Value | None = None
    for plane in form.planes:
        of_plane = form.size(plane)
        read = min(of_plane // 4, lanes)
        address = place + (within & (of_plane - 1)) if vectors > 1 else place
        part = k.load(address, I32, read)
        if read < lanes:
            part = k.picked(part, part, [lane % read for lane in range(lanes)])
        # Where each word's bits begin: those of the vector, and of its parts.
        if read < lanes:
            part = part >> _constants(k, [lane // read * plane.bits for lane in range(lanes)])
        if vectors > 1:
            part = part >> k.splat((within // of_plane * plane.bits).to(I32), lanes)
        part = part << plane.first if plane.first else part
        mask = (plane.field(form.wide.bits) << plane.first) * 0x01010101
        part = part & (mask if mask < 1 << 31 else mask - (1 << 32))
        total = part if total is None else total | part
        place = place + of_plane
    assert total is not None, "a code has bits"
    return total


def _vectors(lanes: int) -> int:
    """Vectors of words of a block."""
    return BLOCK_BYTES // (4 * lanes)


def _constants(k: Kernel, numbers: list[int]) -> Value:
    return Value(k, ir.Constant(ir.VectorType(I32.llvm, len(numbers)), numbers), I32, len(numbers))
