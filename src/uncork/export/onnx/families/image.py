"""GridSample, ROIAlign, conversions of colour planes and RegionYolo, which detectors and image
pipelines use.
"""

from __future__ import annotations

import itertools

import numpy as np

from uncork.export.onnx.families.activation import clipped
from uncork.export.onnx.families.normalization import widened
from uncork.export.onnx.families.regions import largest_in_bins
from uncork.export.onnx.graph import I64, Graph, Operand, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.grid_sample import GridSample9
from uncork.ops.region_yolo import RegionYolo1
from uncork.ops.roi_align import ROIAlign3
from uncork.ops.yuv_to_rgb import I420toRGB8, _Planes
from uncork.types import ElementType

T = ElementType


@lowers("GridSample")
def grid_sample(g: Graph, op: GridSample9, data: Tensor, grid: Tensor) -> Tensor:
    """ONNX's GridSample, which has data and grid of one type."""
    own = data.type
    if own.is_integer:
        g.approximate(f"GridSample of {own} is computed in f32")
    wide = T.f64 if T.f64 in (own, grid.type) else T.f32
    mode = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}[op.mode]
    places = g.cast(grid, wide)
    if op.padding_mode != "reflection":
        # So far outside that nothing else is read there; onnxruntime goes wrong beyond the
        # integers.
        places = clipped(g, places, -64, 64)
    result = g.op(
        "GridSample",
        g.cast(data, wide),
        places,
        mode=mode,
        padding_mode=op.padding_mode,
        align_corners=int(op.align_corners),
    )
    return g.cast(g.op("Round", result) if own.is_integer else result, own)


@lowers("ROIAlign")
def roi_align(g: Graph, op: ROIAlign3, data: Tensor, rois: Tensor, images: Tensor) -> Tensor:
    """ONNX's RoiAlign for the mean. Its maximum is of weighted values and not of the values read,
    so that mode max is spelled out.
    """
    own = data.type
    data, rois = widened(g, data), widened(g, rois)
    if op.mode == "max":
        found = largest_in_bins(
            g, op, g.cast(data, T.f32), g.cast(rois, T.f32), g.cast(images, I64)
        )
        return g.cast(found, own)
    if op.aligned_mode == "half_pixel":
        rois = g.op("Add", rois, g.number(0.5, rois))
    result = g.op(
        "RoiAlign",
        data,
        rois,
        g.cast(images, I64),
        mode="avg",
        output_height=op.pooled_h,
        output_width=op.pooled_w,
        sampling_ratio=op.sampling_ratio,
        spatial_scale=float(op.spatial_scale),
        coordinate_transformation_mode="output_half_pixel"
        if op.aligned_mode == "asymmetric"
        else "half_pixel",
    )
    return g.cast(result, own)


@lowers("NV12toRGB", "NV12toBGR", "I420toRGB", "I420toBGR")
def colours(g: Graph, op: _Planes, *planes: Tensor | None) -> Tensor:
    """Planes Y, U and V as RGB or BGR, by the formula on planes of equal size."""
    light, *rest = (p for p in planes if p is not None)
    own = light.type
    exact = T.f64 if own is T.f64 else T.f32
    if rest:
        u, v = _halves(g, op, rest)
    else:
        light, u, v = _single(g, op, light)
    parts = [
        g.op("Sub", g.cast(_doubled(g, p), exact), g.constant(np.array(128, exact.dtype)))
        for p in (u, v)
    ]

    def times(factor: float, tensor: Tensor) -> Tensor:
        return g.op("Mul", tensor, g.constant(np.array(factor, exact.dtype)))

    bright = g.op("Squeeze", g.cast(light, exact), [3])
    bright = times(1.164, g.op("Sub", bright, g.constant(np.array(16, exact.dtype))))
    red = g.op("Add", bright, times(1.596, parts[1]))
    green = g.op("Sub", g.op("Sub", bright, times(0.391, parts[0])), times(0.813, parts[1]))
    blue = g.op("Add", bright, times(2.018, parts[0]))
    order = [blue, green, red] if op.blue_first else [red, green, blue]
    joined = g.op("Concat", *(g.op("Unsqueeze", c, [3]) for c in order), axis=3)
    inside = clipped(g, joined, 0, 255)
    return g.cast(g.op("Round", inside) if own is T.u8 else inside, own)


def _halves(g: Graph, op: _Planes, rest: list[Tensor]) -> tuple[Tensor, Tensor]:
    """U and V [N, H / 2, W / 2] from planes of their own."""
    if len(rest) == 2:
        return g.op("Squeeze", rest[0], [3]), g.op("Squeeze", rest[1], [3])
    u, v = (g.op("Gather", rest[0], g.constant(np.array(k)), axis=3) for k in (0, 1))
    return u, v


def _single(g: Graph, op: _Planes, plane: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Y, U and V of one plane [N, H * 3 / 2, W, 1]."""
    third = g.op("Div", g.dim(plane, 1), g.constant(np.array([3])))
    height = g.op("Mul", third, g.constant(np.array([2])))
    light = g.op("Slice", plane, [0], height, [1])
    below = g.op("Squeeze", g.op("Slice", plane, height, [2**62], [1]), [3])
    if isinstance(op, I420toRGB8):
        half = g.op("Div", g.dim(plane, 2), g.constant(np.array([2])))
        pair = g.op("Reshape", below, g.concat([g.dim(plane, 0), [2], third, half]))
        u, v = (g.op("Gather", pair, g.constant(np.array(k)), axis=1) for k in (0, 1))
        return light, u, v
    u, v = (g.op("Slice", below, [k], [2**62], [2], [2]) for k in (0, 1))
    return light, u, v


def _doubled(g: Graph, plane: Tensor) -> Tensor:
    """Every element of a plane [N, h, w] repeated as a square of four."""
    spread = g.op("Unsqueeze", plane, [2, 4])
    wide = g.op("Tile", spread, [1, 1, 2, 1, 2])
    sizes = g.op("Mul", g.op("Shape", plane, type=I64), g.constant(np.array([1, 2, 2])))
    return g.op("Reshape", wide, sizes, shape=[None] * 3)


@lowers("RegionYolo")
def region_yolo(g: Graph, op: RegionYolo1, data: Tensor) -> Tensor:
    """Sigmoid of places and objectness, softmax or sigmoid of classes; the channels are split for
    it.
    """
    own, wide = data.type, widened(g, data)
    count = op.coords + 1 + op.classes
    sides = g.dims(data, 2, 4)
    regions = g.op(
        "Reshape", wide, g.concat([g.dim(data, 0), [op.regions, count], sides]), shape=[None] * 5
    )
    first = min(2, op.coords)
    cuts = [0, first, op.coords, op.coords + 1, count]
    places, sizes, objectness, classes = (
        g.slice(regions, a, b, 2) for a, b in itertools.pairwise(cuts)
    )
    chances = g.op("Softmax", classes, axis=2) if op.do_softmax else g.op("Sigmoid", classes)
    parts = [g.op("Sigmoid", places), sizes, g.op("Sigmoid", objectness), chances]
    used = [p for p, a, b in zip(parts, cuts, cuts[1:], strict=False) if b > a]
    joined = g.op("Concat", *used, axis=2)
    shape: list[Operand] = [g.dim(data, i) for i in range(4)]
    if op.do_softmax:
        axis, end = op.axis % 4, op.end_axis % 4
        product = g.op("ReduceProd", g.dims(data, axis, end + 1), keepdims=1)
        shape[axis : end + 1] = [product]
    return g.cast(g.op("Reshape", joined, g.concat(shape), shape=g.outputs[0].shape), own)
