"""Pooling: windows, whole images, regions of images."""

from __future__ import annotations

import math

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.operators.sliding import window
from uncork.onnx.registry import lowering
from uncork.types import ElementType

T = ElementType


def _kernel(call: Call) -> list[int]:
    kernel = call.integers("kernel_shape")
    ValidationError.when(not kernel, "attribute 'kernel_shape': expected a size for each axis")
    return kernel


def _rounding(call: Call) -> str:
    # A window that would begin behind the data and its pads is left out, as torch has it.
    return "ceil_torch" if call.integer("ceil_mode") else "floor"


@lowering("MaxPool")
def _max_pool(g: Graph, call: Call, data: Source) -> tuple[Source, ...]:
    kernel = _kernel(call)
    values, places = g.several(
        "MaxPool",
        data,
        kernel=kernel,
        rounding_type=_rounding(call),
        index_element_type=T.i64,
        axis=0,
        opset=14 if call.integer("ceil_mode") else 8,
        **window(call, len(kernel)),
    )
    if call.wants(1) and call.integer("storage_order"):
        places = _columns_first(g, call, data, places)
    return values, places


def _columns_first(g: Graph, call: Call, data: Source, places: Source) -> Source:
    """Places in flattened images as counted along columns."""
    sizes = g.sizes(data)[2:]
    call.refuse_if(
        None in sizes, "storage_order 1 with data of open size", "export it with its sizes"
    )
    known = [n or 0 for n in sizes]
    count = math.prod(known)
    image = g.over(places, count)
    rest = g.minus(places, g.times(image, count))
    total, step = g.times(image, count), 1
    for i, size in enumerate(known):
        inner = math.prod(known[i + 1 :])
        at = g.over(rest, inner)
        rest = g.minus(rest, g.times(at, inner))
        total = g.plus(total, g.times(at, step))
        step *= size
    return total


@lowering("AveragePool")
def _average_pool(g: Graph, call: Call, data: Source) -> Source:
    return average(g, call, data, bool(call.integer("count_include_pad")))


def average(g: Graph, call: Call, data: Source, with_pads: bool) -> Source:
    """The means under windows."""
    kernel = _kernel(call)
    settings = window(call, len(kernel))
    dilated = any(d != 1 for d in settings["dilations"])
    if not dilated:
        del settings["dilations"]
    return g.make(
        "AvgPool",
        data,
        kernel=kernel,
        exclude_pad=not with_pads,
        rounding_type=_rounding(call),
        opset=16 if dilated else 14,
        **settings,
    )


@lowering("LpPool")
def _lp_pool(g: Graph, call: Call, data: Source) -> Source:
    p = call.integer("p", 2)
    powers = g.power(g.make("Abs", data), p)
    mean = average(g, call, powers, True)
    return g.power(g.times(mean, math.prod(_kernel(call))), 1.0 / p)


def spatial(g: Graph, data: Source) -> list[int]:
    """The axes behind batch and channels."""
    rank = g.rank(data)
    ValidationError.when(rank < 3, f"expected data of 3 dimensions or more, got {rank}")
    return list(range(2, rank))


@lowering("GlobalAveragePool")
def _global_average(g: Graph, call: Call, data: Source) -> Source:
    return g.reduce("ReduceMean", data, spatial(g, data))


@lowering("GlobalMaxPool")
def _global_max(g: Graph, call: Call, data: Source) -> Source:
    return g.reduce("ReduceMax", data, spatial(g, data))


@lowering("GlobalLpPool")
def _global_lp(g: Graph, call: Call, data: Source) -> Source:
    p, axes = call.integer("p", 2), spatial(g, data)
    powers = g.power(g.make("Abs", data), p)
    return g.power(g.reduce("ReduceSum", powers, axes), 1.0 / p)


@lowering("RoiAlign")
def _roi_align(g: Graph, call: Call, data: Source, rois: Source, batch_indices: Source) -> Source:
    half = call.version >= 16 and (
        call.one_of(
            "coordinate_transformation_mode", "half_pixel", "half_pixel", "output_half_pixel"
        )
        == "half_pixel"
    )
    mode = call.one_of("mode", "avg", "avg", "max")
    return g.make(
        "ROIAlign",
        data,
        rois,
        batch_indices,
        pooled_h=call.integer("output_height", 1),
        pooled_w=call.integer("output_width", 1),
        sampling_ratio=call.integer("sampling_ratio"),
        spatial_scale=call.number("spatial_scale", 1.0),
        mode=mode,
        aligned_mode="half_pixel_for_nn" if half else "asymmetric",
    )


@lowering("MaxRoiPool")
def _max_roi_pool(g: Graph, call: Call, data: Source, rois: Source) -> Source:
    height, width = call.integers("pooled_shape")
    return g.make(
        "ROIPooling",
        data,
        rois,
        pooled_h=height,
        pooled_w=width,
        spatial_scale=call.number("spatial_scale", 1.0),
        method="max",
    )


@lowering("GridSample")
def _grid_sample(g: Graph, call: Call, data: Source, grid: Source) -> Source:
    rank = g.rank(data)
    call.refuse_if(rank != 4, f"data of {rank} dimensions", "the IR samples images, of four")
    modes = {
        "bilinear": "bilinear",
        "linear": "bilinear",
        "nearest": "nearest",
        "bicubic": "bicubic",
        "cubic": "bicubic",
    }
    return g.make(
        "GridSample",
        data,
        grid,
        align_corners=bool(call.integer("align_corners")),
        mode=modes[call.one_of("mode", "linear", *modes)],
        padding_mode=call.one_of("padding_mode", "zeros", "zeros", "border", "reflection"),
    )
