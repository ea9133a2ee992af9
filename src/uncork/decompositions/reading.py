"""Images read between their cells: in boxes, and at places moved by offsets."""

from __future__ import annotations

import functools

import numpy as np

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.errors import UnsupportedError
from uncork.ir.model import Source
from uncork.ops._common.spatial import Sliding
from uncork.ops.deformable_convolution import DeformableConvolution1
from uncork.ops.roi_align import ROIAlign3, ROIAlignRotated15
from uncork.ops.roi_pooling import ROIPooling1
from uncork.types import ElementType

T = ElementType


def _all(g: Layers, *conditions: Source) -> Source:
    return functools.reduce(lambda a, b: g.make("LogicalAnd", a, b), conditions)


def _cells_read(g: Layers, images: Source, y: Source, x: Source, sides: list[Source]) -> Source:
    """The cells of images [B, C, H * W] at whole coordinates [B, n], 0 outside: [B, C, n]."""
    zero = g.like(0, y)
    inside = _all(
        g,
        *(g.make("GreaterEqual", v, zero) for v in (y, x)),
        *(g.make("Less", v, side) for v, side in zip((y, x), sides, strict=True)),
    )
    row, column = (g.select(inside, v, zero) for v in (y, x))
    place = g.unsqueeze(g.wide(g.plus(g.times(row, sides[1]), column)), 1)
    place = g.broadcast(place, g.shape(*(g.dim(images, k) for k in (0, 1)), g.dim(place, 2)))
    found = g.make("GatherElements", images, place, axis=2)
    return g.select(g.unsqueeze(inside, 1), found, g.like(0, images))


def _between(g: Layers, images: Source, y: Source, x: Source, sides: list[Source]) -> Source:
    """Values between the cells, bilinear; what lies outside counts as 0."""
    top, left = g.make("Floor", y), g.make("Floor", x)
    down, right = (g.unsqueeze(g.minus(a, b), 1) for a, b in ((y, top), (x, left)))
    rows = []
    for row in (top, g.plus(top, 1)):
        near, far = (_cells_read(g, images, row, c, sides) for c in (left, g.plus(left, 1)))
        rows.append(_mixed(g, near, far, right))
    return _mixed(g, rows[0], rows[1], down)


def _mixed(g: Layers, a: Source, b: Source, part: Source) -> Source:
    return g.plus(g.times(g.minus(1, part), a), g.times(part, b))


def _flat(g: Layers, data: Source) -> Source:
    """Images with their cells along one axis, [N, C, H * W]."""
    area = g.times(g.dim(data, 2), g.dim(data, 3))
    return g.shaped(data, g.dim(data, 0), g.dim(data, 1), area)


def _sides(g: Layers, data: Source) -> list[Source]:
    return [g.convert(g.dim(data, axis), g.type(data)) for axis in (2, 3)]


def _grid(g: Layers, rows: Source, columns: Source) -> tuple[Source, Source]:
    """The coordinates of all pairs of a row [R, h] and a column [R, w]: both [R, h * w]."""
    shape = g.shape(g.dim(rows, 0), g.dim(rows, 1), g.dim(columns, 1))
    pair = (g.unsqueeze(rows, 2), g.unsqueeze(columns, 1))
    area = g.times(g.dim(rows, 1), g.dim(columns, 1))
    y, x = (g.shaped(g.broadcast(v, shape), g.dim(rows, 0), area) for v in pair)
    return y, x


