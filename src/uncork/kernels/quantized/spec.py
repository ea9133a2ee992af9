"""What the kernels of quantized layers are specialised for, and their arguments."""

from __future__ import annotations

import hashlib
from typing import ClassVar

from msgspec import Struct

from uncork.kernels.epilogue import EpilogueSpec, ScalarOp
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.names import flags

#: Further operands of an end: codes that lie on the result, with the numbers of their grid; a grid.
CODES, GRID = "codes", "grid"
#: The word for a number, and a grid, as the number that its code stands for.
ROUNDED = "rounded"
#: Kinds of tiles of one kernel.
KINDS = 3
#: Pixels of two AMX tiles.
TILE_PIXELS = 32
#: Bytes of an entry of the table of runs.
ENTRY = 8


class CodesEpilogue(Struct, frozen=True):
    """The epilogue after the sums have been scaled and shifted: a sequence of scalar operations.

    Their arguments are numbered: 0 is the sum, then come the operands, then the results of
    operations before them. With `codes` the last result is rounded to a code; it is `rescaled`
    before that, unless scale and shift have done so already.
    """

    operands: tuple[str, ...] = ()
    ops: tuple[ScalarOp, ...] = ()
    codes: bool = False
    rescaled: bool = False
    #: Values may be NaN, which has no code: the kernel gives up then.
    guarded: bool = False

    @property
    def name(self) -> str:
        """The part of a kernel's name that tells its epilogue."""
        told = "".join(f"_{op.op}" for op in self.ops)[:40]
        digest = f"_{hashlib.sha256(repr(self).encode()).hexdigest()[:8]}" if self.ops else ""
        return told + digest + flags(self, "codes", "rescaled", "guarded")

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments for it: addresses of operands, and of the numbers of codes."""
        found: list[str] = []
        for index, kind in enumerate(self.operands):
            found += [f"end_{index}", f"grid_{index}"] if kind == CODES else [f"end_{index}"]
        return tuple(found)


class Dots(EpilogueSpec, frozen=True):
    """Sums of products of codes: `widths` pixels times `blocks` vectors of outputs at a time; in
    AMX tiles as many pixels as two of them hold, of which there are `tiles_0` in a row.

    The first `columns` outputs exist; the next group begins behind them, and sees data that are
    `source_group` bytes apart. What a sum sees of the data are runs of bytes that a table
    places; neighbouring pixels see what lies `step` bytes apart.
    """

    emitter: ClassVar[str] = "uncork.kernels.quantized.emit_dots:emit_dots"
    arguments_of_call: ClassVar[tuple[str, ...]] = (
        "source", "target", "weights", "table", "runs", "run", "start", "scale", "shift", "numbers",
        "images", "source_image", "target_image", "rows", "source_row", "target_row",
        "target_pixel", "groups", "group", "source_group",
        *(f"tiles_{kind}" for kind in range(KINDS)),
    )  # fmt: skip
    how: str
    lanes: int
    blocks: int
    columns: int
    widths: tuple[int, ...]
    step: int
    #: All outputs of a tile come before the next tile: the data are read once, else the weights.
    inside: bool
    end: CodesEpilogue
    #: In AMX tiles: words of a run that a step multiplies, and those of its last step, where they
    #: are less.
    words: tuple[int, int] = (0, 0)

    @property
    def width(self) -> int:
        """Outputs that are computed at a time."""
        return self.blocks * self.lanes


class DepthwiseOfCodes(EpilogueSpec, frozen=True):
    """Sums of products of each channel for itself, `widths` pixels of a row at a time.

    There are `rows` x `columns` taps. The sums are of f32, which holds them exactly. A pixel has
    `pixel` bytes, and so many channels.
    """

    emitter: ClassVar[str] = "uncork.kernels.quantized.emit_depthwise:emit_depthwise"
    arguments_of_call: ClassVar[tuple[str, ...]] = (
        "source", "target", "weights", "start", "scale", "shift", "numbers", "images",
        "source_image", "target_image", "rows", "source_row", "tap_row", "target_row",
        *(f"tiles_{kind}" for kind in range(KINDS)),
    )  # fmt: skip
    lanes: int
    rows: int
    columns: int
    stride: int
    dilation: int
    pixel: int
    widths: tuple[int, ...]
    end: CodesEpilogue


class Surround(KernelSpec, frozen=True):
    """Copies rows of codes, as 16 bits when `wide`, with a code around them, or with those of a
    pixel that lie at an address, one for `each` channel.
    """

    emitter: ClassVar[str] = "uncork.kernels.quantized.emit_surround:emit_surround"
    arguments: ClassVar[tuple[str, ...]] = (
        "source", "target", "images", "source_image", "rows", "above", "inside", "source_row",
        "left", "copied", "right", "code", "pixel",
    )  # fmt: skip
    wide: bool
    lanes: int
    each: bool = False


class Codes(KernelSpec, frozen=True):
    """Numbers to codes, or (`back`) codes to numbers, of rows of channels.

    With `planes` the numbers are images whose channels are planes. `each` channel has numbers of
    its own.
    """

    emitter: ClassVar[str] = "uncork.kernels.quantized.emit_codes:emit_codes"
    arguments: ClassVar[tuple[str, ...]] = (
        "source",
        "target",
        "numbers",
        "images",
        "channels",
        "pixels",
        "first",
        "count",
    )
    lanes: int
    planes: bool
    back: bool
    each: bool = False
