"""GridSample, ROIAlign, conversions of colour planes and RegionYolo, which detectors and image
pipelines use.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.export.onnx.composed import composed
from uncork.export.onnx.families.activation import clipped
from uncork.export.onnx.families.normalization import widened
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.grid_sample import GridSample9
from uncork.ops.roi_align import ROIAlign3
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
def roi_align(
    g: Graph, op: ROIAlign3, data: Tensor, rois: Tensor, images: Tensor
) -> Tensor | Sequence[Tensor]:
    """ONNX's RoiAlign for the mean. Its maximum is of weighted values and not of the values read,
    so that mode max is spelled out.
    """
    if op.mode == "max":
        return composed(g, op, data, rois, images)
    own = data.type
    data, rois = widened(g, data), widened(g, rois)
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
