"""Normalisations: by given or computed means and variances, by norms, and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uncork.export.onnx.families.shapes import numbers
from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.batch_norm import BatchNormInference5, GroupNormalization
from uncork.ops.mvn import MVN1, MVN6
from uncork.ops.normalization import GRN, LRN, NormalizeL2
from uncork.ops.softmax import SoftMax8
from uncork.types import ElementType


def widened(g: Graph, tensor: Tensor) -> Tensor:
    """f16 and bf16 as f32, others as they are: sums then accumulate in f32 and are rounded once."""
    return (
        g.cast(tensor, ElementType.f32)
        if tensor.type in (ElementType.f16, ElementType.bf16)
        else tensor
    )


@lowers("SoftMax", "LogSoftmax")
def softmax(g: Graph, op: SoftMax8, data: Tensor) -> Tensor:
    """ONNX's Softmax or LogSoftmax."""
    return g.op(
        "LogSoftmax" if op.type_name == "LogSoftmax" else "Softmax",
        data,
        axis=op.axis,
        shape=data.shape,
    )


@lowers("BatchNormInference")
def batch_norm(g: Graph, op: BatchNormInference5, *inputs: Tensor) -> Tensor:
    """ONNX's BatchNormalization; version 1 has the data in third place."""
    data, gamma, beta, mean, variance = inputs
    if op.opset == 1:
        gamma, beta, data = inputs[:3]
    return g.op("BatchNormalization", data, gamma, beta, mean, variance, epsilon=float(op.epsilon))


@lowers("GroupNormalization")
def group_norm(
    g: Graph, op: GroupNormalization, data: Tensor, scale: Tensor, bias: Tensor
) -> Tensor:
    """Spelled out: onnxruntime computes its GroupNormalization by the mean of the squares, less the
    square of the mean, of which little is left where the mean is large.
    """
    wide = widened(g, data)
    inner = data.shape[1:]
    groups = g.constant(np.array([int(op.num_groups)]))
    if inner.is_static:
        size = g.constant(np.array([math.prod(inner.static) // int(op.num_groups)]))
    else:
        product = g.op("ReduceProd", g.dims(data, 1, g.rank(data)), keepdims=1)
        size = g.op("Div", product, groups)
    target = g.concat([g.dim(data, 0), groups, size])
    grouped = g.op("Reshape", wide, target, allowzero=1)
    normal = g.reshape(standardised(g, grouped, [2], float(op.epsilon)), g.shape(data))
    axes = list(range(1, g.rank(data) - 1))
    by_channel = [g.unsqueeze(widened(g, t), axes) for t in (scale, bias)]
    return g.cast(g.op("Add", g.op("Mul", normal, by_channel[0]), by_channel[1]), data.type)


def standardised(
    g: Graph,
    x: Tensor,
    axes: Sequence[int] | Tensor,
    eps: float,
    divide: bool = True,
    inside: bool = True,
) -> Tensor:
    """Data less its mean and, if wanted, divided by its standard deviation, along axes."""
    centred = g.op("Sub", x, g.op("ReduceMean", x, axes, keepdims=1))
    if not divide:
        return centred
    variance = g.op("ReduceMean", g.op("Mul", centred, centred), axes, keepdims=1)
    small = g.number(eps, x)
    root = (
        g.op("Sqrt", g.op("Add", variance, small))
        if inside
        else g.op("Add", g.op("Sqrt", variance), small)
    )
    return g.op("Div", centred, root)


@lowers("MVN")
def mvn(g: Graph, op: MVN1 | MVN6, data: Tensor, axes: Tensor | None = None) -> Tensor:
    """Data less its mean, over its deviation if wanted: spelled out, since ONNX's
    MeanVarianceNormalization has no epsilon.
    """
    rank = g.rank(data)
    along = (
        list(op.axes(rank))
        if isinstance(op, MVN1)
        else [a % rank for a in numbers(g, axes, "axes")]
    )
    inside = isinstance(op, MVN1) or op.eps_mode == "inside_sqrt"
    wide = widened(g, data)
    if not along:
        return g.cast(g.op("Sub", wide, wide), data.type)
    if (
        along == [rank - 1]
        and op.normalize_variance
        and inside
        and data.type is ElementType.f32
        and data.shape[-1].static_size
    ):
        ones = np.ones(int(data.shape[-1]), np.float32)
        return g.op("LayerNormalization", data, g.constant(ones), axis=-1, epsilon=float(op.eps))
    return g.cast(
        standardised(g, wide, along, float(op.eps), op.normalize_variance, inside), data.type
    )


@lowers("NormalizeL2")
def normalize_l2(g: Graph, op: NormalizeL2, data: Tensor, axes: Tensor) -> Tensor:
    """Data divided by its L2 norm along axes; without axes each element by its own."""
    wide = widened(g, data)
    squares = g.op("Mul", wide, wide)
    if axes.known() != []:
        squares = g.op("ReduceSum", squares, g.vector(axes), keepdims=1, noop_with_empty_axes=1)
    node = "Add" if op.eps_mode == "add" else "Max"
    return g.cast(
        g.op("Div", wide, g.op("Sqrt", g.op(node, squares, g.number(op.eps, wide)))), data.type
    )


@lowers("GRN")
def grn(g: Graph, op: GRN, data: Tensor) -> Tensor:
    """Data divided by its L2 norm over the channels."""
    wide = widened(g, data)
    squares = g.op("ReduceSum", g.op("Mul", wide, wide), [1], keepdims=1)
    return g.cast(
        g.op("Div", wide, g.op("Sqrt", g.op("Add", squares, g.number(op.bias, wide)))), data.type
    )


@lowers("LRN")
def lrn(g: Graph, op: LRN, data: Tensor, axes: Tensor) -> Tensor:
    """ONNX's LRN over the channels; else the sums of the window along one axis after the other."""
    along = sorted({a % g.rank(data) for a in numbers(g, axes, "axes")})
    if along == [1] and op.size % 2 and g.rank(data) == 4 and data.type is ElementType.f32:
        return g.op(
            "LRN",
            data,
            size=op.size,
            alpha=float(op.alpha),
            beta=float(op.beta),
            bias=float(op.bias),
        )
    wide = widened(g, data)
    total = g.op("Mul", wide, wide)
    for axis in along:
        total = _window_sum(g, total, axis, op.size // 2)
    scaled = g.op("Mul", total, g.number(op.alpha / op.size ** len(along), wide))
    power = g.op("Pow", g.op("Add", scaled, g.number(op.bias, wide)), g.number(op.beta, wide))
    return g.cast(g.op("Div", wide, power), data.type)


def _window_sum(g: Graph, data: Tensor, axis: int, radius: int) -> Tensor:
    if not radius:
        return data
    pads = np.zeros(2 * g.rank(data), np.int64)
    pads[[axis, g.rank(data) + axis]] = radius
    padded = g.op("Pad", data, pads)
    size = g.dim(data, axis)
    parts = []
    for shift in range(2 * radius + 1):
        start = g.constant(np.array([shift]))
        parts.append(g.op("Slice", padded, start, g.op("Add", size, start), [axis]))
    total = parts[0]
    for part in parts[1:]:
        total = g.op("Add", total, part)
    return total
