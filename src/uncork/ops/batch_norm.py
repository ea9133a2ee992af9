"""BatchNormInference-1, -5 and GroupNormalization-12: channels brought to a mean and a variance.

    BatchNormInference: output = gamma * (x - mean) / sqrt(variance + epsilon) + beta
                        all four given for each channel (axis 1)
    GroupNormalization: output = scale * (x - mean) / sqrt(variance + epsilon) + bias
                        mean and variance of each group of channels

Pages: operation-specs/normalization/batch-norm-inference-1, -5, group-normalization-12. The page of
BatchNormInference-1 has the inputs in the order of version 5; the files, and OpenVINO, have gamma,
beta, data, mean, variance, and that is what is read here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from uncork.ops._common.shapes import require_rank
from uncork.ops._operation import OfReals, Operation, register
from uncork.ops._ports import REAL, Attribute, Input, Output, at_least, integer, number
from uncork.ops.mvn import standardised
from uncork.types import Array, Dimension, PartialShape, TensorSpec


def _channels(
    operation: Operation, data: TensorSpec, parameters: Mapping[str, TensorSpec]
) -> Dimension:
    """The number of channels, which the length of each parameter must be."""
    operation.require(
        data.rank is None or data.rank >= 2,
        "input 'data': expected at least 2 dimensions, got shape {}",
        data.shape,
    )
    channels = Dimension() if data.rank is None else data.shape[1]
    for name, spec in parameters.items():
        require_rank(operation, name, spec, 1)
        channels = operation.wanted(
            channels if spec.rank is None else channels.merge(spec.shape[0]),
            "input '{}': expected {} values, one for each channel, got shape {}",
            name,
            channels,
            spec.shape,
        )
    return channels


def _result(data: TensorSpec, channels: Dimension) -> PartialShape:
    """The output's shape: that of the data, with the number of channels that is known by now."""
    return (
        data.shape
        if data.rank is None
        else PartialShape([*data.shape[:1], channels, *data.shape[2:]])
    )


def _by_channel(parameter: Array, rank: int) -> Array:
    return parameter.reshape(-1, *(1,) * (rank - 2))


class _BatchNorm(Operation):
    """The base of both versions, which have their inputs in orders of their own."""

    output = Output("T")
    epsilon = Attribute(number, check=at_least(0))

    def infer(self, *specs: TensorSpec) -> PartialShape:
        given = {port.name: spec for port, spec in zip(self.inputs, specs, strict=True)}
        data = given.pop("data")
        return _result(data, _channels(self, data, given))

    def reference(self, *arrays: Array) -> Array:
        given = {port.name: array for port, array in zip(self.inputs, arrays, strict=True)}
        data = given.pop("data")
        by = {name: _by_channel(array, data.ndim) for name, array in given.items()}
        deviation = np.sqrt(by["variance"] + data.dtype.type(self.epsilon))
        return np.asarray(by["gamma"] * ((data - by["mean"]) / deviation) + by["beta"])


@register("BatchNormInference", 5)
class BatchNormInference5(_BatchNorm):
    """`data [N, C, ...]`, the others `[C]`."""

    data = Input(REAL, "T")
    gamma = Input(REAL, "T")
    beta = Input(REAL, "T")
    mean = Input(REAL, "T")
    variance = Input(REAL, "T")


@register("BatchNormInference", 1)
class BatchNormInference1(_BatchNorm):
    """BatchNormInference-5 with `data` as its third input."""

    gamma = Input(REAL, "T")
    beta = Input(REAL, "T")
    data = Input(REAL, "T")
    mean = Input(REAL, "T")
    variance = Input(REAL, "T")


@register("GroupNormalization", 12)
class GroupNormalization(OfReals):
    """`data [N, C, ...]`, `scale [C]`, `bias [C]`; num_groups divides C."""

    scale = Input(REAL, "T")
    bias = Input(REAL, "T")
    num_groups = Attribute(integer, check=at_least(1))
    epsilon = Attribute(number)

    def infer(self, data: TensorSpec, scale: TensorSpec, bias: TensorSpec) -> PartialShape:
        channels = _channels(self, data, {"scale": scale, "bias": bias})
        self.require(
            channels.is_multiple_of(self.num_groups),
            "num_groups {} does not divide the {} channels of data {}",
            self.num_groups,
            channels,
            data.shape,
        )
        return _result(data, channels)

    def reference(self, data: Array, scale: Array, bias: Array) -> Array:
        if not data.size:
            return data
        grouped = data.reshape(data.shape[0], self.num_groups, -1)
        normal = standardised(grouped, (2,), self.epsilon).reshape(data.shape)
        return np.asarray(_by_channel(scale, data.ndim) * normal + _by_channel(bias, data.ndim))
