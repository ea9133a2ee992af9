"""DeformableConvolution: an image read between its cells, by standard operations."""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.families.normalization import widened
from uncork.export.onnx.graph import BOOLEAN, I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.deformable_convolution import DeformableConvolution1, DeformableConvolution8
from uncork.types import ElementType

T = ElementType


def cells_read(
    g: Graph, image: Tensor, y: Tensor, x: Tensor, height: Tensor, width: Tensor
) -> Tensor:
    """The cells of images [B, C, H * W] at whole coordinates [B, n] (f32), 0 outside: [B, C, n]."""
    zero = g.number(0, y)
    inside = g.op("And", _between(g, y, zero, height), _between(g, x, zero, width))
    place = g.op(
        "Add", g.op("Mul", g.op("Where", inside, y, zero), width), g.op("Where", inside, x, zero)
    )
    number = g.op("Unsqueeze", g.cast(place, I64), [1])
    shape = g.concat(
        [
            g.op("Shape", image, start=0, end=2, type=I64, shape=[2]),
            g.op("Shape", place, start=1, end=2, type=I64, shape=[1]),
        ]
    )
    found = g.op("GatherElements", image, g.op("Expand", number, shape), axis=2)
    return g.op("Where", g.op("Unsqueeze", inside, [1]), found, g.number(0, image))


def _between(g: Graph, v: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return g.op("And", g.op("GreaterOrEqual", v, low), g.op("Less", v, high), type=BOOLEAN)


def bilinear(
    g: Graph, image: Tensor, y: Tensor, x: Tensor, height: Tensor, width: Tensor
) -> Tensor:
    """Values between the cells, by bilinear interpolation; what lies outside counts as 0."""
    one = g.number(1, y)
    top, left = g.op("Floor", y), g.op("Floor", x)
    down, right = (g.op("Unsqueeze", g.op("Sub", a, b), [1]) for a, b in ((y, top), (x, left)))
    bottom, beyond = g.op("Add", top, one), g.op("Add", left, one)
    rows = []
    for row in (top, bottom):
        near, far = (cells_read(g, image, row, c, height, width) for c in (left, beyond))
        rows.append(_mixed(g, near, far, right))
    return _mixed(g, rows[0], rows[1], down)


def _mixed(g: Graph, a: Tensor, b: Tensor, part: Tensor) -> Tensor:
    return g.op("Add", g.op("Mul", g.op("Sub", g.number(1, part), part), a), g.op("Mul", part, b))


@lowers("DeformableConvolution")
def deformable(
    g: Graph,
    op: DeformableConvolution1,
    data: Tensor,
    offsets: Tensor,
    filters: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """The image read at the kernel's places moved by offsets, then one product of matrices."""
    if not data.shape[1:].is_static or not filters.shape.is_static or not data.type.is_float:
        g.refuse("a deformable convolution of integers, or of sizes that are not known")
    own = data.type
    data, offsets, filters = (g.cast(widened(g, t), T.f32) for t in (data, offsets, filters))
    if own is T.f64:
        g.approximate("a deformable convolution of f64 is computed in f32")
    channels, height, width = data.shape[1:].static
    outputs, _, *kernel = filters.shape.static
    slides = op.slides(np.broadcast_to(np.zeros(()), (height, width)), kernel)
    counts, groups = [s.count for s in slides], op.deformable_group
    places = [
        s.starts()[np.newaxis, :] + (np.arange(s.kernel) * s.dilation)[:, np.newaxis]
        for s in slides
    ]
    moves = g.op("Reshape", offsets, [-1, groups, *kernel, 2, *counts])
    shift = [
        g.op("Gather", moves, g.constant(np.array(k)), axis=4, shape=[None] * 6) for k in (0, 1)
    ]
    grid = (places[0][:, np.newaxis, :, np.newaxis], places[1][np.newaxis, :, np.newaxis, :])
    y, x = (
        g.op("Add", s, g.constant(p.astype(np.float32)[np.newaxis, np.newaxis]))
        for s, p in zip(shift, grid, strict=True)
    )
    total = int(np.prod(kernel)) * int(np.prod(counts))
    flat = [g.op("Reshape", t, [-1, total], shape=[None, total]) for t in (y, x)]
    image = g.op(
        "Reshape",
        data,
        [-1, channels // groups, height * width],
        shape=[None, channels // groups, height * width],
    )
    columns = _read(g, op, image, flat[0], flat[1], height, width)
    columns = g.op(
        "Reshape",
        columns,
        [-1, groups, channels // groups, int(np.prod(kernel)), int(np.prod(counts))],
    )
    if mask is not None:
        factor = g.op(
            "Reshape",
            g.cast(widened(g, mask), T.f32),
            [-1, groups, 1, int(np.prod(kernel)), int(np.prod(counts))],
        )
        columns = g.op("Mul", columns, factor)
    rows = channels * int(np.prod(kernel)) // op.group
    columns = g.op("Reshape", columns, [-1, op.group, rows, int(np.prod(counts))])
    weights = g.op("Reshape", filters, [op.group, outputs // op.group, rows])
    return g.cast(
        g.op(
            "Reshape",
            g.op("MatMul", weights, columns),
            [-1, outputs, *counts],
            shape=g.outputs[0].shape,
        ),
        own,
    )


def _read(
    g: Graph,
    op: DeformableConvolution1,
    image: Tensor,
    y: Tensor,
    x: Tensor,
    height: int,
    width: int,
) -> Tensor:
    """The image read between its cells. Places past the border give 0, or with
    bilinear_interpolation_pad fade out within one cell of it.
    """
    high, wide, zero = (g.constant(np.float32(n)) for n in (height, width, 0))
    fades = isinstance(op, DeformableConvolution8) and op.bilinear_interpolation_pad
    if fades:
        low = g.constant(np.float32(-1))
        counts = g.op(
            "And",
            *(
                g.op("And", g.op("Greater", v, low), g.op("Less", v, n))
                for v, n in ((y, high), (x, wide))
            ),
        )
    else:
        counts = g.op("And", _between(g, y, zero, high), _between(g, x, zero, wide))
        y, x = (g.op("Min", v, g.constant(np.float32(n - 1))) for v, n in ((y, height), (x, width)))
    y, x = (g.op("Where", counts, v, zero) for v in (y, x))
    value = bilinear(g, image, y, x, high, wide)
    return g.op("Where", g.op("Unsqueeze", counts, [1]), value, zero)
