"""Activation functions: ReLU, PReLU, Elu, Selu, Sigmoid, HardSigmoid, HSigmoid, HSwish, Swish,
Mish, SoftPlus, SoftSign, Gelu, Clamp.

Pages: operation-specs/activation/<name>. Decided where they are silent:

- parameters that are inputs (`alpha`, `lambda`, `beta`) may be a scalar or one element, whatever
  the page's rank;
- SoftPlus, and so Mish, is computed so that it cannot overflow, in place of the page's threshold;
- Clamp of integers: bounds beyond the type are its limits; ReLU and PReLU take integers; Clamp and
  ReLU keep NaN.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.ops._common.broadcast import broadcast_shapes
from uncork.ops._common.elementwise import Unary, erf, sigmoid, softplus
from uncork.ops._common.shapes import require_one
from uncork.ops._operation import OfNumbers, OfReals, register
from uncork.ops._ports import ARITHMETIC, REAL, Attribute, Input, number, one_of
from uncork.types import Array, PartialShape, TensorSpec


@register("ReLU", 1)
class ReLU(Unary):
    """max(0, x)"""

    data = Input(ARITHMETIC, "T")

    def reference(self, data: Array) -> Array:
        return np.asarray(np.maximum(data, data.dtype.type(0)))


@register("PReLU", 1)
class PReLU(OfNumbers):
    """x where it is at least 0, else slope * x. A 1-D slope as long as the second dimension of data
    is one slope a channel.
    """

    slope = Input(ARITHMETIC, "T")

    def by_channel(self, data: PartialShape, slope: PartialShape) -> bool:
        """Whether the slope has one number for each channel, as `infer` decided; not while a
        dimension that decides is unknown.
        """
        return (
            data.rank is not None
            and data.rank > 1
            and slope.rank == 1
            and slope[0].is_always(data[1])
        )

    def infer(self, data: TensorSpec, slope: TensorSpec) -> PartialShape:
        if data.rank is None or slope.rank is None:
            return data.shape
        if slope.rank == 1 and data.rank > 1 and slope.shape[0].may_be(data.shape[1]):
            return data.shape
        return broadcast_shapes(self, [data.shape, slope.shape], ["data", "slope"], "onto")

    def reference(self, data: Array, slope: Array) -> Array:
        if self.by_channel(PartialShape(data.shape), PartialShape(slope.shape)):
            slope = slope.reshape(-1, *(1,) * (data.ndim - 2))
        return np.where(data < 0, slope * data, data)


@register("Elu", 1)
class Elu(Unary):
    """x where it is above 0, else alpha * (e^x - 1)"""

    alpha = Attribute(number)

    def reference(self, data: Array) -> Array:
        return np.where(data > 0, data, data.dtype.type(self.alpha) * np.expm1(data))


class _Parametric(OfReals):
    """A function of each element and two numbers that are inputs."""

    def infer(self, data: TensorSpec, *parameters: TensorSpec) -> PartialShape:
        for port, spec in zip(self.inputs[1:], parameters, strict=False):
            require_one(self, port.name, spec)
        return data.shape


@register("Selu", 1)
class Selu(_Parametric):
    """scale * x above 0, else scale * alpha * (e^x - 1); the page calls the scale lambda"""

    alpha = Input(REAL, "T")
    scale = Input(REAL, "T")

    def reference(self, data: Array, alpha: Array, scale: Array) -> Array:
        alpha, scale = alpha.reshape(()), scale.reshape(())
        return np.asarray(scale * np.where(data > 0, data, alpha * np.expm1(data)))


@register("HardSigmoid", 1)
class HardSigmoid(_Parametric):
    """max(0, min(1, alpha * x + beta))"""

    alpha = Input(REAL, "T")
    beta = Input(REAL, "T")

    def reference(self, data: Array, alpha: Array, beta: Array) -> Array:
        return np.asarray(np.clip(alpha.reshape(()) * data + beta.reshape(()), 0, 1))


@register("Swish", 4)
class Swish(OfReals):
    """x * sigmoid(beta * x); beta is 1 when absent"""

    beta = Input(REAL, "T", optional=True)

    def infer(self, data: TensorSpec, beta: TensorSpec | None) -> PartialShape:
        if beta is not None:
            require_one(self, "beta", beta)
        return data.shape

    def reference(self, data: Array, beta: Array | None) -> Array:
        return np.asarray(data * sigmoid(data if beta is None else data * beta.reshape(())))


@register("Sigmoid", 1)
class Sigmoid(Unary):
    """1 / (1 + e^-x)"""

    reference = staticmethod(sigmoid)


@register("HSigmoid", 5)
class HSigmoid(Unary):
    """min(max(x + 3, 0), 6) / 6"""

    def reference(self, data: Array) -> Array:
        return np.asarray(np.clip(data + 3, 0, 6) / 6)


@register("HSwish", 4)
class HSwish(Unary):
    """x * min(max(x + 3, 0), 6) / 6"""

    def reference(self, data: Array) -> Array:
        return np.asarray(data * np.clip(data + 3, 0, 6) / 6)


@register("SoftPlus", 4)
class SoftPlus(Unary):
    """ln(1 + e^x)"""

    reference = staticmethod(softplus)


@register("Mish", 4)
class Mish(Unary):
    """x * tanh(SoftPlus(x))"""

    def reference(self, data: Array) -> Array:
        return np.asarray(data * np.tanh(softplus(data)))


@register("SoftSign", 9)
class SoftSign(Unary):
    """x / (1 + |x|)"""

    def reference(self, data: Array) -> Array:
        return np.asarray(data / (1 + np.abs(data)))


@register("Gelu", 2)
class Gelu2(Unary):
    """x * (1 + erf(x / sqrt 2)) / 2"""

    def reference(self, data: Array) -> Array:
        return np.asarray(data * ((1 + erf(data * data.dtype.type(math.sqrt(0.5)))) / 2))


@register("Gelu", 7)
class Gelu7(Gelu2):
    """Gelu-2, or x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2"""

    approximation_mode = Attribute(one_of("erf", "tanh"), default="erf")

    def reference(self, data: Array) -> Array:
        if self.approximation_mode == "erf":
            return super().reference(data)
        inner = data.dtype.type(math.sqrt(2 / math.pi)) * (
            data + data.dtype.type(0.044715) * data**3
        )
        return np.asarray(data * ((1 + np.tanh(inner)) / 2))


@register("Clamp", 1)
class Clamp(Unary):
    """min(max(x, min), max); for integers the bounds are rounded inwards"""

    data = Input(ARITHMETIC, "T")
    min = Attribute(number)
    max = Attribute(number)

    def check_attributes(self) -> None:
        self.require(
            self.min <= self.max,
            "expected min not above max, got min {} and max {}",
            self.min,
            self.max,
        )

    def reference(self, data: Array) -> Array:
        low, high = self.min, self.max
        if data.dtype.kind != "f":
            limits = np.iinfo(data.dtype)
            low, high = (
                self.bound(value, limits.min, limits.max, up)
                for value, up in ((low, True), (high, False))
            )
        return np.asarray(np.minimum(np.maximum(data, data.dtype.type(low)), data.dtype.type(high)))

    def bound(self, value: float, least: int, most: int, up: bool) -> int:
        if math.isinf(value):
            return least if value < 0 else most
        return sorted((least, math.ceil(value) if up else math.floor(value), most))[1]
