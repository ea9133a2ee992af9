"""What kernels that convolve data in blocks of channels are specialised for, and their
arguments.
"""

from __future__ import annotations

from typing import ClassVar, Union

from msgspec import Struct

from uncork.kernels.convolution.row_tiles import Around
from uncork.kernels.epilogue import PLAIN, Epilogue, EpilogueSpec
from uncork.kernels.stored_form import Stored

#: Bytes of an entry of the table of taps: bytes to what a tap sees, and to its filters.
ENTRY = 16
#: Sums of a depthwise convolution that keep the multipliers busy: fewer wait for each other.
ENOUGH_SUMS = 8
#: Kinds of tiles of one kernel.
KINDS = 3


#: The side of the tiles whose transformed numbers may be bf16: those of larger tiles lose too much.
_ROUNDED_SIDE = 2


def number_size(half: bool) -> int:
    """Bytes of a number of bf16 where `half`, else of f32."""
    return 2 if half else 4


def multiplies_transformed(half: bool, side: int) -> bool:
    """Whether Winograd's tiles of this side are multiplied as bf16."""
    return half and side == _ROUNDED_SIDE


class Dense(EpilogueSpec, frozen=True):
    """A direct convolution: `widths` pixels of a row times `blocks` blocks of `lanes` outputs at a
    time.

    What a tap sees of a pixel are `inner` numbers; neighbouring pixels see what lies `step` bytes
    apart. A call makes `passes` over each `strip` of the rows of all its `planes`, one for each set
    of outputs, whose filters the first cache keeps for a pass, and the second one the data of a
    strip. Where it `asks_ahead` (1; else 0), the first tiles of a set of outputs ask for filters
    of the next one.
    A set whose filters the second cache would not keep is computed in `slices` of the channels,
    `slice_source` bytes of data apart: `group` bytes are then the filters of a slice, and a pass is
    one, whose sums wait at `sums`.
    Of filters that are `stored` in few bits, `group` are the bytes of codes; before each pass they
    are decoded, by `steps` of the set and `numbers` of a table, to `decoded`.

    There are `taps` rows, or planes, of taps with `count` taps each, the taps of a window
    `tap_dilation` lines apart; those outside of the data are left out. The first row of the first
    plane sees from `line` on of `height` lines of data, the next row `tap_stride` further, and the
    next plane `tap_plane`.
    """

    emitter: ClassVar[str] = "uncork.kernels.convolution.emit_blocks:emit_dense"
    arguments_of_call: ClassVar[tuple[str, ...]] = (
        "source", "target", "filters", "table", "count", "images", "source_image", "target_image",
        "planes", "source_plane", "target_plane",
        "rows", "source_row", "target_row", "target_block", "strip", "passes", "group",
        *(f"tiles_{kind}" for kind in range(KINDS)), "columns", "low", "high", "step",
        "asks_ahead", "line", "height", "taps", "tap_stride", "tap_plane", "tap_dilation", "slices",
        "slice_source", "sums",
    )  # fmt: skip
    lanes: int
    inner: int
    blocks: int
    widths: tuple[int, ...]
    end: Epilogue = PLAIN
    #: Blocks that a vector holds, side by side.
    vector_members: int = 1
    #: Vectors of a block that is longer than one.
    block_vectors: int = 1
    #: Only the call knows how many columns there are: tiles are chosen as they go, not counted.
    open: bool = False
    #: Outputs from `low` to `high` are stored, counted from the first of the call; others are of
    #: groups that share a block with these.
    partial: bool = False
    #: Data and results are bf16.
    half: bool = False
    #: Pairs of bf16 are multiplied in AMX tiles.
    amx: bool = False
    #: There are several slices of a set.
    sliced: bool = False
    #: How filters are stored, lane by lane; None where they are numbers.
    stored: Union[Stored, None] = None
    #: Pixels of the result are so many places apart.
    apart: int = 1

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments."""
        more = ("decoded", "steps", "numbers") if self.stored else ()
        return (*self.arguments_of_call, *more, *self.end.arguments)

    @property
    def vector(self) -> int:
        """Outputs that a vector holds."""
        return self.lanes * self.vector_members // self.block_vectors

    @property
    def vectors(self) -> int:
        """Vectors of a set of outputs."""
        return self.blocks * self.block_vectors // self.vector_members

    @property
    def size(self) -> int:
        """Bytes of a number of the data, the filters and the result."""
        return number_size(self.half)

    @property
    def pixel(self) -> int:
        """Bytes from one pixel of a block of the result to the next that is computed."""
        return self.lanes * self.size * self.apart


class Winograd(EpilogueSpec, frozen=True):
    """A 3x3 convolution at stride 1 by products of transformed tiles of `outputs` x `outputs`
    pixels, `widths` tiles at a time, of which the last may be computed past `all_tiles`.

    An image has `planes` of results; each sees `plane_taps` planes of data, which are as many times
    the `channels`, of `all_taps` that the filters have. The first one sees from plane `front` of
    `depth` on; planes outside of the data are zeros.
    """

    emitter: ClassVar[str] = "uncork.kernels.convolution.emit_winograd:emit_winograd"
    arguments_of_call: ClassVar[tuple[str, ...]] = (
        "source", "target", "filters", "scratch", "across", "down", "height", "width",
        "result_height", "result_width", "top", "left", "source_image", "source_block",
        "source_row", "target_image", "target_block", "target_row", "channels", "groups",
        "planes", "source_plane", "target_plane", "plane_taps", "all_taps",
        "depth", "front", "plane_stride", "plane_dilation",
        *(f"tiles_{kind}" for kind in range(KINDS)), "first", "end", "strip", "strip_tiles",
        "all_tiles", "all_groups",
    )  # fmt: skip
    outputs: int
    lanes: int
    inner: int
    blocks: int
    widths: tuple[int, ...]
    end: Epilogue = PLAIN
    #: Data and results are bf16.
    half: bool = False
    #: There are several planes of results or of taps.
    volumes: bool = False

    @property
    def size(self) -> int:
        """Bytes of a number of the data and the result."""
        return number_size(self.half)

    @property
    def pairs(self) -> bool:
        """Whether transformed data and filters are bf16, too."""
        return multiplies_transformed(self.half, self.outputs)

    @property
    def inside(self) -> int:
        """Bytes of a number of transformed data and filters."""
        return number_size(self.pairs)


class Deep(Struct, frozen=True):
    """How windows lie along the first of three axes: their taps, and how far windows and taps are
    apart.
    """

    taps: int
    stride: int
    dilation: int

    @property
    def name(self) -> str:
        """The part of a kernel's name that tells it."""
        return f"deep_{self.taps}x{self.stride}x{self.dilation}"


