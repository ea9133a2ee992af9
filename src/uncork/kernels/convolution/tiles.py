"""Which pixels and which outputs a direct convolution over blocks of channels computes together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from uncork.kernels.convolution.geometry import Geometry, known, typical
from uncork.kernels.convolution.spec_blocks import ENOUGH_SUMS, KINDS, number_size
from uncork.kernels.extents import PICTURE
from uncork.kernels.register_tiles import AMX_WORDS, fits
from uncork.kernels.runtime.target import Target
from uncork.symbolic import Size, SizeLike, plain

#: Pixels of a tile of two blocks whose sums 32 vector registers hold, and 16.
_MANY_REGISTERS, _FEW_REGISTERS = 14, 6
#: Pixels of narrower tiles beside the widest, by those of the widest: with one of them runs of most
#: lengths are filled, so that a network has few kernels.
_NARROWER = {14: (7, 8), 6: (5,)}
#: Tiles that a run may then have for each one that it needs.
_TOLERANCE = 1.05
#: Pixels of tiles for what is left of a row whose length only the call knows.
_REST = (4, 1)
#: Pixels that are tiles at least.
FEWEST_PIXELS = _REST[0]
#: Pixels of tiles of such rows, by those of the widest; the sums of fewer than so many wait for
#: each other.
_OPEN, _WAITING = {14: (14, 8, 7, 4, 2, 1), 6: (6, 5, 4, 2, 1)}, 4
#: Pixels that are left of such a row at most where its next tile is chosen so that few sums wait,
#: and the bits that tell it.
CHOSEN, KIND_BITS = 20, 3
#: The narrowest tiles of runs whose last tiles may be computed past the end, by the widest.
_NARROWEST = {14: 4, 6: 2}
#: Numbers of a vector of which there is no half.
_SHORT = 8
#: Data of fewer channels have a block of their own, which is as long as they are.
FEW_CHANNELS = 8


class TileShape(Struct, frozen=True):
    """What a function multiplies: `inner` numbers of each of `width` pixels, which see what lies
    `step` bytes apart (None: the argument "step"), with `blocks` vectors of outputs. With `pairs`
    all numbers are bf16, and two neighbours are multiplied at once; in `amx` tiles, for which the
    caller configures the registers (`microkernel_blocks_amx`). Where filters lie ahead in another
    form, as they are stored, `stored_bytes` are those of one number.
    """

    lanes: int
    inner: int
    blocks: int
    width: int
    step: int | None
    pairs: bool
    amx: bool = False
    stored_bytes: int = 0

    @property
    def words(self) -> int:
        """What is multiplied at once of a pixel: numbers, or pairs of them."""
        return self.inner // 2 if self.pairs else self.inner


def block_widths(target: Target) -> tuple[int, ...]:
    """How many channels a block may have: a vector of them, or half of a long one."""
    half = (target.lanes // 2,) if target.lanes > _SHORT else ()
    return (target.lanes, *half)


def block_of(channels: int, target: Target) -> int:
    """The channels of blocks that so many fill; 0 where there are none."""
    return next((width for width in block_widths(target) if channels % width == 0), 0)


#: Channels of `deep` blocks, which fill a row of a tile of AMX in bf16.
DEEP_BLOCK = AMX_WORDS * number_size(False) // number_size(True)


def block_of_few(channels: int) -> int:
    """Numbers of the only block of data with fewer channels than other blocks have: whole pairs of
    bf16.
    """
    return channels + channels % 2 if channels < FEW_CHANNELS else 0


def taps_together(g: Geometry, inner: int, most: int) -> int:
    """How many neighbouring taps of a row, whose numbers are neighbours in memory, are one step of
    the sums: where blocks are those of few channels, as many as make `most` numbers, if all steps
    can be alike.
    """
    if inner >= FEW_CHANNELS or g.channels != inner or g.columns.dilation > 1:
        return 1
    taps = g.columns.taps
    return max(n for n in range(1, taps + 1) if taps % n == 0 and (n == 1 or n * inner <= most))


def is_few(g: Geometry) -> bool:
    """Whether there are too few pixels for tiles of them; of a picture of typical size where only
    the call knows.
    """
    return known(typical(g, PICTURE).pixels) < FEWEST_PIXELS


def most_pixels(target: Target) -> int:
    """The most pixels of a tile of two blocks."""
    return _MANY_REGISTERS if target.vector_registers > 16 else _FEW_REGISTERS


def widths_of(count: SizeLike, target: Target) -> tuple[tuple[int, ...], list[SizeLike]]:
    """The tiles of a run of pixels: their widths, and how many there are of each. Where the number
    of pixels is known they fill the run, by the widths that most runs have, or by two that differ
    by one; where only the call knows it, the last ones may be computed past the end.
    """
    if not isinstance(count, int):
        return _tiles_past(count, target)
    most = most_pixels(target)
    tiles = -(-count // most)
    for narrow in _NARROWER[most]:
        some = narrower_tiles(count, most, narrow)
        if some is not None and (count - some * narrow) // most + some <= tiles * _TOLERANCE:
            wider: SizeLike = (count - some * narrow) // most
            return (most, narrow), [wider, some, *[0] * (KINDS - 2)]
    return tiles_of(count, most)


def blocks_together(counts: Sequence[SizeLike], target: Target) -> int:
    """How many blocks of outputs, of a vector each, are computed together: two, or three where all
    runs, of so many pixels, have tiles so narrow that the sums of two wait for each other.
    """
    widest = max(widths_of(count, target)[0][0] for count in counts)
    waits = 2 * widest <= ENOUGH_SUMS
    return 3 if waits and fits(target.vector_registers, widest, 3) else 2


def tiles_of(count: SizeLike, most: int) -> tuple[tuple[int, ...], list[SizeLike]]:
    """Tiles of a run of pixels, about as large as each other: their widths, and how many of
    each.
    """
    if not isinstance(count, int):
        rest = count - count // most * most
        small = rest - rest // _REST[0] * _REST[0]
        return (most, *_REST), [count // most, rest // _REST[0], small]
    tiles = -(-count // most)
    wide = -(-count // tiles)
    of_wide = count - tiles * (wide - 1)
    found = [(wide, of_wide), (wide - 1, tiles - of_wide)]
    kept = [(width, number) for width, number in found if number]
    counts: list[SizeLike] = [number for _, number in kept]
    return tuple(width for width, _ in kept), counts + [0] * (KINDS - len(counts))


def _tiles_past(count: Size, target: Target) -> tuple[tuple[int, ...], list[SizeLike]]:
    """Tiles of a run of pixels whose number only the call knows, of which some may be computed past
    the end: their widths, and how many there are of each.
    """
    most = most_pixels(target)
    least = _NARROWEST[most]
    wide = (count + 1) // most  # one pixel less than a widest tile takes such a one
    small = (count - wide * most + (least - 1)) // least
    pairs = small // 2
    return (most, 2 * least, least), [plain(n) for n in (wide, pairs, small - pairs * 2)]


def narrower_tiles(count: int, wide: int, narrow: int) -> int | None:
    """How many narrow tiles, as few as can be, fill a run together with wide ones; None where they
    do not.
    """
    return next(
        (n for n in range(min(wide, count // narrow + 1)) if (count - n * narrow) % wide == 0),
        None,
    )


def some_of_tiles(
    widths: Sequence[int], counts: Sequence[SizeLike], some: tuple[SizeLike, SizeLike]
) -> tuple[int, list[int]]:
    """Tiles (first, number) of a row of so many of each width: the pixels before them, and how many
    of them have each width.
    """
    before, first, end = 0, known(some[0]), known(some[0]) + known(some[1])
    found = []
    passed = 0
    for width, count in zip(
        (*widths, *[0] * (len(counts) - len(widths))), map(known, counts), strict=True
    ):
        begin, last = (min(max(tile - passed, 0), count) for tile in (first, end))
        before += begin * width
        found.append(last - begin)
        passed += count
    return before, found


def open_widths(target: Target) -> tuple[int, ...]:
    """The widths of tiles for rows whose length only the call knows."""
    return _OPEN[most_pixels(target)]


def next_tiles(widths: Sequence[int]) -> int:
    """The number of the next tile for each number of pixels that are left of a row, up to CHOSEN:
    so many KIND_BITS each, from the lowest on.
    """
    best, kinds = [0], [0]
    for left in range(1, CHOSEN + 1):
        costs = [
            max(width, _WAITING) + best[left - width] if width <= left else left * _WAITING + 1
            for width in widths
        ]
        best.append(min(costs))
        kinds.append(costs.index(best[-1]))
    return sum(kind << KIND_BITS * left for left, kind in enumerate(kinds))


def runs_of_sets(blocks: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Blocks in sets of as many as can be, at most so many, but rather two of two than one of three
    and a block alone: blocks of a set, the first block, sets.
    """
    first = 0
    while most:
        sets, left = divmod(blocks - first, most)
        if most == 3 and left == 1:
            sets -= 1
        if sets > 0:
            yield most, first, sets
            first += sets * most
        most = (1 << (most - 1).bit_length()) >> 1
