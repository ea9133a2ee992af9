"""Convolutions and transposed convolutions, with and without groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._common.spatial import Sliding, extent
from uncork.ops.binary_convolution import BinaryConvolution1
from uncork.ops.convolution import Convolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1
from uncork.types import ElementType

_AUTO = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER"}


def window_pads(
    g: Graph, op: Sliding, data: Tensor, kernel: list[int]
) -> tuple[list[int] | None, str | None]:
    """Explicit pads where they can be known, else ONNX's auto_pad."""
    if not op.auto_pad.startswith("same"):
        fixed = [op.fixed_pads(axis) for axis in range(op.axes)]
        return [b for b, _ in fixed] + [e for _, e in fixed], None
    sizes = data.shape[g.rank(data) - op.axes :]
    if not all(size.is_static or step == 1 for size, step in zip(sizes, op.strides, strict=True)):
        return None, _AUTO[op.auto_pad]
    # By steps of 1 every size has the same pads.
    known = [int(size) if size.is_static else 1 for size in sizes]
    slides = op.slides(np.broadcast_to(np.zeros(()), known), kernel)
    return [s.pad_begin for s in slides] + [s.pad_end for s in slides], None


def grouped(g: Graph, filters: Tensor, lead: int) -> tuple[Tensor, int]:
    """Filters [G, O, C, ..] as ONNX has them, [G * O, C, ..], and the number of groups."""
    if lead == 2:
        return filters, 1
    if not filters.shape.is_static:
        g.refuse("the number of groups of the filters is not known")
    sizes = filters.shape.static
    joined = [sizes[0] * sizes[1], *sizes[2:]]
    derived = g.derived(filters, joined, lambda array: array.reshape(joined))
    return derived or g.reshape(filters, joined), sizes[0]


@lowers("Convolution", "GroupConvolution")
def convolution(g: Graph, op: Convolution1, data: Tensor, filters: Tensor) -> Tensor:
    """ONNX's Conv; of integers a product of matrices in i64."""
    weights, groups = grouped(g, filters, op.lead)
    kernel = filters.shape[op.lead :]
    if not kernel.is_static:
        g.refuse("the size of the kernel is not known")
    pads, auto = window_pads(g, op, data, list(kernel.static))
    own = data.type
    if not own.is_float:
        return _of_integers(g, op, data, weights, groups)
    return g.op(
        "Conv",
        data,
        weights,
        kernel_shape=list(kernel.static),
        strides=list(op.strides),
        dilations=list(op.dilations),
        pads=pads,
        auto_pad=auto,
        group=groups,
        shape=g.outputs[0].shape,
    )


def _of_integers(g: Graph, op: Convolution1, data: Tensor, filters: Tensor, groups: int) -> Tensor:
    """A convolution of integers: the windows as columns, and one product of matrices in i64, which
    wraps as integers do.
    """
    if groups != 1 or not data.shape[2:].is_static or not filters.shape.is_static:
        g.refuse("a convolution of integers in groups, or with sizes that are not known")
    outputs, channels, *kernel = filters.shape.static
    slides = op.slides(np.broadcast_to(np.zeros(()), data.shape[2:].static), kernel)
    after = [max(0, s.windows_extent - s.pad_begin - s.size) for s in slides]
    padded = data
    if any(s.pad_begin for s in slides) or any(after):
        padded = g.op("Pad", data, [0, 0, *(s.pad_begin for s in slides), 0, 0, *after])
    axes = list(range(2, 2 + op.axes))
    parts = []
    for cell in np.ndindex(*kernel):
        starts = [k * s.dilation for k, s in zip(cell, slides, strict=True)]
        ends = [b + (s.count - 1) * s.stride + 1 for b, s in zip(starts, slides, strict=True)]
        parts.append(g.op("Slice", padded, starts, ends, axes, [s.stride for s in slides]))
    columns = g.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    rows = channels * int(np.prod(kernel))
    flat = g.op(
        "Reshape",
        g.cast(columns, ElementType.i64),
        [-1, rows, int(np.prod([s.count for s in slides]))],
    )
    turned = g.op("Transpose", filters, perm=[0, *axes, 1])
    weights = g.cast(g.op("Reshape", turned, [outputs, rows]), ElementType.i64)
    product = g.op(
        "Reshape", g.op("MatMul", weights, flat), [-1, outputs, *(s.count for s in slides)]
    )
    return g.cast(product, data.type)


