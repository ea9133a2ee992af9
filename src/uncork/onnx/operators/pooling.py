"""Pooling: windows, whole images, regions of images."""

from __future__ import annotations

import math

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
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
def _max_pool(call: Call) -> tuple[Source, ...]:
    graph, data, kernel = call.graph, call[0], _kernel(call)
    values, places = graph.several(
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
        places = _columns_first(call, data, places)
    return values, places


def _columns_first(call: Call, data: Source, places: Source) -> Source:
    """Places in flattened images as counted along columns."""
    graph = call.graph
    sizes = graph.sizes(data)[2:]
    call.refuse_if(
        None in sizes, "storage_order 1 with data of open size", "export it with its sizes"
    )
    known = [n or 0 for n in sizes]
    count = math.prod(known)
    image = graph.over(places, count)
    rest = graph.minus(places, graph.times(image, count))
    total, step = graph.times(image, count), 1
    for i, size in enumerate(known):
        inner = math.prod(known[i + 1 :])
        at = graph.over(rest, inner)
        rest = graph.minus(rest, graph.times(at, inner))
        total = graph.plus(total, graph.times(at, step))
        step *= size
    return total


@lowering("AveragePool")
def _average_pool(call: Call) -> Source:
    return average(call, call[0], bool(call.integer("count_include_pad")))


def average(call: Call, data: Source, with_pads: bool) -> Source:
    """The means under windows."""
    kernel = _kernel(call)
    settings = window(call, len(kernel))
    dilated = any(d != 1 for d in settings["dilations"])
    if not dilated:
        del settings["dilations"]
    return call.graph.make(
        "AvgPool",
        data,
        kernel=kernel,
        exclude_pad=not with_pads,
        rounding_type=_rounding(call),
        opset=16 if dilated else 14,
        **settings,
    )


@lowering("LpPool")
def _lp_pool(call: Call) -> Source:
    graph, p = call.graph, call.integer("p", 2)
    powers = graph.power(graph.make("Abs", call[0]), p)
    mean = average(call, powers, True)
    return graph.power(graph.times(mean, math.prod(_kernel(call))), 1.0 / p)


def spatial(call: Call, data: Source) -> list[int]:
    """The axes behind batch and channels."""
    rank = call.graph.rank(data)
    ValidationError.when(rank < 3, f"expected data of 3 dimensions or more, got {rank}")
    return list(range(2, rank))


@lowering("GlobalAveragePool")
def _global_average(call: Call) -> Source:
    return call.graph.reduce("ReduceMean", call[0], spatial(call, call[0]))


@lowering("GlobalMaxPool")
def _global_max(call: Call) -> Source:
    return call.graph.reduce("ReduceMax", call[0], spatial(call, call[0]))


@lowering("GlobalLpPool")
def _global_lp(call: Call) -> Source:
    graph, p, axes = call.graph, call.integer("p", 2), spatial(call, call[0])
    powers = graph.power(graph.make("Abs", call[0]), p)
    return graph.power(graph.reduce("ReduceSum", powers, axes), 1.0 / p)


@lowering("RoiAlign")
def _roi_align(call: Call) -> Source:
    half = call.version >= 16 and (
        call.one_of(
            "coordinate_transformation_mode", "half_pixel", "half_pixel", "output_half_pixel"
        )
        == "half_pixel"
    )
    mode = call.one_of("mode", "avg", "avg", "max")
    return call.graph.make(
        "ROIAlign",
        call[0],
        call[1],
        call[2],
        pooled_h=call.integer("output_height", 1),
        pooled_w=call.integer("output_width", 1),
        sampling_ratio=call.integer("sampling_ratio"),
        spatial_scale=call.number("spatial_scale", 1.0),
        mode=mode,
        aligned_mode="half_pixel_for_nn" if half else "asymmetric",
    )


@lowering("MaxRoiPool")
def _max_roi_pool(call: Call) -> Source:
    height, width = call.integers("pooled_shape")
    return call.graph.make(
        "ROIPooling",
        call[0],
        call[1],
        pooled_h=height,
        pooled_w=width,
        spatial_scale=call.number("spatial_scale", 1.0),
        method="max",
    )


@lowering("GridSample")
def _grid_sample(call: Call) -> Source:
    rank = call.graph.rank(call[0])
    call.refuse_if(rank != 4, f"data of {rank} dimensions", "the IR samples images, of four")
    modes = {
        "bilinear": "bilinear",
        "linear": "bilinear",
        "nearest": "nearest",
        "bicubic": "bicubic",
        "cubic": "bicubic",
    }
    return call.graph.make(
        "GridSample",
        call[0],
        call[1],
        align_corners=bool(call.integer("align_corners")),
        mode=modes[call.one_of("mode", "linear", *modes)],
        padding_mode=call.one_of("padding_mode", "zeros", "zeros", "border", "reflection"),
    )