@composite("ROIAlign", "ROIAlignRotated")
def roi_align(
    g: Layers, op: ROIAlign3 | ROIAlignRotated15, data: Source, rois: Source, images: Source
) -> Source:
    """The mean, or the largest of 0 and what is read in the middle of each cell of each bin."""
    if isinstance(op, ROIAlignRotated15):
        x, y, *sides, angle = g.split(rois, [1] * 5, 1)
        width, height = (g.times(side, op.spatial_scale) for side in sides)
        left, top = (g.over(side, -2) for side in (width, height))
        turn = g.make("Negative", angle) if op.clockwise_mode else angle
        sine, cosine = g.make("Sin", turn), g.make("Cos", turn)
    else:
        moved = g.plus(rois, 0.5) if op.aligned_mode == "half_pixel" else rois
        scaled, asymmetric = g.times(moved, op.spatial_scale), op.aligned_mode == "asymmetric"
        scaled = scaled if asymmetric else g.minus(scaled, 0.5)
        left, top, right, bottom = g.split(scaled, [1] * 4, 1)
        width, height = g.minus(right, left), g.minus(bottom, top)
        if asymmetric:
            width, height = (g.largest(side, 1) for side in (width, height))
    rows, live_rows = _places(g, op.sampling_ratio, top, height, op.pooled_h)
    columns, live_columns = _places(g, op.sampling_ratio, left, width, op.pooled_w)
    v, u = _grid(g, rows, columns)
    if isinstance(op, ROIAlignRotated15):
        centre = [g.minus(g.times(t, op.spatial_scale), 0.5) for t in (x, y)]
        across = g.plus(g.plus(g.times(u, cosine), g.times(v, sine)), centre[0])
        v, u = g.plus(g.minus(g.times(v, cosine), g.times(u, sine)), centre[1]), across
    near, inside = [], []
    for place, side in zip((v, u), _sides(g, data), strict=True):
        near += [g.make("GreaterEqual", place, g.like(-1, place)), g.make("LessEqual", place, side)]
        inside.append(g.largest(g.least(place, g.minus(side, 1)), 0))
    own = g.make("GatherND", _flat(g, data), g.unsqueeze(images, 1))
    found = _between(g, own, inside[0], inside[1], _sides(g, data))
    found = g.select(g.unsqueeze(_all(g, *near), 1), found, g.like(0, found))
    bins = (op.pooled_h, g.dim(live_rows, 1), op.pooled_w, g.dim(live_columns, 1))
    values = g.filled(g.shaped(found, g.dim(rois, 0), g.dim(data, 1), *bins))
    live = [g.unsqueeze(live_rows, 1, 2, 4, 5), g.unsqueeze(live_columns, 1, 2, 3, 4)]
    if op.mode != "max" and op.sampling_ratio:
        return g.reduce("ReduceMean", values, [3, 5], keep=False)
    values = g.select(_all(g, *live), values, g.like(0, values))
    if op.mode == "max":
        return g.largest(g.reduce("ReduceMax", values, [3, 5], keep=False), 0)
    total = g.reduce("ReduceSum", values, [3, 5], keep=False)
    counts = (g.reduce("ReduceSum", g.convert(t, g.type(data)), [3, 5], keep=False) for t in live)
    return g.over(total, g.largest(g.times(*counts), 1))


def _places(g: Layers, ratio: int, start: Source, size: Source, bins: int) -> tuple[Source, Source]:
    """The middles of the cells of each bin along an axis, [R, bins * cells], and which cells there
    are, [R, cells]: as many as a bin is long where the ratio is 0.
    """
    step, kind = g.over(size, bins), g.type(size)
    if ratio:
        count, most = g.like(ratio, size), g.i64([ratio])
    else:
        # Of a size that is no number, or infinite, there are no cells.
        finite = g.make("Equal", g.minus(step, step), g.like(0, step))
        count = g.largest(g.make("Ceiling", g.select(finite, step, g.like(0, step))), 0)
        longest = g.concat([g.reshape(count, [-1]), g.constant(np.ones(1), kind)], 0)
        most = g.wide(g.reduce("ReduceMax", longest, [0]))
    cells = g.convert(g.range(most), kind)
    live = g.broadcast(g.make("Less", cells, count), g.shape(g.dim(start, 0), most))
    inner = g.times(g.over(step, g.largest(count, 1)), g.plus(cells, 0.5))
    first = g.times(g.convert(g.range(g.i64(bins)), kind), step)
    places = g.plus(g.plus(g.unsqueeze(first, 2), g.unsqueeze(inner, 1)), g.unsqueeze(start, 2))
    return g.shaped(places, g.dim(start, 0), g.times(most, bins)), live


@composite("ROIPooling")
def roi_pooling(g: Layers, op: ROIPooling1, data: Source, rois: Source) -> Source:
    """Mode bilinear: the image read on a grid from corner to corner of each box. An image of -1
    ends the boxes.
    """
    UnsupportedError.when(
        op.method == "max", "ROIPooling with method max, whose windows are as large as the boxes"
    )
    number, x1, y1, x2, y2 = g.split(rois, [1] * 5, 1)
    stops = g.convert(g.make("Equal", number, g.like(-1, number)), T.i64)
    ended = g.make("CumSum", stops, g.i64(0), exclusive=False, reverse=False)
    live = g.make("Equal", ended, g.i64(0))
    images = g.wide(g.select(live, number, g.like(0, number)))
    sides = _sides(g, data)
    rows, columns = (
        _corner_to_corner(g, *axis, side)
        for axis, side in zip(((y1, y2, op.pooled_h), (x1, x2, op.pooled_w)), sides, strict=True)
    )
    inside = [live]
    pair = _grid(g, rows, columns)
    for v, side in zip(pair, sides, strict=True):
        inside += [
            g.make("GreaterEqual", v, g.like(0, v)),
            g.make("LessEqual", v, g.minus(side, 1)),
        ]
    kept = _all(g, *inside)
    own = g.make("GatherND", _flat(g, data), images)
    y, x = (g.select(kept, v, g.like(0, v)) for v in pair)
    found = g.select(g.unsqueeze(kept, 1), _between(g, own, y, x, sides), g.like(0, own))
    return g.shaped(found, g.dim(rois, 0), g.dim(data, 1), op.pooled_h, op.pooled_w)


