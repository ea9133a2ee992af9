"""Products with weights: linear layers, convolutions, patches, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uncork.functional._torch.layered import (
    Fixed,
    Layers,
    batched,
    ended,
    fixed,
    named,
    named_for_axes,
    named_with,
    one_each,
    refuse,
    refuse_if,
    sizes,
)
from uncork.ir.model import Source
from uncork.onnx.graph import Graph
from uncork.onnx.operators.torch import attention


@named
def linear(g: Graph, input: Source, weight: Fixed, bias: Fixed | None = None) -> Source:
    """`input [.., in]`, `weight [out, in]` or `[in]`, `bias [out]`."""
    refuse_if(
        g.rank(weight) not in (1, 2) or g.rank(input) < 1,
        f"expected an input [.., in] and a weight [out, in], got shapes "
        f"{g.spec(input).shape} and {g.spec(weight).shape}",
    )
    taken, given = g.sizes(weight)[-1], g.sizes(input)[-1]
    refuse_if(
        given not in (None, taken),
        f"input: expected a last size of {taken}, which the weight {g.spec(weight).shape} "
        f"takes, got {given}",
    )
    if bias is not None and g.rank(weight) == 2:
        one_each(g, "bias", bias, g.sizes(weight)[0], "row of the weight")
    result = g.matmul(input, weight, tb=g.rank(weight) > 1)
    return result if bias is None else g.plus(result, bias)


@named
def bilinear(
    g: Graph, input1: Source, input2: Source, weight: Fixed, bias: Fixed | None = None
) -> Source:
    """`input1 [.., a]`, `input2 [.., b]`, `weight [out, a, b]`, `bias [out]`."""
    refuse_if(
        g.rank(weight) != 3, f"weight: expected [out, in1, in2], got shape {g.spec(weight).shape}"
    )
    left = g.unsqueeze(g.unsqueeze(input1, -2), -2)  # [.., 1, 1, a]
    right = g.unsqueeze(g.unsqueeze(input2, -2), -1)  # [.., 1, b, 1]
    result = g.squeeze(g.matmul(g.matmul(left, weight), right), -1, -2)
    return result if bias is None else g.plus(result, bias)


# ---- convolutions


def _window(
    axes: int, stride: Any, padding: Any, dilation: Any, extents: list[int]
) -> dict[str, Any]:
    """Strides, pads and dilations as operations have them."""
    strides = sizes("stride", stride, axes, 1)
    dilations = sizes("dilation", dilation, axes, 1)
    if padding == "same":
        refuse_if(strides != [1] * axes, "padding='same' is for strides of 1")
        whole = [d * (extent - 1) for d, extent in zip(dilations, extents, strict=True)]
        begins = [pad // 2 for pad in whole]
        ends = [pad - begin for pad, begin in zip(whole, begins, strict=True)]
    elif isinstance(padding, str) and padding != "valid":
        raise refuse(f"padding: expected numbers, 'same' or 'valid', got {padding!r}")
    else:
        begins = ends = sizes("padding", 0 if padding == "valid" else padding, axes)
    return {
        "strides": strides,
        "pads_begin": begins,
        "pads_end": ends,
        "dilations": dilations,
        "auto_pad": "explicit",
    }


def _weights(g: Graph, weight: Source, axes: int, groups: Any) -> tuple[list[int], Source]:
    """The sizes of weights, and the weights with an axis of groups where there are several."""
    refuse_if(
        g.rank(weight) != axes + 2,
        f"weight: expected {axes + 2} dimensions, got shape {g.spec(weight).shape}",
    )
    whole = [fixed(g, weight, axis) for axis in range(axes + 2)]
    (count,) = sizes("groups", groups, 1, 1)
    refuse_if(
        whole[0] % count, f"groups: {count} do not divide weights of shape {g.spec(weight).shape}"
    )
    if count == 1:
        return whole, weight
    return whole, g.reshape(weight, [count, whole[0] // count, *whole[1:]])


def _with_bias(layers: Layers, axes: int) -> Layers:
    """A convolution to which a number for each channel of the result is added."""

    def end(g: Graph, data: Source, bias: Source | None) -> Source:
        one_each(g, "bias", bias, g.sizes(data)[1], "channel of the result")
        return data if bias is None else g.plus(data, g.reshape(bias, [1, -1] + [1] * axes))

    return ended(layers, end, ("bias", "Fixed | None", None), before="stride")


def _channels(g: Graph, data: Source, channels: int) -> None:
    """Raise where data have another number of channels than weights take."""
    given = g.sizes(data)[1]
    refuse_if(
        given not in (None, channels),
        f"input: expected {channels} channels, which the weights take, got {given}",
    )


@named_for_axes
def conv(axes: int) -> Layers:
    """A convolution: `input [N, C, ..]`, `weight [out, C / groups, ..]`, `bias [out]`."""

    def layers(
        g: Graph,
        input: Source,
        weight: Fixed,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Source:
        whole, kernel = _weights(g, weight, axes, groups)
        _channels(g, input, whole[1] * int(groups))
        settings = _window(axes, stride, padding, dilation, whole[2:])
        name = "Convolution" if groups == 1 else "GroupConvolution"
        return g.make(name, input, kernel, **settings)

    return _with_bias(layers, axes)


@named_for_axes
def conv_transpose(axes: int) -> Layers:
    """A transposed convolution: `input [N, C, ..]`, `weight [C, out / groups, ..]`."""

    def layers(
        g: Graph,
        input: Source,
        weight: Fixed,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Source:
        if isinstance(padding, str):
            raise refuse(f"padding: expected numbers, got {padding!r}")
        whole, kernel = _weights(g, weight, axes, groups)
        _channels(g, input, whole[0])
        settings = _window(axes, stride, padding, dilation, whole[2:])
        more = sizes("output_padding", output_padding, axes)
        pairs = zip(more, settings["strides"], settings["dilations"], strict=True)
        refuse_if(
            any(own >= max(step, apart) for own, step, apart in pairs),
            f"output_padding: expected less than the stride or the dilation, got {more}",
        )
        prefix = "" if groups == 1 else "Group"
        name = f"{prefix}ConvolutionBackpropData"
        return g.make(name, input, kernel, output_padding=more, **settings)

    return _with_bias(layers, axes)


@named
def conv_tbc(g: Graph, input: Source, weight: Fixed, bias: Fixed, pad: int = 0) -> Source:
    """A convolution over time: `input [T, N, C]`, `weight [k, C, out]`, `bias [out]`."""
    pads = sizes("pad", pad, 1)
    result = g.make(
        "Convolution",
        g.transpose(input, [1, 2, 0]),
        g.transpose(weight, [2, 1, 0]),
        **_window(1, 1, tuple(pads), 1, [0]),
    )
    return g.plus(g.transpose(result, [2, 0, 1]), bias)


# ---- patches


@named
def unfold(
    g: Graph, input: Source, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Source:
    """The patches of images `[N, C, H, W]` as columns: `[N, C * cells, patches]`."""
    data, added = batched(g, input, 2)
    kernel, rates = sizes("kernel_size", kernel_size, 2, 1), sizes("dilation", dilation, 2, 1)
    pads, strides = sizes("padding", padding, 2), sizes("stride", stride, 2, 1)
    channels = fixed(g, data, 1)
    around = g.i64([0, 0, *pads])
    data = g.make("Pad", data, around, around, g.like(0, data), pad_mode="constant", opset=12)
    patches = g.make(
        "ExtractImagePatches", data, sizes=kernel, strides=strides, rates=rates, auto_pad="valid"
    )
    # cells of a patch come first there, and channels in torch
    cells = math.prod(kernel)
    parted = g.make("Reshape", patches, g.i64([0, cells, channels, -1]), special_zero=True)
    columns = g.transpose(parted, [0, 2, 1, 3])
    result = g.make("Reshape", columns, g.i64([0, channels * cells, -1]), special_zero=True)
    return g.squeeze(result, 0) if added else result


@named
def fold(
    g: Graph,
    input: Source,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Source:
    """Images from their patches, which are added where they overlap."""
    pads = sizes("padding", padding, 2)
    return g.make(
        "Col2Im",
        input,
        g.i64(sizes("output_size", output_size, 2, 1)),
        g.i64(sizes("kernel_size", kernel_size, 2, 1)),
        strides=sizes("stride", stride, 2, 1),
        dilations=sizes("dilation", dilation, 2, 1),
        pads_begin=pads,
        pads_end=pads,
    )


# ---- attention


@named_with(dropout_p="is_causal")
def scaled_dot_product_attention(
    g: Graph,
    query: Source,
    key: Source,
    value: Source,
    attn_mask: Source | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Source:
    """`query [.., L, E]`, `key [.., S, E]`, `value [.., S, V]`; a mask is added to the scores, or
    says which keys are seen.
    """
    if is_causal and attn_mask is not None:
        raise refuse("attn_mask and is_causal: give one of them")
    if enable_gqa:
        heads = fixed(g, query, -3)
        key, value = (_repeated(g, own, heads) for own in (key, value))
    is_matrix = g.rank(query) == 2
    if is_matrix:
        query, key, value = (g.unsqueeze(own, 0) for own in (query, key, value))
    if scale is None:
        scale = 1 / math.sqrt(fixed(g, query, -1)) if fixed(g, query, -1) else 1.0
    factor = g.like(scale, query)
    result = attention(g, query, key, value, attn_mask, factor, bool(is_causal))
    return g.squeeze(result, 0) if is_matrix else result


def _repeated(g: Graph, data: Source, heads: int) -> Source:
    """As many heads as queries have."""
    own = fixed(g, data, -3)
    refuse_if(
        not own or heads % own, f"enable_gqa: {heads} heads of queries are no multiple of {own}"
    )
    each = np.repeat(np.arange(own), heads // own)
    return data if heads == own else g.gather(data, [int(i) for i in each], g.rank(data) - 3)
