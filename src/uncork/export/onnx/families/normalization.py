"""Normalisations: by given or computed means and variances, by norms, and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.export.onnx.composed import composed
from uncork.export.onnx.families.shapes import numbers
from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.batch_norm import BatchNormInference5
from uncork.ops.mvn import MVN1, MVN6
from uncork.ops.normalization import LRN
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


@lowers("MVN")
def mvn(
    g: Graph, op: MVN1 | MVN6, data: Tensor, axes: Tensor | None = None
) -> Tensor | Sequence[Tensor]:
    """ONNX's LayerNormalization where it is that, else spelled out: its MeanVarianceNormalization
    has no epsilon.
    """
    rank = g.rank(data)
    along = op.axes(rank) if isinstance(op, MVN1) else numbers(g, axes, "axes")
    inside = isinstance(op, MVN1) or op.eps_mode == "inside_sqrt"
    last = [a % rank for a in along] == [rank - 1] and data.shape[-1].static_size
    if not last or not op.normalize_variance or not inside or data.type is not ElementType.f32:
        return composed(g, op, data, axes)
    ones = g.constant(np.ones(last, np.float32))
    return g.op("LayerNormalization", data, ones, axis=-1, epsilon=float(op.eps))


@lowers("LRN")
def lrn(g: Graph, op: LRN, data: Tensor, axes: Tensor) -> Tensor | Sequence[Tensor]:
    """ONNX's LRN over the channels; else the sums of the window along one axis after the other."""
    rank = g.rank(data)
    over_channels = {a % rank for a in numbers(g, axes, "axes")} == {1}
    if not over_channels or op.size % 2 == 0 or rank != 4 or data.type is not ElementType.f32:
        return composed(g, op, data, axes)
    scales: dict[str, Any] = {name: float(getattr(op, name)) for name in ("alpha", "beta", "bias")}
    return g.op("LRN", data, size=op.size, **scales)
