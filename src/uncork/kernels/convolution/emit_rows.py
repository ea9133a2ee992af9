"""The walk of windows over blocks of channels, for kernels that compute some pixels of a row at a
time.

Rows of taps outside of the data see a row of what changes nothing; pixels whose columns of taps lie
outside are computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from msgspec import Struct

from uncork.kernels.codegen.emit import Kernel, Value
from uncork.kernels.convolution.emit_numbers import write
from uncork.kernels.convolution.spec_blocks import Deep, Depthwise
from uncork.kernels.convolution.spec_pool import Pooled


class PixelRow(Struct, frozen=True):
    """A row of the result: where it lies, the lines that its taps see, and how many of them are on
    the data.
    """

    made: Value
    lines: list[Value]
    inside: Value


#: What computes the pixels from one on: one of them, of which some columns of taps may be outside;
#: several, all of whose columns of taps are on the data.
Pixels = Callable[[PixelRow, Value], None]


def walk_rows(
    k: Kernel,
    spec: Depthwise | Pooled,
    nothing: tuple[Value, Value],
    step: int,
    of_plane: Callable[[Value], tuple[Pixels, Pixels]],
) -> None:
    """Emit the walk over planes and their rows, `step` pixels at a time. Lines outside of the data
    hold a vector that changes nothing, at an address with room for one: `nothing`.
    """
    a = k.named
    vector, outside = nothing
    pixel = spec.lanes * spec.size
    line_bytes = a["width"] * pixel
    with k.loop(0, a["width"]) as x:
        write(k, vector, outside + x * pixel, spec.half)
    begin, end = _whole_pixels(k, spec)
    with k.loop(a["first"], a["end"]) as plane:
        border, inside = of_plane(plane)
        seen_planes = _seen_planes(k, plane, a["height"] * line_bytes, spec.deep)
        target = a["target"] + plane * a["result_height"] * a["result_width"] * pixel
        with k.loop(a["first_row"], a["end_row"]) as y:
            lines: list[Value] = []
            count = k.integer(0)
            for (source, there), tap in product(seen_planes, range(spec.rows)):
                line = y * spec.stride[0] - a["top"] + tap * spec.dilation[0]
                seen = line.below(a["height"])
                seen = seen if there is None else seen & there
                lines.append(k.select(seen, source + line * line_bytes, outside))
                count = count + k.select(seen, k.integer(1), k.integer(0))
            row = PixelRow(target + y * a["result_width"] * pixel, lines, count)
            with k.loop(0, begin) as x:
                border(row, x)
            with k.if_else(end - begin >= step, likely=True) as (long, short):
                with long, k.loop(begin, end, step) as first:
                    inside(row, k.minimum(first, end - step))
                with short, k.loop(begin, end) as x:
                    border(row, x)
            with k.loop(end, a["result_width"]) as x:
                border(row, x)


def _seen_planes(
    k: Kernel, plane: Value, plane_bytes: Value, deep: Deep | None
) -> list[tuple[Value, Value | None]]:
    """The planes of data that a plane of results sees, and whether they exist; None: it does."""
    a = k.named
    if deep is None:
        return [(a["source"] + plane * plane_bytes, None)]
    block = plane // a["result_depth"]
    first = (plane - block * a["result_depth"]) * deep.stride - a["front"]
    source = a["source"] + block * a["depth"] * plane_bytes
    seen = [first + tap * deep.dilation for tap in range(deep.taps)]
    return [(source + place * plane_bytes, place.below(a["depth"])) for place in seen]


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
    spec: Depthwise | Pooled, members: int = 1
) -> Mapping[int, Sequence[tuple[int, int]]]:
    """The columns of cells that the windows of neighbouring pixels share, each with the windows and
    the taps that see it; a window is of `members` pixels.
    """
    sees: dict[int, list[tuple[int, int]]] = {}
    for window, tap in product(range(spec.width), range(spec.columns)):
        place = window * members * spec.stride[1] + tap * spec.dilation[1]
        sees.setdefault(place, []).append((window, tap))
    return sees
