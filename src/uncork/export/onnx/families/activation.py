"""Activation functions. A function that onnxruntime computes in f32 only is spelled out in smaller
nodes for f64.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._operation import Operation
from uncork.ops.activation import Clamp, Elu, Gelu7, PReLU
from uncork.types import ElementType

T = ElementType


def _wide(data: Tensor) -> bool:
    return data.type is T.f64


@lowers("ReLU")
def relu(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """max(0, x)"""
    if data.type in (T.i16, T.i64) or data.type.kind == "unsigned":
        return g.op("Max", data, g.number(0, data))
    return g.op("Relu", data)


@lowers("PReLU")
def prelu(g: Graph, op: PReLU, data: Tensor, slope: Tensor) -> Tensor:
    """x, or slope * x below 0; the slope is by channel where it is 1-D and as long as there are
    channels.
    """
    if op.by_channel(data.shape, slope.shape):
        slope = g.unsqueeze(slope, list(range(1, g.rank(data) - 1)))
    elif g.rank(slope) == 1 and g.rank(data) > 1:
        count, channels = slope.shape[0], data.shape[1]
        if count.compatible(channels) and not (count.is_static and channels.is_static):
            slope = _open_slope(g, data, slope)
    if data.type in (T.f32, T.f16):
        return g.op("PRelu", data, slope)
    return g.op("Where", g.op("Less", data, g.number(0, data)), g.op("Mul", slope, data), data)


def _open_slope(g: Graph, data: Tensor, slope: Tensor) -> Tensor:
    """The slope reshaped for a number of channels that the model computes: by channel where the
    numbers agree, else along the last axis.
    """
    rank, count = g.rank(data), g.dim(slope, 0)
    ones = np.ones(rank, np.int64)
    channels, last = (g.concat([ones[:axis], count, ones[axis + 1 :]]) for axis in (1, rank - 1))
    shape = g.op("Where", g.op("Equal", g.dim(data, 1), count), channels, last, shape=[rank])
    return g.op("Reshape", slope, shape, allowzero=1)


@lowers("Elu")
def elu(g: Graph, op: Elu, data: Tensor) -> Tensor:
    """x where it is above 0, else alpha * (e^x - 1)"""
    if not _wide(data):
        return g.op("Elu", data, alpha=float(op.alpha))
    return _elu(g, data, g.number(op.alpha, data))


def _elu(g: Graph, data: Tensor, alpha: Tensor) -> Tensor:
    low = g.op("Mul", alpha, g.op("Sub", g.op("Exp", data), g.number(1, data)))
    return g.op("Where", g.op("Greater", data, g.number(0, data)), data, low)


@lowers("Selu")
def selu(g: Graph, op: Operation, data: Tensor, alpha: Tensor, scale: Tensor) -> Tensor:
    """scale * x where x is above 0, else scale * alpha * (e^x - 1)"""
    if (
        alpha.value is not None
        and scale.value is not None
        and not _wide(data)
        and data.type is not T.bf16
    ):
        return g.op(
            "Selu", data, alpha=float(alpha.value.reshape(())), gamma=float(scale.value.reshape(()))
        )
    return g.op("Mul", g.scalar(scale), _elu(g, data, g.scalar(alpha)))


@lowers("Sigmoid")
def sigmoid(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """1 / (1 + e^-x)"""
    return g.op("Sigmoid", data)


def clipped(g: Graph, data: Tensor, low: float, high: float) -> Tensor:
    """Values moved into a range; NaN stays."""
    return g.op("Min", g.op("Max", data, g.number(low, data)), g.number(high, data))


@lowers("HardSigmoid")
def hard_sigmoid(g: Graph, op: Operation, data: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """max(0, min(1, alpha * x + beta))"""
    return clipped(g, g.op("Add", g.op("Mul", g.scalar(alpha), data), g.scalar(beta)), 0, 1)


def _relu6(g: Graph, data: Tensor) -> Tensor:
    return clipped(g, g.op("Add", data, g.number(3, data)), 0, 6)


@lowers("HSigmoid")
def h_sigmoid(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """min(max(x + 3, 0), 6) / 6"""
    return g.op("Div", _relu6(g, data), g.number(6, data))


@lowers("HSwish")
def h_swish(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6"""
    if not _wide(data):
        return g.op("HardSwish", data)
    return g.op("Div", g.op("Mul", data, _relu6(g, data)), g.number(6, data))


@lowers("Swish")
def swish(g: Graph, op: Operation, data: Tensor, beta: Tensor | None) -> Tensor:
    """x * sigmoid(beta * x)"""
    return g.op(
        "Mul", data, g.op("Sigmoid", data if beta is None else g.op("Mul", data, g.scalar(beta)))
    )


def softplus(g: Graph, data: Tensor) -> Tensor:
    """ln(1 + e^x), without overflow."""
    if not _wide(data):
        return g.op("Softplus", data)
    small = g.op("Exp", g.op("Neg", g.op("Abs", data)))
    logarithm = g.op("Log", g.op("Add", g.number(1, data), small))
    return g.op("Add", g.op("Max", data, g.number(0, data)), logarithm)


@lowers("SoftPlus")
def soft_plus(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """ln(1 + e^x)"""
    return softplus(g, data)


@lowers("Mish")
def mish(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """x * tanh(softplus(x))"""
    if not _wide(data):
        return g.op("Mish", data)
    return g.op("Mul", data, g.op("Tanh", softplus(g, data)))


@lowers("SoftSign")
def soft_sign(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """x / (1 + |x|)"""
    if not _wide(data):
        return g.op("Softsign", data)
    return g.op("Div", data, g.op("Add", g.number(1, data), g.op("Abs", data)))


@lowers("Gelu")
def gelu(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """x * P(X <= x) for a normal X, by erf or by its approximation with tanh."""
    tanh = isinstance(op, Gelu7) and op.approximation_mode == "tanh"
    if not _wide(data):
        return g.op("Gelu", data, approximate="tanh" if tanh else "none")
    one, half = g.number(1, data), g.number(0.5, data)
    if tanh:
        cube = g.op("Mul", g.op("Mul", data, data), data)
        inner = g.op("Add", data, g.op("Mul", g.number(0.044715, data), cube))
        inner = g.op("Tanh", g.op("Mul", g.number(math.sqrt(2 / math.pi), data), inner))
    else:
        inner = g.op("Erf", g.op("Mul", data, g.number(math.sqrt(0.5), data)))
    return g.op("Mul", g.op("Mul", data, half), g.op("Add", one, inner))


@lowers("Clamp")
def clamp(g: Graph, op: Clamp, data: Tensor) -> Tensor:
    """min(max(x, low), high); for integers the bounds are rounded inwards."""
    low, high = op.min, op.max
    if not data.type.is_float:
        least, most = _limits(data.type)
        low, high = op.bound(low, least, most, True), op.bound(high, least, most, False)
    if data.type in (T.f32, T.f64, T.f16):
        return g.op("Clip", data, g.number(low, data), g.number(high, data))
    return clipped(g, data, low, high)


def _limits(element_type: ElementType) -> tuple[int, int]:
    if element_type.kind == "signed":
        return -(2 ** (element_type.bits - 1)), 2 ** (element_type.bits - 1) - 1
    return 0, 2**element_type.bits - 1