@lowers("ConvolutionBackpropData", "GroupConvolutionBackpropData")
def backprop(
    g: Graph,
    op: ConvolutionBackpropData1,
    data: Tensor,
    filters: Tensor,
    output_shape: Tensor | None,
) -> Tensor:
    """ONNX's ConvTranspose. A given output shape is reached by cutting the result, and by zeros
    where the kernel does not reach.
    """
    if not data.type.is_float:
        g.refuse("ONNX's ConvTranspose takes floats only")
    weights, groups = grouped(g, filters, op.lead)
    kernel = filters.shape[op.lead :]
    if not kernel.is_static:
        g.refuse("the size of the kernel is not known")
    common: dict[str, Any] = {
        "kernel_shape": list(kernel.static),
        "strides": list(op.strides),
        "dilations": list(op.dilations),
        "group": groups,
    }
    if output_shape is None:
        fixed = [op.fixed_pads(axis) for axis in range(op.axes)]
        extra = list(op.output_padding)
        if all(e < max(s, d) for e, s, d in zip(extra, op.strides, op.dilations, strict=True)):
            pads = [b for b, _ in fixed] + [e for _, e in fixed]
            return g.op("ConvTranspose", data, weights, pads=pads, output_padding=extra, **common)
    reached = g.op("ConvTranspose", data, weights, **common)
    return _cut(g, op, data, list(kernel.static), reached, output_shape)


def _cut(
    g: Graph,
    op: ConvolutionBackpropData1,
    data: Tensor,
    kernel: list[int],
    reached: Tensor,
    output_shape: Tensor | None,
) -> Tensor:
    """The result of ConvTranspose without pads, cut to the output's sizes."""
    rank = op.axes + 2
    sizes = data.shape[2:]
    wanted = None if output_shape is None else output_shape.known()
    if sizes.is_static and (output_shape is None or wanted is not None):
        spread = [
            s * (n - 1) + extent(k, d)
            for s, n, k, d in zip(op.strides, sizes.static, kernel, op.dilations, strict=True)
        ]
        begins, results = op.cut(spread, None if wanted is None else np.array(wanted))
        missing = [max(0, b + n - r) for b, n, r in zip(begins, results, spread, strict=True)]
        start, end = (
            g.constant(np.array(begins)),
            g.constant(np.array([b + n for b, n in zip(begins, results, strict=True)])),
        )
        tail = g.constant(np.array(missing)) if any(missing) else None
    else:
        size = g.op("Shape", reached, start=2, end=rank, type=ElementType.i64, shape=[op.axes])
        padding = g.constant(np.array(op.output_padding))
        if output_shape is None:
            begins = [op.fixed_pads(axis)[0] for axis in range(op.axes)]
            ends = [op.output_padding[axis] - op.fixed_pads(axis)[1] for axis in range(op.axes)]
            start, end = g.constant(np.array(begins)), g.op("Add", size, g.constant(np.array(ends)))
        else:
            target = g.vector(output_shape)
            total = g.op(
                "Max",
                g.op("Sub", g.op("Add", size, padding), target),
                g.constant(0, ElementType.i64),
            )
            half = g.op("Div", total, g.constant(2, ElementType.i64))
            start = g.op("Sub", total, half) if op.auto_pad == "same_upper" else half
            end = g.op("Add", start, target)
        tail = g.op("Max", g.op("Sub", end, size), g.constant(0, ElementType.i64))
    if tail is not None:
        zeros = np.zeros(2, np.int64)
        pads = g.concat([zeros, np.zeros(op.axes, np.int64), zeros, tail])
        reached = g.op("Pad", reached, pads)
    return g.op("Slice", reached, start, end, list(range(2, rank)), shape=g.outputs[0].shape)


@lowers("BinaryConvolution")
def binary(g: Graph, op: BinaryConvolution1, data: Tensor, filters: Tensor) -> Tensor:
    """A convolution of the numbers -1 and 1 that the bits stand for; the filters' bits stand in
    reverse, eight by eight.
    """
    kernel = filters.shape[2:]
    if not filters.shape.is_static or not data.shape[2:].is_static:
        g.refuse("the sizes of the image or of the filters are not known")
    own = data.type
    bits = g.op("Reshape", replace(filters, type=ElementType.u8), [-1, 8])
    turned = g.op(
        "Reshape",
        g.op("Slice", bits, [-1], [-9], [1], [-1]),
        g.constant(np.array(filters.shape.static)),
    )
    numbers = [_signs(g, g.cast(t, ElementType.f32)) for t in (data, turned)]
    slides = op.slides(np.broadcast_to(np.zeros(()), data.shape[2:].static), kernel.static)
    pads = [
        0,
        0,
        *(s.pad_begin for s in slides),
        0,
        0,
        *(max(0, s.windows_extent - s.pad_begin - s.size) for s in slides),
    ]
    padded = (
        g.op("Pad", numbers[0], pads, g.constant(np.float32(op.pad_value)))
        if any(pads)
        else numbers[0]
    )
    sums = g.op(
        "Conv",
        padded,
        numbers[1],
        kernel_shape=list(kernel.static),
        strides=list(op.strides),
        dilations=list(op.dilations),
    )
    return g.cast(replace(sums, shape=g.outputs[0].shape), own)


def _signs(g: Graph, bits: Tensor) -> Tensor:
    return g.op("Sub", g.op("Mul", bits, g.constant(np.float32(2))), g.constant(np.float32(1)))
