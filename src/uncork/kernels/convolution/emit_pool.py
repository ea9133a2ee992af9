"""Poolings over blocks of channels: some pixels of a row at a time, by whole blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from uncork.kernels.codegen.emit import F32, Kernel, Value, emitter
from uncork.kernels.codegen.joining import COMBINE, identity
from uncork.kernels.convolution.emit_numbers import read, write
from uncork.kernels.convolution.emit_rows import (
    Lines,
    PixelRow,
    Pixels,
    columns_seen,
    lines_of,
    walk_rows,
)
from uncork.kernels.convolution.spec_pool import Pooled


@emitter
def emit_pool(k: Kernel, spec: Pooled) -> None:
    """The LLVM text of the kernel."""
    a, outside = k.named, k.named["outside"]
    with k.loop(0, a["width"]) as x:
        write(k, _begin(k, spec), outside + x * (spec.lanes * spec.size), spec.half)

    def of_row(row: PixelRow) -> Pixels:
        lines = lines_of(k, spec, row, outside)
        return Pixels(partial(_tile, k, spec, row, lines), partial(_border, k, spec, row, lines))

    walk_rows(k, spec, lambda _plane: of_row)


def _begin(k: Kernel, spec: Pooled) -> Value:
    return k.constant(identity(spec.op, F32), F32, spec.lanes)


def _tile(
    k: Kernel,
    spec: Pooled,
    row: PixelRow,
    lines: Lines,
    x: Value,
    seen: Sequence[tuple[int, int]],
) -> None:
    """Neighbouring pixels, each of which sees these columns of taps."""
    pixel = spec.lanes * spec.size
    column = (x * spec.stride[1] - k.named["left"]) * pixel
    found = [_begin(k, spec)] * len(seen)
    # Windows share columns of cells: each is joined once for all of them.
    for (place, _), windows in columns_seen(spec, seen).items():
        joined = _joined(k, spec, lines.places, column + place * pixel)
        for p, _ in windows:
            found[p] = COMBINE[spec.op](k, joined, found[p])
    counts = [end - first for first, end in seen]
    shares = {
        count: _share(k, spec, lines.inside, k.integer(count)) for count in dict.fromkeys(counts)
    }
    for p, (total, count) in enumerate(zip(found, counts, strict=True)):
        write(k, _scaled(k, total, shares[count]), row.made + (x + p) * pixel, spec.half)


def _joined(k: Kernel, spec: Pooled, lines: Sequence[Value], place: Value) -> Value:
    """The cells that the rows of taps see in one column, joined to one."""
    cells = [read(k, line + place, spec.lanes, spec.half) for line in lines]
    result = cells[0]
    for cell in cells[1:]:
        result = COMBINE[spec.op](k, cell, result)
    return result


def _border(k: Kernel, spec: Pooled, row: PixelRow, lines: Lines, x: Value) -> None:
    """A pixel of which some columns of taps may be outside."""
    a, pixel = k.named, spec.lanes * spec.size
    total, count = k.variable(_begin(k, spec)), k.variable(k.integer(0))
    with k.loop(0, spec.columns) as tap:
        column = x * spec.stride[1] - a["left"] + tap * spec.dilation[1]
        with k.if_(column.below(a["width"])):
            count.set(count.get() + 1)
            total.set(
                COMBINE[spec.op](k, _joined(k, spec, lines.places, column * pixel), total.get())
            )
    mean = _scaled(k, total.get(), _share(k, spec, lines.inside, count.get()))
    write(k, mean, row.made + x * pixel, spec.half)


def _share(k: Kernel, spec: Pooled, inside: Value, columns: Value) -> Value | None:
    """The factor that makes a mean of a sum: one divided by the number of cells that count, at
    least 1, of so many lines that are on the data. None for other poolings.
    """
    if spec.op != "sum":
        return None
    if spec.counts_all:
        cells = spec.rows * spec.columns * (spec.deep.taps if spec.deep else 1)
        return k.constant(1 / cells, F32)
    return k.constant(1.0, F32) / k.maximum(inside * columns, k.integer(1)).to(F32)


def _scaled(k: Kernel, total: Value, share: Value | None) -> Value:
    return total if share is None else total * k.splat(share, total.lanes)
