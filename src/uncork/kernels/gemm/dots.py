"""Ways to sum products of numbers of 8 bits in whole numbers, and which of them a processor has."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from uncork.kernels.runtime.target import Target

#: How products are summed: by instructions for four bytes of both signs (VNNI), for four signed
#: ones (NEON), for pairs of 16 bits, or one by one; and of codes of four bits, four without a sign
#: by signed bytes (SSSE3), which saturates at 16 bits where codes are larger.
FOUR_MIXED, FOUR_SIGNED, PAIRS, SINGLE = "four_mixed", "four_signed", "pairs", "single"
FOUR_SMALL = "four_small"
#: The products of FOUR_MIXED in AMX tiles.
TILES = "tiles"


class DotMethod(Struct, frozen=True):
    """One way to sum products, step by step.

    A step takes so many `codes` of a pixel, `size` bytes each, and `weights` bytes of each column.
    """

    codes: int
    size: int
    weights: int


DOT_METHODS: Mapping[str, DotMethod] = {
    TILES: DotMethod(4, 1, 4),
    FOUR_MIXED: DotMethod(4, 1, 4),
    FOUR_SIGNED: DotMethod(4, 1, 4),
    PAIRS: DotMethod(2, 2, 4),
    SINGLE: DotMethod(1, 2, 2),
}


def dot_method_of(target: Target) -> tuple[str, int]:
    """How a processor sums products of bytes, and the lanes of its vectors of sums."""
    if target.arch in ("aarch64", "arm64"):
        return (FOUR_SIGNED if target.has("dotprod") else SINGLE), 4
    if target.lanes == 16 and target.has("avx512vnni"):
        return FOUR_MIXED, 16
    if target.has("avxvnni") and target.lanes >= 8:
        return FOUR_MIXED, 8
    if target.lanes == 16 and target.has("avx512bw"):
        return PAIRS, 16
    if target.has("avx2"):
        return PAIRS, 8
    return (PAIRS if target.has("sse2") else SINGLE), 4


def multiplies_bytes_in_tiles(target: Target) -> bool:
    """Whether a processor multiplies bytes in AMX tiles."""
    return target.tiles and target.has("amx-int8")


def flipped(how: str, element_type: str) -> tuple[int, int]:
    """The bits of a word to flip, so that its codes of 4 or 8 bits are signed or unsigned as the
    instruction wants, and the number that this adds to every code.
    """
    signed = element_type.startswith("i")
    if element_type.endswith("4"):  # without a sign codes of four bits are both
        return (-0x77777778, 8) if signed else (0, 0)
    if signed != (how == FOUR_MIXED):
        return 0, 0
    return -0x7F7F7F80, 128 if signed else -128
