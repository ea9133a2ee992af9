"""What a kernel that convolves over planes of pixels is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.epilogue import PLAIN, Epilogue, EpilogueSpec

#: Words of an entry of the table of blocks of pixels: bytes from the beginning of their row,
#: vectors, bytes from the first to the last.
BLOCK_WORDS = 3
#: In place of a number of vectors: one, of which only the first pixels exist.
MASKED = -1


class DirectConvolution(EpilogueSpec, frozen=True):
    """The spec of a direct convolution: vectors of a block of pixels, whether there are whole
    blocks of channels, and what comes after them.

    With `taps` each channel is for itself, and sees `tap_rows` rows of them.
    """

    emitter: ClassVar[str] = "uncork.kernels.convolution.emit_direct:emit_direct"
    arguments_of_call: ClassVar[tuple[str, ...]] = (
        "source", "target", "filters", "offsets", "inner", "block_table", "blocks", "columns",
        "images", "source_image", "target_image", "groups", "source_group", "target_group",
        "filters_group", "end_group", "rows", "source_row", "target_row", "full_blocks", "channels",
        "target_channel", "panel", "share", "pause",
    )  # fmt: skip
    lanes: int
    vectors: tuple[int, ...]
    full_blocks: bool
    rest: tuple[int, ...]
    taps: int = 0
    tap_rows: int = 1
    end: Epilogue = PLAIN
    #: Only the call knows how many columns there are: no table of blocks is given, and there may be
    #: fewer than lanes.
    open: bool = False
    #: Offsets have 64 bits: they are made in the call.
    far: bool = False
    #: Channels of a whole block.
    block: int = 8
    #: The first block of channels stores what it reads of a block of pixels in the working memory
    #: at `panel`, where all others read it. Meanwhile each of these asks for the next block's, for
    #: `share` of its products, one after 1 << `pause` of its own. There are two blocks of channels.
    gathers: bool = False
