"""ROIPooling, ROIAlign with a maximum and ROIAlignRotated: boxes of images, read at places of a
grid within each.
"""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.families.deformable import bilinear
from uncork.export.onnx.families.normalization import widened
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.roi_align import ROIAlign3, ROIAlignRotated15
from uncork.ops.roi_pooling import ROIPooling1
from uncork.types import ElementType

T = ElementType


def sampled(g: Graph, data: Tensor, images: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The images [N, C, H, W] that the boxes [R] name, read between cells at places [R, n]: [R, C,
    n].
    """
    height, width = (g.cast(g.scalar(g.dim(data, axis)), T.f32) for axis in (2, 3))
    flat = g.op("Reshape", data, g.concat([g.dims(data, 0, 2), [-1]]), shape=[None, None, None])
    own = g.op("Gather", flat, images, axis=0, shape=[None, None, None])
    return bilinear(g, own, y, x, height, width)


def corners(g: Graph, rois: Tensor, first: int, count: int) -> list[Tensor]:
    """Consecutive columns of the boxes, each [R, 1]."""
    return [g.slice(rois, first + k, first + k + 1, 1) for k in range(count)]


def grid(g: Graph, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """The coordinates of all pairs of a row [R, h] and a column [R, w]: both [R, h * w]."""
    y, x = g.op("Unsqueeze", rows, [2]), g.op("Unsqueeze", columns, [1])
    shape = g.op("Shape", g.op("Add", y, x), type=I64)
    total = int(rows.shape[1]) * int(columns.shape[1])
    flat = g.concat([g.dim(rows, 0), [total]])
    both = [
        g.op("Reshape", g.op("Expand", t, shape), flat, shape=[None, total], allowzero=1)
        for t in (y, x)
    ]
    return both[0], both[1]


@lowers("ROIPooling")
def roi_pooling(g: Graph, op: ROIPooling1, data: Tensor, rois: Tensor) -> Tensor:
    """Mode bilinear: the image read on a grid from corner to corner of each box. An image of -1
    ends the boxes.
    """
    if op.method == "max":
        g.refuse("ROIPooling with method max, whose windows are as large as the boxes")
    own = data.type
    data, rois = (g.cast(widened(g, t), T.f32) for t in (data, rois))
    number = g.op("Gather", rois, g.constant(np.array(0)), axis=1, shape=[None])
    ended = g.op(
        "CumSum", g.cast(g.op("Equal", number, g.constant(np.float32(-1))), I64), g.constant(0, I64)
    )
    live = g.op("Equal", ended, g.constant(0, I64), shape=[None])
    images = g.cast(g.op("Where", live, number, g.constant(np.float32(0)), shape=[None]), I64)
    x1, y1, x2, y2 = corners(g, rois, 1, 4)
    sizes = [g.cast(g.scalar(g.dim(data, axis)), T.f32) for axis in (2, 3)]
    rows, columns = (
        _places(g, y1, y2, op.pooled_h, sizes[0]),
        _places(g, x1, x2, op.pooled_w, sizes[1]),
    )
    y, x = grid(g, rows, columns)
    zero = g.constant(np.float32(0))
    inside = None
    for v, size in ((y, sizes[0]), (x, sizes[1])):
        last = g.op("Sub", size, g.constant(np.float32(1)))
        within = g.op("And", g.op("GreaterOrEqual", v, zero), g.op("LessOrEqual", v, last))
        inside = within if inside is None else g.op("And", inside, within)
    assert inside is not None
    inside = g.op("And", inside, g.op("Unsqueeze", live, [1]))
    found = sampled(
        g, data, images, *(g.op("Where", inside, v, zero, shape=[None, None]) for v in (y, x))
    )
    kept = g.op("Where", g.op("Unsqueeze", inside, [1]), found, zero)
    shape = g.concat([[0, 0, op.pooled_h, op.pooled_w]])
    return g.cast(g.op("Reshape", kept, shape, shape=g.outputs[0].shape), own)


def _places(g: Graph, start: Tensor, end: Tensor, count: int, size: Tensor) -> Tensor:
    """Coordinates [R, count] from the first cell's centre to the last one's; for a count of 1 the
    middle.
    """
    last = g.op("Sub", size, g.constant(np.float32(1)))
    if count == 1:
        return g.op(
            "Mul",
            g.op("Mul", g.op("Add", start, end), g.constant(np.float32(0.5))),
            last,
            shape=[None, 1],
        )
    step = g.op(
        "Div", g.op("Mul", g.op("Sub", end, start), last), g.constant(np.float32(count - 1))
    )
    first = g.op("Mul", start, last)
    moved = g.op(
        "Add", g.op("Mul", step, g.constant(np.arange(count - 1, dtype=np.float32))), first
    )
    return g.op("Concat", moved, g.op("Mul", end, last), axis=1, shape=[None, count])


def largest_in_bins(g: Graph, op: ROIAlign3, data: Tensor, rois: Tensor, images: Tensor) -> Tensor:
    """ROIAlign with mode max: the largest of 0 and the values read."""
    half = op.aligned_mode == "half_pixel"
    moved = g.op("Add", rois, g.constant(np.float32(0.5))) if half else rois
    scaled = g.op("Mul", moved, g.constant(np.float32(op.spatial_scale)))
    if op.aligned_mode != "asymmetric":
        scaled = g.op("Sub", scaled, g.constant(np.float32(0.5)))
    left, top, right, bottom = corners(g, scaled, 0, 4)
    width, height = g.op("Sub", right, left), g.op("Sub", bottom, top)
    if op.aligned_mode == "asymmetric":
        width, height = (g.op("Max", t, g.constant(np.float32(1))) for t in (width, height))
    values = _read(g, op, data, images, (left, top, width, height), None)
    return g.op("Max", g.op("ReduceMax", values, [3, 5], keepdims=0), g.constant(np.float32(0)))


@lowers("ROIAlignRotated")
def rotated(g: Graph, op: ROIAlignRotated15, data: Tensor, rois: Tensor, images: Tensor) -> Tensor:
    """ROIAlignRotated: means of the image read on a grid that is turned about the centre of each
    box.
    """
    own = data.type
    data, rois = (g.cast(widened(g, t), T.f32) for t in (data, rois))
    scale = g.constant(np.float32(op.spatial_scale))
    x, y, width, height, angle = corners(g, rois, 0, 5)
    width, height = g.op("Mul", width, scale), g.op("Mul", height, scale)
    centre = [g.op("Sub", g.op("Mul", t, scale), g.constant(np.float32(0.5))) for t in (x, y)]
    turn = g.op("Neg", angle) if op.clockwise_mode else angle
    two = g.constant(np.float32(-2))
    frame = (g.op("Div", width, two), g.op("Div", height, two), width, height)
    values = _read(
        g,
        op,
        data,
        g.cast(images, I64),
        frame,
        (g.op("Sin", turn), g.op("Cos", turn), centre[0], centre[1]),
    )
    return g.cast(g.op("ReduceMean", values, [3, 5], keepdims=0, shape=g.outputs[0].shape), own)


def _read(
    g: Graph,
    op: ROIAlign3 | ROIAlignRotated15,
    data: Tensor,
    images: Tensor,
    frame: tuple[Tensor, Tensor, Tensor, Tensor],
    turn: tuple[Tensor, Tensor, Tensor, Tensor] | None,
) -> Tensor:
    """The image read in the middle of each cell of each bin, [R, C, bins, cells, bins, cells]."""
    count = op.sampling_ratio
    if not count:
        g.refuse("sampling_ratio 0, with as many cells as the box is large")
    left, top, width, height = frame
    columns, rows = (
        _cells(g, s, size, bins, count)
        for s, size, bins in ((left, width, op.pooled_w), (top, height, op.pooled_h))
    )
    y, x = grid(g, rows, columns)
    if turn is not None:
        sine, cosine, centre_x, centre_y = turn
        across = g.op("Add", g.op("Add", g.op("Mul", x, cosine), g.op("Mul", y, sine)), centre_x)
        y = g.op("Add", g.op("Sub", g.op("Mul", y, cosine), g.op("Mul", x, sine)), centre_y)
        x = across
    near = None
    moved = []
    for v, axis in ((y, 2), (x, 3)):
        size = g.cast(g.scalar(g.dim(data, axis)), T.f32)
        within = g.op(
            "And",
            g.op("GreaterOrEqual", v, g.constant(np.float32(-1))),
            g.op("LessOrEqual", v, size),
        )
        near = within if near is None else g.op("And", near, within)
        last = g.op("Sub", size, g.constant(np.float32(1)))
        moved.append(
            g.op("Max", g.op("Min", v, last), g.constant(np.float32(0)), shape=[None, None])
        )
    assert near is not None
    found = sampled(g, data, images, moved[0], moved[1])
    values = g.op("Where", g.op("Unsqueeze", near, [1]), found, g.constant(np.float32(0)))
    return g.op("Reshape", values, [0, 0, op.pooled_h, count, op.pooled_w, count], shape=[None] * 6)


def _cells(g: Graph, start: Tensor, size: Tensor, bins: int, count: int) -> Tensor:
    """The middles of the cells of each bin along an axis: [R, bins * count]."""
    step = g.op("Div", size, g.constant(np.float32(bins)))
    inner = ((np.arange(count) + 0.5) / count).astype(np.float32)
    places = (np.arange(bins, dtype=np.float32)[:, None] + inner).reshape(1, -1)
    return g.op("Add", g.op("Mul", step, g.constant(places)), start, shape=[None, bins * count])