def _corner_to_corner(g: Layers, start: Source, end: Source, count: int, side: Source) -> Source:
    """Coordinates [R, count] from the first cell's centre to the last one's; of one the middle."""
    last = g.minus(side, 1)
    if count == 1:
        return g.times(g.times(g.plus(start, end), 0.5), last)
    step = g.over(g.times(g.minus(end, start), last), count - 1)
    numbers = g.convert(g.range(g.i64(count - 1)), g.type(start))
    return g.concat([g.plus(g.times(step, numbers), g.times(start, last)), g.times(end, last)], 1)


@composite("DeformableConvolution")
def deformable(
    g: Layers,
    op: DeformableConvolution1,
    data: Source,
    offsets: Source,
    filters: Source,
    mask: Source | None = None,
) -> Source:
    """The image read at the kernel's places moved by offsets, then one product of matrices."""
    kind = g.type(data)
    UnsupportedError.when(not kind.is_float, "a deformable convolution of integers")
    channels, outputs = g.dim(data, 1), g.dim(filters, 0)
    kernel = [g.dim(filters, axis) for axis in (2, 3)]
    counts = [g.dim(offsets, axis) for axis in (2, 3)]
    places, taps, windows = g.shape(*kernel, *counts), g.product(kernel), g.product(counts)
    total = g.times(taps, windows)
    groups = g.times(g.dim(data, 0), op.deformable_group)
    moves = g.shaped(offsets, groups, taps, 2, windows)
    place = []
    for axis in (0, 1):
        cell = g.times(g.range(kernel[axis]), op.dilation(axis))
        start = g.times(g.range(counts[axis]), op.strides[axis])
        start = g.minus(start, _before(g, op, axis, data, counts[axis], kernel[axis]))
        cells = g.unsqueeze(g.plus(g.unsqueeze(cell, 1), start), 1 - axis, 3 - axis)
        spread = g.shaped(g.broadcast(cells, places), taps, windows)
        moved = g.plus(g.picked(moves, axis, 2), g.convert(spread, kind))
        place.append(g.shaped(moved, groups, total))
    sides, fades = _sides(g, data), op.bilinear_interpolation_pad
    begins = [
        g.make("Greater" if fades else "GreaterEqual", v, g.like(-int(fades), v)) for v in place
    ]
    pairs = list(zip(place, sides, strict=True))
    reads = _all(g, *begins, *(g.make("Less", v, side) for v, side in pairs))
    if not fades:
        place = [g.least(v, g.minus(side, 1)) for v, side in pairs]
    y, x = (g.select(reads, v, g.like(0, v)) for v in place)
    block = g.over(channels, op.deformable_group)
    images = g.shaped(data, groups, block, g.times(g.dim(data, 2), g.dim(data, 3)))
    value = _between(g, images, y, x, sides)
    columns = g.select(g.unsqueeze(reads, 1), value, g.like(0, value))
    if mask is not None:
        columns = g.times(columns, g.shaped(mask, groups, 1, total))
    rows = g.over(g.times(channels, taps), op.group)
    columns = g.shaped(columns, g.dim(data, 0), op.group, rows, windows)
    weights = g.shaped(filters, op.group, g.over(outputs, op.group), rows)
    return g.shaped(g.matmul(weights, columns), g.dim(data, 0), outputs, *counts)


def _before(
    g: Layers, op: Sliding, axis: int, data: Source, count: Source, kernel: Source
) -> Source:
    """How many cells there are before the image along an axis of it."""
    if not op.auto_pad.startswith("same"):
        return g.i64([op.pads_begin[axis] if op.auto_pad == "explicit" else 0])
    extent = g.plus(g.times(g.minus(kernel, 1), op.dilation(axis)), 1)
    reached = g.plus(g.times(g.minus(count, 1), op.strides[axis]), extent)
    total = g.largest(g.minus(reached, g.dim(data, axis + 2)), 0)
    half = g.over(total, 2)
    return half if op.auto_pad == "same_upper" else g.minus(total, half)
