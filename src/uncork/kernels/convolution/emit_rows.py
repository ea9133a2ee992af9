"""The walk of windows over blocks of channels, for kernels that compute some pixels of a row at a
time.

Where the sizes of a row say so, tiles of pixels reach its ends: their pixels there leave out the
columns of taps that are outside of the data. Else these pixels are computed one by one, or by tiles
that ask of each cell whether it is on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from msgspec import Struct

from uncork.kernels.codegen.emit import Kernel, Value
from uncork.kernels.convolution.spec_blocks import Deep, Depthwise
from uncork.kernels.convolution.spec_pool import Pooled


class PixelRow(Struct, frozen=True):
    """A row of the result: where it lies, the line that its first tap sees, counted from the first
    one of a plane, and the planes that it sees.
    """

    made: Value
    line: Value
    planes: Sequence[SeenPlane]


class SeenPlane(Struct, frozen=True):
    """A plane of the data: where it lies, and whether it exists; None: it does."""

    place: Value
    there: Value | None


#: What computes the pixel at a place, of which some columns of taps may be outside.
Pixel = Callable[[Value], None]
#: What computes neighbouring pixels from one on; the columns of taps that each of them sees, as
#: (first, end).
Tile = Callable[[Value, Sequence[tuple[int, int]]], None]


class Pixels(Struct, frozen=True):
    """What computes the pixels of a row: tiles that know what their pixels see, and for `others`
    what computes one; or, `by_tiles`, as many as a tile has from one on, of which the call tells
    what they see, and which are in the row.
    """

    tile: Tile
    others: Pixel
    by_tiles: bool = False


OfRow = Callable[[PixelRow], Pixels]


def walk_rows(k: Kernel, spec: Depthwise | Pooled, of_plane: Callable[[Value], OfRow]) -> None:
    """Emit the walk over planes and their rows, a tile of pixels at a time."""
    a = k.named
    pixel = spec.lanes * spec.size
    plane_bytes = a["height"] * a["width"] * pixel
    walk = _walk(k, spec)
    with k.loop(a["first"], a["end"]) as plane:
        of_row = of_plane(plane)
        seen = _seen_planes(k, plane, plane_bytes, spec.deep)
        target = a["target"] + plane * a["result_height"] * a["result_width"] * pixel
        with k.loop(a["first_row"], a["end_row"]) as y:
            made = target + y * a["result_width"] * pixel
            walk(of_row(PixelRow(made, y * spec.stride[0] - a["top"], seen)))


def _walk(k: Kernel, spec: Depthwise | Pooled) -> Callable[[Pixels], None]:
    """What emits the walk over the pixels of a row."""
    count, around, step = k.named["result_width"], spec.around, spec.pixels
    if around is None:
        return _with_any_ends(k, spec)
    if around.alone:
        return lambda of: of.tile(k.integer(0), around.seen(spec, step, "both"))
    left, right = (around.seen(spec, step, end) for end in ("left", "right"))
    last = count - (step + around.cut(spec)[1])

    def tiles(of: Pixels) -> None:
        of.tile(k.integer(0), left)
        with k.loop(step, count - step, step) as first:
            of.tile(k.minimum(first, last), all_taps(spec))
        of.tile(count - step, right)

    if not around.open:
        return tiles
    short_row = _with_any_ends(k, spec)

    def open_tiles(of: Pixels) -> None:
        with k.if_else(count >= around.fewest(spec, step), likely=True) as (long, short):
            with long:
                tiles(of)
            with short:
                short_row(of)

    return open_tiles


def all_taps(spec: Depthwise | Pooled) -> Sequence[tuple[int, int]]:
    """The columns of taps that the pixels of a tile within a row see: all."""
    return [(0, spec.columns)] * spec.pixels


def _with_any_ends(k: Kernel, spec: Depthwise | Pooled) -> Callable[[Pixels], None]:
    """What emits the walk over the pixels of a row of which the call tells what its ends see."""
    count, step = k.named["result_width"], spec.pixels
    begin, end = _whole_pixels(k, spec)

    def by_tiles(of: Pixels) -> None:
        with k.loop(0, count, step) as first:
            x = k.maximum(k.minimum(first, count - step), k.integer(0))
            with k.if_else((x >= begin) & (x + step <= end), likely=True) as (inside, outside):
                with inside:
                    of.tile(x, all_taps(spec))
                with outside:
                    of.others(x)

    def one_by_one(of: Pixels, first: Value | int, end: Value) -> None:
        with k.loop(first, end) as x:
            of.others(x)

    def by_pixels(of: Pixels) -> None:
        one_by_one(of, 0, begin)
        with k.if_else(end - begin >= step, likely=True) as (long, short):
            with long, k.loop(begin, end, step) as first:
                of.tile(k.minimum(first, end - step), all_taps(spec))
            with short:
                one_by_one(of, begin, end)
        one_by_one(of, end, count)

    return lambda of: by_tiles(of) if of.by_tiles else by_pixels(of)


class Lines(Struct, frozen=True):
    """Where the lines lie that the taps of a row see, and how many of them are on the data."""

    places: Sequence[Value]
    inside: Value


def lines_of(k: Kernel, spec: Pooled, row: PixelRow, outside: Value) -> Lines:
    """The lines that the taps of a row see: those outside of the data are the one at `outside`."""
    a = k.named
    line_bytes = a["width"] * (spec.lanes * spec.size)
    places: list[Value] = []
    count = k.integer(0)
    for plane, tap in product(row.planes, range(spec.rows)):
        line = row.line + tap * spec.dilation[0]
        seen = line.below(a["height"])
        seen = seen if plane.there is None else seen & plane.there
        places.append(k.select(seen, plane.place + line * line_bytes, outside))
        count = count + k.select(seen, k.integer(1), k.integer(0))
    return Lines(places, count)


def taps_seen(k: Kernel, spec: Depthwise, row: PixelRow, plane: SeenPlane) -> tuple[Value, Value]:
    """The first of the rows of taps whose lines are on the data, and the one behind the last."""
    dilation = spec.dilation[0]
    first = k.maximum((-row.line + (dilation - 1)) // dilation, k.integer(0))
    left = k.named["height"] - row.line + (dilation - 1)
    end = k.minimum(left // dilation, k.integer(spec.rows))
    return first, end if plane.there is None else k.select(plane.there, end, first)


def _seen_planes(
    k: Kernel, plane: Value, plane_bytes: Value, deep: Deep | None
) -> Sequence[SeenPlane]:
    """The planes of data that a plane of results sees."""
    a = k.named
    if deep is None:
        return [SeenPlane(a["source"] + plane * plane_bytes, None)]
    block = plane // a["result_depth"]
    first = (plane - block * a["result_depth"]) * deep.stride - a["front"]
    source = a["source"] + block * a["depth"] * plane_bytes
    seen = [first + tap * deep.dilation for tap in range(deep.taps)]
    return [SeenPlane(source + place * plane_bytes, place.below(a["depth"])) for place in seen]


def _whole_pixels(k: Kernel, spec: Depthwise | Pooled) -> tuple[Value, Value]:
    """The first of the pixels of a row all of whose columns of taps are on the data, and the one
    behind the last.
    """
    a = k.named
    stride, span = spec.stride[1], (spec.columns - 1) * spec.dilation[1]
    begin = k.minimum((a["left"] + (stride - 1)) // stride, a["result_width"])
    left = a["width"] + a["left"] - span
    end = k.select(left > 0, (left + (stride - 1)) // stride, k.integer(0))
    return begin, k.maximum(begin, k.minimum(end, a["result_width"]))


def columns_seen(
    spec: Depthwise | Pooled, seen: Sequence[tuple[int, int]], members: int = 1
) -> Mapping[tuple[int, tuple[bool, ...]], Sequence[tuple[int, int]]]:
    """The columns of cells that windows share, each with the windows and the taps that see it; a
    window is of `members` neighbouring pixels, and a column of as many cells, of which it is told
    which ones are on the data. Those of which none is are left out.
    """
    sees: dict[tuple[int, tuple[bool, ...]], list[tuple[int, int]]] = {}
    for window, tap in product(range(len(seen) // members), range(spec.columns)):
        place = window * members * spec.stride[1] + tap * spec.dilation[1]
        pixels = seen[window * members : (window + 1) * members]
        there = tuple(first <= tap < end for first, end in pixels)
        if any(there):
            sees.setdefault((place, there), []).append((window, tap))
    return sees
