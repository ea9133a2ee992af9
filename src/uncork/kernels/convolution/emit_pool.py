"""Poolings over blocks of channels: some pixels of a row at a time, by whole blocks."""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, Kernel, Value, emitter
from uncork.kernels.codegen.joining import COMBINE, identity
from uncork.kernels.convolution.emit_numbers import read, write
from uncork.kernels.convolution.emit_rows import PixelRow, columns_seen, walk_rows
from uncork.kernels.convolution.spec_pool import Pooled


@emitter
def emit_pool(k: Kernel, spec: Pooled) -> None:
    """The LLVM text of the kernel."""

    def border(row: PixelRow, x: Value) -> None:
        _border(k, spec, row, x)

    def inside(row: PixelRow, x: Value) -> None:
        _inside(k, spec, row, x)

    nothing = _begin(k, spec), k.named["outside"]
    walk_rows(k, spec, nothing, spec.width, lambda _plane: (border, inside))


def _begin(k: Kernel, spec: Pooled) -> Value:
    return k.constant(identity(spec.op, F32), F32, spec.lanes)


def _inside(k: Kernel, spec: Pooled, row: PixelRow, x: Value) -> None:
    """Pixels of which all columns of taps are on the data."""
    pixel = spec.lanes * spec.size
    column = (x * spec.stride[1] - k.named["left"]) * pixel
    found = [_begin(k, spec)] * spec.width
    # Windows share columns of cells: each is joined once for all of them.
    for place, windows in columns_seen(spec).items():
        joined = _joined(k, spec, row, column + place * pixel)
        for p, _ in windows:
            found[p] = COMBINE[spec.op](k, joined, found[p])
    share = _share(k, spec, row, k.integer(spec.columns))
    for p, total in enumerate(found):
        write(k, _scaled(k, total, share), row.made + x * pixel + p * pixel, spec.half)


def _joined(k: Kernel, spec: Pooled, row: PixelRow, place: Value) -> Value:
    """The cells that the rows of taps see in one column, joined to one."""
    cells = [read(k, line + place, spec.lanes, spec.half) for line in row.lines]
    result = cells[0]
    for cell in cells[1:]:
        result = COMBINE[spec.op](k, cell, result)
    return result


def _border(k: Kernel, spec: Pooled, row: PixelRow, x: Value) -> None:
    """A pixel of which some columns of taps may be outside."""
    a, pixel = k.named, spec.lanes * spec.size
    total, count = k.variable(_begin(k, spec)), k.variable(k.integer(0))
    with k.loop(0, spec.columns) as tap:
        column = x * spec.stride[1] - a["left"] + tap * spec.dilation[1]
        with k.if_(column.below(a["width"])):
            count.set(count.get() + 1)
            total.set(COMBINE[spec.op](k, _joined(k, spec, row, column * pixel), total.get()))
    mean = _scaled(k, total.get(), _share(k, spec, row, count.get()))
    write(k, mean, row.made + x * pixel, spec.half)


def _share(k: Kernel, spec: Pooled, row: PixelRow, columns: Value) -> Value | None:
    """The factor that makes a mean of a sum: one divided by the number of cells that count, at
    least 1. None for other poolings.
    """
    if spec.op != "sum":
        return None
    if spec.counts_all:
        cells = spec.rows * spec.columns * (spec.deep.taps if spec.deep else 1)
        return k.constant(1 / cells, F32)
    return k.constant(1.0, F32) / k.maximum(row.inside * columns, k.integer(1)).to(F32)


def _scaled(k: Kernel, total: Value, share: Value | None) -> Value:
    return total if share is None else total * k.splat(share, total.lanes)
