"""Convolutions over blocks of bf16 in tile instructions, beside the same in f32, between fences.

Run as a process of its own: `python -m tests.kernels._amx_convolutions FOLDER`, where the emulator
may be built.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.kernels import _bf16
from uncork.kernels.runtime.target import host_target

_INSIDE = ((1, 1), (1, 1), (0, 0), (0, 0))
_AROUND = ((1, 1), (1, 1), (1, 1), (1, 1))
_STRIDED = ((2, 2), (2, 2), (1, 1), (0, 0))
_FAR = ((1, 1), (9, 9), (9, 9), (9, 9))
#: Data, filters `[G, O, C, rows, columns]`, blocks of both, and what is around the windows.
Case = tuple[Sequence[int], Sequence[int], tuple[int, int], Sequence[Sequence[int]]]


def _cases() -> Iterator[Case]:
    """Runs of pixels around tiles, blocks of 8, 16 and 32 channels, and of few; windows that leave
    the data; groups within blocks, across them, and of whole ones.
    """
    for (inner, lanes), columns in itertools.product(
        [(16, 16), (8, 16), (16, 8), (8, 8), (32, 32), (32, 16), (16, 32)], (1, 3, 7, 14, 15, 29)
    ):
        blocks = inner, lanes
        yield (2, 2 * inner, 2, columns), (1, 3 * lanes, 2 * inner, 1, 1), blocks, _INSIDE
        yield (2, inner, 3, columns), (1, 2 * lanes, inner, 3, 3), blocks, _AROUND
    for around in (_STRIDED, _FAR):
        yield (1, 16, 21, 20), (1, 48, 16, 3, 3), (16, 16), around
    for members in (2, 8, 16):
        yield (2, 48, 9, 23), (48 // members, members, members, 3, 3), (16, 16), _AROUND
    yield (2, 48, 6, 15), (2, 24, 24, 3, 3), (16, 16), _AROUND
    yield (2, 96, 9, 21), (3, 16, 32, 3, 3), (16, 8), _AROUND
    # Few channels: a row of taps is a row of a tile, or each tap where it has more numbers.
    yield (2, 4, 12, 23), (1, 48, 4, 7, 7), (4, 16), ((2, 2), (1, 1), (3, 3), (3, 3))
    yield (2, 4, 5, 20), (1, 64, 4, 3, 3), (4, 32), _AROUND
    yield (1, 6, 9, 20), (1, 32, 6, 7, 7), (6, 32), _AROUND
    # Blocks of 32: windows far apart, groups of one block each, within blocks and across them.
    yield (1, 32, 21, 20), (1, 96, 32, 3, 3), (32, 32), _FAR
    for members in (32, 16, 2, 48):
        yield (2, 96, 5, 23), (96 // members, members, members, 3, 3), (32, 32), _AROUND


def main(folder: str) -> None:
    emulator = _bf16.enable_kernels(Path(folder), tiles=True)
    from tests.kernels.test_blocks import described, in_halves

    by_tiles = 0
    for data, filters, blocks, around in _cases():
        operation, arrays, _ = described(data, filters, blocks, around, ended=True)
        before = emulator.counts()["TDPBF16PS"] if emulator else 0
        chosen = in_halves(operation, arrays, host_target(tiles=True))
        if chosen is not None and "amx" in chosen.kernel:
            by_tiles += 1
            assert emulator is None or emulator.counts()["TDPBF16PS"] > before
    assert by_tiles > 50, by_tiles
    print("well")


if __name__ == "__main__":
    main(sys.argv[1])
