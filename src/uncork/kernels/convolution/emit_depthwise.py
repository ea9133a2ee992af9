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
    Pixel,
    PixelRow,
    Tile,
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

    def of_plane(plane: Value) -> OfRow:
        whole = plane // a["result_depth"] if spec.deep else plane
        block = whole - whole // a["channels"] * a["channels"]
        filters = a["filters"] + block * (spec.lines * _filters_of_row(spec))
        ends = advanced_operands(spec.end, places, block * own)

        def of_row(row: PixelRow) -> tuple[Pixel, Tile]:
            lines = _LinesSeen(k, spec, row, filters)
            return partial(_border, k, spec, lines, ends), partial(_tile, k, spec, lines, ends)

        return of_row

    walk_rows(k, spec, of_plane)


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
    x: Value,
    seen: Sequence[tuple[int, int]],
) -> None:
    """Neighbouring pixels, each of which sees these columns of taps."""
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
    for line, filters in lines.each((x * spec.stride[1] - k.named["left"]) * pixel):
        for member in range(spec.members):
            weights = [
                k.load(filters + (tap * spec.members + member) * (wide * F32.bytes), F32, wide)
                for tap in range(spec.columns)
            ]
            # Several windows see a pixel: what a member has there is brought to all lanes once for
            # them.
            for (place, there), windows in sees.items():
                cell = _member(k, spec, line + place * pixel, there, member)
                for p, tap in windows:
                    sums[p].set(k.fma(cell, weights[tap], sums[p].get()))
    made = lines.row.made + x * pixel
    for p, total in enumerate(sums):
        _store(k, spec, total.get(), made + p * spec.vector_members * pixel, ends)


def _border(
    k: Kernel, spec: Depthwise, lines: _LinesSeen, ends: Mapping[str, Value], x: Value
) -> None:
    """A pixel of which some columns of taps may be outside."""
    a, pixel = k.named, spec.lanes * spec.size
    first = x * spec.stride[1] - a["left"]
    total = k.variable(k.constant(0.0, F32, spec.lanes))
    for line, filters in lines.each(first * pixel):
        with (
            k.loop(0, spec.columns) as tap,
            k.if_((first + tap * spec.dilation[1]).below(a["width"])),
        ):
            for member in range(spec.members):
                place = line + tap * (spec.dilation[1] * pixel)
                cell = _member(k, spec, place, (True,), member)
                number = tap * spec.members + member
                apart = number * (spec.lanes * F32.bytes * spec.vector_members)
                weight = k.load(filters + apart, F32, spec.lanes)
                total.set(k.fma(cell, weight, total.get()))
    _store(k, spec, total.get(), lines.row.made + x * pixel, ends)


def _member(k: Kernel, spec: Depthwise, place: Value, there: Sequence[bool], member: int) -> Value:
    """A vector that has, in each lane, the member with number `member` of that lane's group, of
    neighbouring pixels from a place on, of which these are there; others are zeros.
    """
    members, lanes = spec.members, spec.lanes * len(there)
    if members == lanes:
        return k.splat(read(k, place + member * spec.size, 1, spec.half), lanes)
    if all(there):
        cell = read(k, place, lanes, spec.half)
    else:
        own = [
            read(k, place + number * spec.lanes * spec.size, spec.lanes, spec.half)
            if is_there
            else k.constant(0.0, F32, spec.lanes)
            for number, is_there in enumerate(there)
        ]
        cell = k.side_by_side(own)
    if members == 1:
        return cell
    return k.picked(cell, cell, [lane // members * members + member for lane in range(lanes)])


def _store(
    k: Kernel, spec: Depthwise, total: Value, place: Value, ends: Mapping[str, Value]
) -> None:
    def operand(name: str, kind: str) -> Value:
        if kind == ELEMENT:
            return read(k, place + ends[name], total.lanes, spec.half)
        own = k.load(ends[name], F32, spec.lanes if kind == CHANNEL else 1)
        return side_by_side([own] * (total.lanes // spec.lanes)) if kind == CHANNEL else own

    write(k, apply_epilogue(k, spec.end, total, operand), place, spec.half)
