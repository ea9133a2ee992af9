"""Poolings over blocks of channels: some pixels of a row at a time, by whole blocks.

Rows of taps outside of the data see a row of what changes nothing; pixels whose columns of taps lie
outside are computed one by one.
"""

from __future__ import annotations

from itertools import product

from msgspec import Struct

from uncork.kernels.codegen.emit import F32, Kernel, Value, emitter
from uncork.kernels.codegen.joining import COMBINE, identity
from uncork.kernels.convolution.emit_numbers import read, write
from uncork.kernels.convolution.spec_pool import Pooled


class _Row(Struct, frozen=True):
    """A row of the result: where it lies, the lines that its taps see, and how many of them are on
    the data.
    """

    made: Value
    lines: list[Value]
    inside: Value


@emitter
def emit_pool(k: Kernel, spec: Pooled) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    pixel = spec.lanes * spec.size
    line_bytes = a["width"] * pixel
    with k.loop(0, a["width"]) as x:
        write(k, _begin(k, spec), a["outside"] + x * pixel, spec.half)
    # The pixels of a row all of whose columns of taps are on the data.
    stride, span = spec.stride[1], (spec.columns - 1) * spec.dilation[1]
    begin = k.minimum((a["left"] + (stride - 1)) // stride, a["result_width"])
    scratch = a["width"] + a["left"] - span
    end = k.select(scratch > 0, (scratch + (stride - 1)) // stride, k.integer(0))
    end = k.maximum(begin, k.minimum(end, a["result_width"]))
    with k.loop(a["first"], a["end"]) as plane:
        source = a["source"] + plane * a["height"] * line_bytes
        target = a["target"] + plane * a["result_height"] * a["result_width"] * pixel
        with k.loop(a["first_row"], a["end_row"]) as y:
            lines: list[Value] = []
            inside = k.integer(0)
            for tap in range(spec.rows):
                line = y * spec.stride[0] - a["top"] + tap * spec.dilation[0]
                seen = line.below(a["height"])
                lines.append(k.select(seen, source + line * line_bytes, a["outside"]))
                inside = inside + k.select(seen, k.integer(1), k.integer(0))
            row = _Row(target + y * a["result_width"] * pixel, lines, inside)
            with k.loop(0, begin) as x:
                _border(k, spec, a, row, x)
            with k.if_else(end - begin >= spec.width, likely=True) as (long, short):
                with long, k.loop(begin, end, spec.width) as first:
                    _inside(k, spec, a, row, k.minimum(first, end - spec.width))
                with short, k.loop(begin, end) as x:
                    _border(k, spec, a, row, x)
            with k.loop(end, a["result_width"]) as x:
                _border(k, spec, a, row, x)


def _begin(k: Kernel, spec: Pooled) -> Value:
    return k.constant(identity(spec.op, F32), F32, spec.lanes)


def _inside(k: Kernel, spec: Pooled, a: dict[str, Value], row: _Row, x: Value) -> None:
    """Pixels of which all columns of taps are on the data."""
    pixel = spec.lanes * spec.size
    column = (x * spec.stride[1] - a["left"]) * pixel
    found = [_begin(k, spec)] * spec.width
    # Windows share columns of cells: each is joined once for all of them.
    sees: dict[int, list[int]] = {}
    for p, tap in product(range(spec.width), range(spec.columns)):
        sees.setdefault(p * spec.stride[1] + tap * spec.dilation[1], []).append(p)
    for place, windows in sees.items():
        joined = _joined(k, spec, row, column + place * pixel)
        for p in windows:
            found[p] = COMBINE[spec.op](k, joined, found[p])
    share = _share(k, spec, row, k.integer(spec.columns))
    for p, total in enumerate(found):
        write(k, _scaled(k, total, share), row.made + x * pixel + p * pixel, spec.half)


def _joined(k: Kernel, spec: Pooled, row: _Row, place: Value) -> Value:
    """The cells that the rows of taps see in one column, joined to one."""
    cells = [read(k, line + place, spec.lanes, spec.half) for line in row.lines]
    result = cells[0]
    for cell in cells[1:]:
        result = COMBINE[spec.op](k, cell, result)
    return result


def _border(k: Kernel, spec: Pooled, a: dict[str, Value], row: _Row, x: Value) -> None:
    """A pixel of which some columns of taps may be outside."""
    pixel = spec.lanes * spec.size
    total, count = k.variable(_begin(k, spec)), k.variable(k.integer(0))
    with k.loop(0, spec.columns) as tap:
        column = x * spec.stride[1] - a["left"] + tap * spec.dilation[1]
        with k.if_(column.below(a["width"])):
            count.set(count.get() + 1)
            total.set(COMBINE[spec.op](k, _joined(k, spec, row, column * pixel), total.get()))
    mean = _scaled(k, total.get(), _share(k, spec, row, count.get()))
    write(k, mean, row.made + x * pixel, spec.half)


def _share(k: Kernel, spec: Pooled, row: _Row, columns: Value) -> Value | None:
    """The factor that makes a mean of a sum: one divided by the number of cells that count, at
    least 1. None for other poolings.
    """
    if spec.op != "sum":
        return None
    if spec.counts_all:
        return k.constant(1 / (spec.rows * spec.columns), F32)
    return k.constant(1.0, F32) / k.maximum(row.inside * columns, k.integer(1)).to(F32)


def _scaled(k: Kernel, total: Value, share: Value | None) -> Value:
    return total if share is None else total * k.splat(share, total.lanes)
