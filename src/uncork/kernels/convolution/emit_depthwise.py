"""Convolutions of groups that are parts of a block of channels: some pixels of a row at a
time.

A lane sees its own channel or, where groups have several members, each member of its group in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from uncork.kernels.codegen.emit import F32, Kernel, Value, emitter
from uncork.kernels.codegen.epilogue import advanced_operands, apply_epilogue, relative_operands
from uncork.kernels.convolution.emit_blocks import side_by_side
from uncork.kernels.convolution.emit_numbers import read, write
from uncork.kernels.convolution.emit_rows import (
    OfRow,
    PixelRow,
    Pixels,
    all_taps,
    columns_seen,
    taps_seen,
    walk_rows,
)
from uncork.kernels.convolution.spec_blocks import Depthwise
from uncork.kernels.epilogue import CHANNEL, ELEMENT
from uncork.kernels.runtime.target import LINE


@emitter
def emit_depthwise(k: Kernel, spec: Depthwise) -> None:
    """The LLVM text of the kernel."""
    a, own = k.named, spec.lanes * F32.bytes
    places = relative_operands(spec.end, a, a["target"])
    zeros = _zeros(k, spec)

    def of_plane(plane: Value) -> OfRow:
        whole = plane // a["result_depth"] if spec.deep else plane
        block = whole - whole // a["channels"] * a["channels"]
        filters = a["filters"] + block * (spec.lines * _filters_of_row(spec))
        ends = advanced_operands(spec.end, places, block * own)

        def of_row(row: PixelRow) -> Pixels:
            tile = partial(_tile, k, spec, _LinesSeen(k, spec, row, filters), ends)
            return Pixels(
                partial(tile, None), lambda x: tile(zeros, x, all_taps(spec)), by_tiles=True
            )

        return of_row

    walk_rows(k, spec, of_plane)


def _zeros(k: Kernel, spec: Depthwise) -> Value | None:
    """The address of a pixel of zeros, where tiles read it; None where all know their ends."""
    if spec.around is not None and not spec.around.open:
        return None
    size = spec.lanes * spec.size
    place = k.stack_bytes(size)
    for first in range(0, size, F32.bytes):
        k.store(k.constant(0.0, F32), place + first)
    return place


def _filters_of_row(spec: Depthwise) -> int:
    """Bytes of the filters of a row of taps."""
    return spec.columns * spec.members * spec.lanes * spec.vector_members * F32.bytes


class _LinesSeen:
    """The lines on the data that a row of the result sees."""

    def __init__(self, k: Kernel, spec: Depthwise, row: PixelRow, filters: Value) -> None:
        self._k, self._spec, self.row = k, spec, row
        line_bytes = k.named["width"] * (spec.lanes * spec.size)
        #: The line that the next row of the result is the first one to see.
        below = row.line + ((spec.rows - 1) * spec.dilation[0] + 1)
        self.next_line = row.planes[-1].place + below * line_bytes
        self._step = line_bytes * spec.dilation[0]
        of_row = _filters_of_row(spec)
        #: For each plane: where its first line lies, and filters from its tap to behind the last.
        self._runs: list[tuple[Value, Value, Value]] = []
        for tap, plane in enumerate(row.planes):
            first, end = taps_seen(k, spec, row, plane)
            line = row.line + first * spec.dilation[0]
            own = filters + tap * spec.rows * of_row
            place = plane.place + line * line_bytes
            self._runs.append((place, own + first * of_row, own + end * of_row))

    def each(self, columns: Value) -> Iterator[tuple[Value, Value]]:
        """The bodies of loops over the lines: where one lies, from so many bytes on, and the
        filters of its taps.
        """
        for place, first, end in self._runs:
            line = self._k.variable(place + columns)
            with self._k.loop(first, end, _filters_of_row(self._spec)) as filters:
                yield line.get(), filters
                line.set(line.get() + self._step)


def _tile(
    k: Kernel,
    spec: Depthwise,
    lines: _LinesSeen,
    ends: Mapping[str, Value],
    zeros: Value | None,
    x: Value,
    seen: Sequence[tuple[int, int]],
) -> None:
    """Neighbouring pixels, each of which sees these columns of taps. With a pixel of `zeros`, it is
    read in place of cells outside of the data, and pixels behind the row are not stored.
    """
    pixel = spec.lanes * spec.size
    wide = spec.lanes * spec.vector_members
    # Vectors of less than a line of the cache ask for the line that the next row sees first, as
    # each row sees one more.
    if spec.stride[0] == 1 and spec.deep is None and wide * spec.size < LINE:
        ahead = lines.next_line + x * spec.stride[1] * pixel
        for apart in range(0, spec.pixels * spec.stride[1] * pixel, LINE):
            k.prefetch(ahead + apart)
    sums = [k.variable(k.constant(0.0, F32, wide)) for _ in range(spec.width)]
    sees = columns_seen(spec, seen, spec.vector_members)
    column = x * spec.stride[1] - k.named["left"]
    for line, filters in lines.each(column * pixel):
        for member in range(spec.members):
            weights = [
                k.load(filters + (tap * spec.members + member) * (wide * F32.bytes), F32, wide)
                for tap in range(spec.columns)
            ]
            # Several windows see a pixel: what a member has there is brought to all lanes once for
            # them.
            for (place, there), windows in sees.items():
                cells: list[Value | None] = [
                    line + number * pixel if is_there else None
                    for number, is_there in enumerate(there, place)
                ]
                if zeros is not None:
                    cells = [
                        k.select((column + number).below(k.named["width"]), cell, zeros)
                        for number, cell in enumerate(cells, place)
                        if cell is not None
                    ]
                elif all(there):
                    cells = cells[:1]
                cell = _member(k, spec, cells, member)
                for p, tap in windows:
                    sums[p].set(k.fma(cell, weights[tap], sums[p].get()))
    made = lines.row.made + x * pixel
    for p, total in enumerate(sums):
        target = made + p * spec.vector_members * pixel
        if zeros is None:
            _store(k, spec, total.get(), target, ends)
            continue
        for number in range(spec.vector_members):
            with k.if_((x + (p * spec.vector_members + number)).below(k.named["result_width"])):
                one = total.get().part(number * spec.lanes, spec.lanes)
                _store(k, spec, one, target + number * pixel, ends)


def _member(k: Kernel, spec: Depthwise, cells: Sequence[Value | None], member: int) -> Value:
    """A vector that has, in each lane, the member with number `member` of that lane's group, of the
    pixels in some cells, None for zeros; the first of neighbours stands for all.
    """
    wide = spec.lanes * spec.vector_members
    first = cells[0]
    if spec.members == wide and first is not None:
        return k.splat(read(k, first + member * spec.size, 1, spec.half), wide)
    if len(cells) == 1 and first is not None:
        cell = read(k, first, wide, spec.half)
    else:
        own = [
            k.constant(0.0, F32, spec.lanes)
            if place is None
            else read(k, place, spec.lanes, spec.half)
            for place in cells
        ]
        cell = k.side_by_side(own)
    if spec.members == 1:
        return cell
    return k.picked(
        cell, cell, [lane // spec.members * spec.members + member for lane in range(wide)]
    )


def _store(
    k: Kernel, spec: Depthwise, total: Value, place: Value, ends: Mapping[str, Value]
) -> None:
    def operand(name: str, kind: str) -> Value:
        if kind == ELEMENT:
            return read(k, place + ends[name], total.lanes, spec.half)
        own = k.load(ends[name], F32, spec.lanes if kind == CHANNEL else 1)
        return side_by_side([own] * (total.lanes // spec.lanes)) if kind == CHANNEL else own

    write(k, apply_epilogue(k, spec.end, total, operand), place, spec.half)
