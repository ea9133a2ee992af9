"""Encodings that the manual reserves: they raise #UD, here and on a processor."""

from __future__ import annotations


def _bytes(p0: int, p1: int, p2: int, opcode: int, modrm: int) -> str:
    return ".byte 0x62, " + ", ".join(f"{byte:#04x}" for byte in (p0, p1, p2, opcode, modrm))


# vdpbf16ps %zmm1, %zmm2, %zmm3 is 62 F2 6E 48 52 D9.
RESERVED = {
    "zeroing_without_a_mask": _bytes(0xF2, 0x6E, 0xC8, 0x52, 0xD9),
    "broadcast_of_a_register": _bytes(0xF2, 0x6E, 0x58, 0x52, 0xD9),
    "a_fourth_length": _bytes(0xF2, 0x6E, 0x68, 0x52, 0xD9),
    "a_reserved_bit_is_set": _bytes(0xFA, 0x6E, 0x48, 0x52, 0xD9),
    "a_set_bit_is_clear": _bytes(0xF2, 0x6A, 0x48, 0x52, 0xD9),
    "of_64_bits": _bytes(0xF2, 0xEE, 0x48, 0x52, 0xD9),
    # vcvtneps2bf16 %zmm1, %ymm3 is 62 F2 7E 48 72 D9: it has no register in vvvv.
    "a_register_that_is_not_used": _bytes(0xF2, 0x6E, 0x48, 0x72, 0xD9),
    "a_high_register_that_is_not_used": _bytes(0xF2, 0x7E, 0x40, 0x72, 0xD9),
}
