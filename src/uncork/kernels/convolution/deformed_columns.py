"""Columns of deformable convolutions: the cells that windows see, each read between four cells of
an image whose channels lie last.

For a row of the output the four places of each window and tap are found first, by vectors along the
row, with their weights; then each is read, by vectors along the channels. A cell outside of the
image is one of a row of zeros behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from msgspec import Struct

from uncork.kernels.convolution.geometry import known
from uncork.kernels.kernel_plan import In, KernelCall, Scratch, grid
from uncork.kernels.loops.nest_call import Call, View, row_bytes
from uncork.kernels.loops.windows import Window
from uncork.kernels.runtime.target import Target
from uncork.symbolic import SizeLike

#: Places are cut so far away from their window, which is outside.
_FAR = float(1 << 23)
#: Cells around a place, by row and column.
_AROUND = ((0, 0), (0, 1), (1, 0), (1, 1))


class Columns(Struct, frozen=True):
    """The columns `[images, rows, width, groups, taps, C / groups]` of `images` of so many
    channels. `blocks` of channels have offsets of their own, `masked`: and factors. `padded`:
    places less than a cell outside count.
    """

    windows: Sequence[Window]
    images: SizeLike
    channels: int
    groups: int
    blocks: int
    masked: bool
    padded: bool
    target: Target

    @property
    def height(self) -> int:
        """Rows of the output."""
        return known(self.windows[0].count)

    @property
    def width(self) -> int:
        """Windows in a row of the output."""
        return known(self.windows[1].count)

    @property
    def taps(self) -> int:
        return self.windows[0].kernel * self.windows[1].kernel

    @property
    def cells(self) -> int:
        """Cells of an image."""
        return known(self.windows[0].size) * known(self.windows[1].size)

    def image_cells(self, images: SizeLike) -> SizeLike:
        """Cells of so many images, zeros behind each included."""
        return images * (self.cells + 1)

    def cells_of(self, images: SizeLike, rows: int) -> SizeLike:
        """Numbers of the columns of so many rows."""
        return images * (rows * self.width * self.taps * self.channels)

    def bytes_of(self, images: int, rows: int) -> int:
        """Bytes of the columns of so many rows."""
        return known(self.cells_of(images, rows)) * 4

    @property
    def room(self) -> int:
        """Bytes that a thread takes for the places and weights of a row."""
        return known(row_bytes(2 * len(_AROUND) * self.taps * self.width, "f32"))

    def cleared(self, images: SizeLike) -> KernelCall:
        """The call that writes the zeros behind images."""
        strides = ((self.cells + 1) * self.channels * 4, 4)
        base = Scratch(self.cells * self.channels * 4)
        view = View(base, "f32", (images, self.channels), strides)
        sizes = {"n": images, "c": self.channels}
        text = "n c*: Z[n, c] = 0.0"
        return Call("zeros", text, sizes, {"Z": view}, self.target, scalar_type="f32").kernel_call()

    def read(
        self,
        images: tuple[SizeLike, SizeLike],
        strip: tuple[int, int],
        columns: SizeLike,
        rooms: SizeLike,
        threads: int,
    ) -> list[KernelCall]:
        """The calls by which threads fill the columns of some rows (first, number) of some images,
        which lie at the begin of the step's memory.
        """
        pieces = lcm(self.groups, self.blocks)
        each = self.channels // pieces
        taps = tuple(window.kernel for window in self.windows)
        (begin, count), (first, rows) = images, strip
        cells = self.cells + 1
        shape = (self.groups, *taps, pieces // self.groups, each)
        plane, at_taps = (self.height, self.width), (self.images, self.blocks, *taps)
        # Each view with its dimensions of images and rows, and where the first of these begin.
        views: dict[str, tuple[View, dict[int, SizeLike]]] = {
            "F": (View(Scratch(0), "f32", (count, cells, pieces, each)), {0: 0}),
            "O": (View(In(1), "f32", (*at_taps, 2, *plane)), {0: begin, 5: first}),
            "Y": (View(Scratch(columns), "f32", (count, rows, self.width, *shape)), {0: 0, 1: 0}),
        }
        if self.masked:
            views["M"] = View(In(3), "f32", (*at_taps, *plane)), {0: begin, 4: first}
        extent: dict[str, SizeLike] = {
            **dict(zip("jiqxvc", (*taps, pieces, self.width, self.width, each), strict=True)),
            **dict(zip("hw", (window.size for window in self.windows), strict=True)),
        }
        around = len(_AROUND), *taps, self.width
        text = "\n".join(self._lines(pieces))
        calls: list[KernelCall] = []
        parts = grid([(count, 1), (rows, 1)], threads)
        for share, ((image, some), (row, number)) in enumerate(parts):
            own: dict[str, View] = {}
            for name, (view, begins) in views.items():
                own[name] = view
                for dimension, ahead in begins.items():
                    part = image if dimension == 0 else row
                    own[name] = own[name].along([dimension], part + ahead)
            room = rooms + share * self.room
            own["A"] = View(Scratch(room), "i32", around)
            own["P"] = View(Scratch(room + self.room // 2), "f32", around)
            sizes = extent | {"n": some, "y": number, "first_y": first + row}
            call = Call("columns", text, sizes, own, self.target, 2, scalar_type="f32")
            calls.append(call.kernel_call())
        return calls

    def _lines(self, pieces: int) -> list[str]:
        """The text of the nest: pieces of channels, of which groups and blocks are made, one after
        the other.
        """
        rows, columns = self.windows
        block = _part("q", pieces // self.blocks)
        group, piece = _part("q", pieces // self.groups), f"q % {pieces // self.groups}"
        position = f"{rows.stride}*(y + first_y) + {rows.dilation}*j - {rows.begin}"
        lines = self._places(block, 0, "y", f"number({position})", "h")
        position = f"{columns.stride}*x + {columns.dilation}*i - {columns.begin}"
        lines += self._places(block, 1, "x", f"real(integer({position}))", "w")
        for index, (row, column) in enumerate(_AROUND):
            cell = f"cy{row} * integer(w) + cx{column}"
            lines += [
                f"A[{index}, j, i, x] = where(both(iny{row}, inx{column}), {cell}, integer(h * w))",
                f"P[{index}, j, i, x] = wy{row} * wx{column}",
            ]
        terms = [f"P[{index}, j, i, v] * F[n, A[{index}, j, i, v], q, c]" for index in range(4)]
        value = " + ".join(terms)
        if self.masked:
            value = f"({value}) * M[n, {block}, j, i, y, v]"
        return [
            "n y q:",
            "  j i x*:",
            *(f"    {line}" for line in lines),
            "  v j i:",
            f"    c*: Y[n, y, v, {group}, j, i, {piece}, c] = {value}",
        ]

    def _places(self, block: str, which: int, axis: str, position: str, size: str) -> list[str]:
        """The lines that find both cells around a place along an axis, whether each is there, and
        the weight of each. The whole part of an offset is taken off before it is added, so that no
        digit of the rest is lost.
        """
        last = f"number({size} - 1)"
        lines = [
            f"a = smaller(larger(O[n, {block}, j, i, {which}, y, x], {-_FAR}), {_FAR})",
            "f = floor(a)",
            f"{axis}0 = f + {position}",
            f"{axis}1 = {axis}0 + 1.0",
            "p = a - f",
        ]
        begin = f"{axis}0 >= 0.0"
        if self.padded:
            begin = f"either({begin}, both({axis}0 == -1.0, p > 0.0))"
        lines.append(f"o = both({begin}, {axis}0 <= {last})")  # of a NaN there is no place
        moved = "o" if self.padded else f"both(o, {axis}0 < {last})"
        return [
            *lines,
            f"w{axis}1 = where({moved}, p, 0.0)",
            f"w{axis}0 = 1.0 - w{axis}1",
            f"in{axis}0 = both(o, {axis}0 >= 0.0)",
            f"in{axis}1 = both(o, {axis}0 < {last})",
            *(f"c{axis}{n} = truncated(where(in{axis}{n}, {axis}{n}, 0.0))" for n in (0, 1)),
        ]


def _part(axis: str, size: int) -> str:
    """The part of an axis by so many turns that a turn belongs to."""
    return axis if size == 1 else f"{axis} // {size}"