class Depthwise(EpilogueSpec, frozen=True):
    """The spec of a convolution of groups of `members` channels, 1 for each channel by itself:
    `rows` x `columns` taps, `width` vectors of pixels of a row at a time.
    """

    emitter: ClassVar[str] = "uncork.kernels.convolution.emit_depthwise:emit_depthwise"
    arguments_of_call: ClassVar[tuple[str, ...]] = (
        "source", "target", "filters", "channels", "first", "end", "first_row", "end_row",
        "height", "width", "result_height", "result_width", "top", "left", "depth", "result_depth",
        "front",
    )  # fmt: skip
    lanes: int
    rows: int
    columns: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    width: int
    around: Union[Around, None] = None
    end: Epilogue = PLAIN
    members: int = 1
    #: Neighbouring pixels that a vector holds.
    vector_members: int = 1
    #: Data and results are bf16.
    half: bool = False
    deep: Deep | None = None

    @property
    def pixels(self) -> int:
        """Pixels of a tile."""
        return self.width * self.vector_members

    @property
    def lines(self) -> int:
        """Rows of taps, of all planes that a window sees."""
        return self.rows * (self.deep.taps if self.deep else 1)

    @property
    def size(self) -> int:
        """Bytes of a number of the data and the result; filters are f32."""
        return number_size(self.half)
