"""Convolutions, also of whole numbers, transposed and deformed ones."""

from __future__ import annotations

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.operators.sliding import window
from uncork.onnx.registry import lowering
from uncork.types import ElementType

T = ElementType


@lowering("Conv")
def _conv(
    g: Graph, call: Call, data: Source, weights: Source, bias: Source | None = None
) -> Source:
    return with_bias(g, convolution(g, call, data, weights), bias)


def convolution(g: Graph, call: Call, data: Source, weights: Source) -> Source:
    """The products of a convolution node, without its bias."""
    rank = g.rank(weights, "the weights")
    ValidationError.when(rank < 3, f"expected weights of 3 dimensions or more, got {rank}")
    settings = window(call, rank - 2)
    group = call.integer("group", 1)
    if group == 1:
        result = g.make("Convolution", data, weights, **settings)
    else:
        weights = grouped(g, weights, group)
        result = g.make("GroupConvolution", data, weights, **settings)
    return result


def grouped(g: Graph, weights: Source, group: int) -> Source:
    """Weights with a dimension of groups before them."""
    first, *rest = g.sizes(weights)
    ValidationError.when(
        group < 1 or (first is not None and first % group) or None in rest,
        f"attribute 'group': {group} groups do not divide weights of {g.spec(weights).shape}",
    )
    return g.reshape(
        weights, [group, -1 if first is None else first // group, *[n or 0 for n in rest]]
    )


def with_bias(g: Graph, data: Source, bias: Source | None) -> Source:
    """The data plus a number for each channel."""
    if bias is None:
        return data
    rank = g.rank(data)
    return g.plus(data, g.reshape(bias, [1, -1] + [1] * (rank - 2)))


@lowering("ConvTranspose")
def _conv_transpose(
    g: Graph, call: Call, data: Source, weights: Source, bias: Source | None = None
) -> Source:
    rank = g.rank(weights, "the weights")
    axes = rank - 2
    settings = window(call, axes)
    more = call.integers("output_padding") or [0] * axes
    ValidationError.when(len(more) != axes, f"attribute 'output_padding': expected {axes} numbers")
    wanted = call.integers("output_shape")
    auto = settings["auto_pad"]
    if wanted or auto in ("same_upper", "same_lower"):
        _set_pads(g, call, data, weights, settings, more, wanted[-axes:] if wanted else [])
    elif auto == "valid":
        settings["auto_pad"] = "explicit"
    group = call.integer("group", 1)
    name = "ConvolutionBackpropData"
    if group != 1:
        weights, name = grouped(g, weights, group), "GroupConvolutionBackpropData"
    result = g.make(name, data, weights, output_padding=more, **settings)
    return with_bias(g, result, bias)


def _set_pads(
    g: Graph,
    call: Call,
    data: Source,
    weights: Source,
    settings: dict[str, list[int]],
    more: list[int],
    wanted: list[int],
) -> None:
    """Pads that make the output as large as is asked for, by the formula of ConvTranspose."""
    sizes, kernel = g.sizes(data)[2:], g.sizes(weights)[2:]
    upper = str(settings["auto_pad"]) == "same_upper"
    begins, ends = [], []
    for i, cells in enumerate(kernel):
        known = call.wanted(cells, "a kernel of open size", "export the model with its weights")
        extent = (known - 1) * settings["dilations"][i] + 1
        total = extent + more[i] - settings["strides"][i]
        if wanted:
            size = call.wanted(
                sizes[i], "output_shape with data of open size", "export the model with its sizes"
            )
            total = settings["strides"][i] * (size - 1) + more[i] + extent - wanted[i]
        if total < 0:
            more[i] -= total
            total = 0
        small = total // 2
        begins.append(small if upper else total - small)
        ends.append(total - small if upper else small)
    settings.update(pads_begin=begins, pads_end=ends, auto_pad="explicit")  # type: ignore[call-overload]


@lowering("DeformConv")
def _deform_conv(
    g: Graph,
    call: Call,
    data: Source,
    weights: Source,
    offset: Source,
    bias: Source | None = None,
    mask: Source | None = None,
) -> Source:
    rank = g.rank(weights, "the weights")
    call.refuse_if(rank != 4, f"weights of {rank} dimensions", "images have two axes")
    result = g.make(
        "DeformableConvolution",
        data,
        offset,
        weights,
        *(() if mask is None else (mask,)),
        group=call.integer("group", 1),
        deformable_group=call.integer("offset_group", 1),
        bilinear_interpolation_pad=True,
        **window(call, rank - 2),
    )
    return with_bias(g, result, bias)


@lowering("Col2Im")
def _col2im(g: Graph, call: Call, data: Source, image_shape: Source, block_shape: Source) -> Source:
    axes = g.spec(image_shape).shape.size
    call.refuse_if(axes != 2, f"an image of {axes} axes", "the IR has images of two")
    settings = window(call, 2)
    settings.pop("auto_pad")
    return g.make("Col2Im", data, image_shape, block_shape, **settings)
