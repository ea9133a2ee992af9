"""Layers on codes: what FakeQuantize rounds is held as bytes between layers; no file has it.

The meaning of such a layer is that of the layers of the file: codes stand for the numbers that
FakeQuantize gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Union

import numpy as np
from msgspec import Struct

from uncork.internal_ops.fused import product_of
from uncork.internal_ops.made_constant import MadeConstant
from uncork.internal_ops.pooled_values import PooledValues
from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, Field, Input, Output, Several
from uncork.types import Array, ElementType, PartialShape, TensorSpec

#: Codes of channels lie in words of so many bytes.
WORD = 4
#: How far from a whole number, in steps, the code of zero and weights may be: what f32 loses of
#: limits.
TOLERANCE = 1e-4


def in_words(channels: int) -> int:
    """The number of bytes that so many codes take in whole words."""
    return -(-channels // WORD) * WORD


#: A limit of levels: a number, or one for each channel.
Limit = Union[float, tuple[float, ...]]


class Grid(Struct, frozen=True):
    """The grid of a FakeQuantize: its levels, at most 256, with limits (f32) that hold for all
    elements, or of each of several channels. What follows from limits is one number, or an array of
    one for each channel; arrays of codes and numbers have their channels last.
    """

    levels: int
    input_low: Limit
    input_high: Limit
    output_low: Limit
    output_high: Limit

    @property
    def channels(self) -> int:
        """The channels that have limits of their own; 0 where all elements have the same."""
        limits = (self.input_low, self.input_high, self.output_low, self.output_high)
        return max(len(limit) if isinstance(limit, tuple) else 0 for limit in limits)

    @property
    def step(self) -> Array:
        """The distance from one output level to the next."""
        return (_numbers(self.output_high) - _numbers(self.output_low)) / (self.levels - 1)

    @property
    def zero(self) -> Array | None:
        """The code that stands for 0; None where none does in some channel."""
        place = -_numbers(self.output_low) / self.step
        codes = np.rint(place)
        near = (np.abs(place - codes) <= TOLERANCE) & (codes >= 0) & (codes < self.levels)
        return codes.astype(np.uint8) if near.all() else None

    @property
    def nearest_zero(self) -> Array:
        """The whole number of steps from the first level that comes nearest to 0."""
        return np.rint(-_numbers(self.output_low) / self.step).astype(np.int64)

    @property
    def rest(self) -> Array:
        """The number that `nearest_zero` stands for: 0, or less than a step from it."""
        return np.asarray(_numbers(self.output_low) + self.nearest_zero * self.step)

    @property
    def scaling(self) -> tuple[Array, Array]:
        """A factor and an addend that make codes of numbers, before rounding and limits."""
        low = _numbers(self.input_low)
        factor = np.asarray((self.levels - 1) / (_numbers(self.input_high) - low))
        return factor, -low * factor

    def codes(self, values: Array) -> Array:
        """The codes of numbers, by the formula of FakeQuantize."""
        low, high = (np.asarray(x, np.float32) for x in (self.input_low, self.input_high))
        steps = np.float32(self.levels - 1)
        code = np.rint((np.clip(values, low, high) - low) / (high - low) * steps)
        return np.asarray(code, np.uint8)

    def values(self, codes: Array) -> Array:
        """The numbers that codes stand for, by the formula of FakeQuantize."""
        low, high = (np.asarray(x, np.float32) for x in (self.output_low, self.output_high))
        return np.asarray(
            codes.astype(np.float32) / np.float32(self.levels - 1) * (high - low) + low
        )


def _numbers(limit: Limit) -> Array:
    return np.asarray(limit, np.float64)


class Held(Struct, frozen=True):
    """How a tensor of f32 is held: as numbers or codes; with channels where they are, or `last`.

    Channels are along axis 1, and `last` moves them to the end; without it they are along the last
    one. Codes of `channels` channels fill whole words: those behind them nobody reads.
    """

    grid: Grid | None = None
    last: bool = False
    channels: int = 0

    def shape(self, plain: PartialShape) -> PartialShape:
        """The shape in which a tensor of this plain shape is held."""
        if self == PLAIN:
            return plain
        dims = [plain[0], *plain.dims[2:], plain[1]] if self.last else list(plain.dims)
        if self.grid is not None:
            return PartialShape([*dims[:-1], in_words(self.channels)])
        return PartialShape(dims)

    def plain_shape(self, held: PartialShape) -> PartialShape:
        """The plain shape of a tensor that is held in this shape."""
        if self == PLAIN:
            return held
        first, *others = held.dims[:-1]
        return PartialShape(
            [first, self.channels, *others] if self.last else [first, *others, self.channels]
        )

    def spec(self, plain: PartialShape) -> TensorSpec:
        """The spec of the tensor that holds one of this plain shape."""
        return TensorSpec(
            ElementType.f32 if self.grid is None else ElementType.u8, self.shape(plain)
        )

    def hold(self, values: Array) -> Array:
        """The array that holds these numbers."""
        if self.last:
            values = np.moveaxis(values, 1, -1)
        if self.grid is None:
            return np.ascontiguousarray(values)
        codes = self.grid.codes(values)
        more = in_words(self.channels) - self.channels
        return np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, more)])

    def values(self, held: Array) -> Array:
        """The numbers that an array holds."""
        if self.grid is not None:
            held = self.grid.values(held[..., : self.channels])
        return np.ascontiguousarray(np.moveaxis(held, -1, 1)) if self.last else held


#: Numbers as they are.
PLAIN = Held()


class Reheld(Operation):
    """A tensor that is held in another way: as codes, as numbers, with channels elsewhere.

    A NaN has no code.
    """

    data = Input(ANY)
    output = Output()

    source = Field[Held]()
    target = Field[Held]()

    def infer(self, data: TensorSpec) -> TensorSpec:
        return self.target.spec(self.source.plain_shape(data.shape))

    def reference(self, data: Array) -> Array:
        values = self.source.values(data)
        self.require(
            self.target.grid is None or not np.isnan(values).any(), "no code stands for NaN"
        )
        return self.target.hold(values)


class QuantizedWeights(Struct, frozen=True, eq=False):
    """Weights of a product as `codes * scales`: i8 `[outputs, ..]`, and a scale for each output."""

    codes: Array
    scales: Array
    #: The shape in which the product has them; of a matrix perhaps with its outputs last.
    shape: tuple[int, ...]
    outputs_last: bool = False

    @property
    def outputs(self) -> int:
        return int(self.codes.shape[0])

    def cut(self, outputs: slice) -> QuantizedWeights:
        """The weights of some outputs of a matrix."""
        codes = self.codes[outputs]
        shape = codes.shape[::-1] if self.outputs_last else codes.shape
        return QuantizedWeights(codes, self.scales[outputs], shape, self.outputs_last)

    def values(self) -> Array:
        """The weights in f32, in the shape that the product takes."""
        values = self.codes.astype(np.float32) * self.scales.reshape(
            -1, *(1,) * (self.codes.ndim - 1)
        )
        return values.T if self.outputs_last else values.reshape(self.shape)


class QuantizedConstant(MadeConstant):
    """A constant of f32 that has its quantized weights."""

    type_name, opset = "QuantizedConstant", 0

    weights = Field[QuantizedWeights]()


class OnCodes(Operation):
    """An operation whose inputs and result are held in some way; `held` says it of each input."""

    values = Input(ANY, variadic=True)
    output = Output()

    operation = Field[Operation]()
    held = Several[Held]()
    result = Field[Held]()

    def plain(self, specs: Sequence[TensorSpec | None]) -> list[TensorSpec | None]:
        """The inputs as the operation takes them."""
        return [
            None if spec is None else _plain(held, spec)
            for held, spec in zip(self.held, specs, strict=True)
        ]

    def describe(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        (result,) = self.operation.describe(self.plain(specs))
        return (self.result.spec(result.shape),)

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        (result,) = self.operation.evaluate(self.plain(specs))
        value = self.result.hold(result.known)
        return (
            TensorSpec.of_array(
                ElementType.f32 if self.result.grid is None else ElementType.u8, value
            ),
        )


class QuantizedProduct(OnCodes):
    """A convolution or MatMul, with its end, of codes and 8-bit weights: sums are whole numbers.

    The operation's second input are the weights, which are none of this one's.
    """

    multiplies = True

    weights = Field[QuantizedWeights]()

    @property
    def product(self) -> Operation:
        """The convolution or MatMul itself."""
        return product_of(self.operation)

    def plain(self, specs: Sequence[TensorSpec | None]) -> list[TensorSpec | None]:
        plain = super().plain(specs)
        known = plain[0] is not None and plain[0].value is not None
        weights = TensorSpec(
            ElementType.f32,
            PartialShape(self.weights.shape),
            self.weights.values() if known else None,
        )
        return [plain[0], weights, *plain[1:]]


class QuantizedPool(OnCodes):
    """A MaxPool of codes: the largest code stands for the largest number."""

    @property
    def pool(self) -> Operation:
        """The pooling itself."""
        return self.operation.pool if isinstance(self.operation, PooledValues) else self.operation


class QuantizedMean(OnCodes):
    """The ReduceMean of codes over all that lies between images and channels."""


class QuantizedElements(OnCodes):
    """Operations element by element on codes, as one `Fused`, the last of which rounds to codes."""


def as_held(held: Sequence[Held], specs: Iterable[TensorSpec]) -> list[TensorSpec]:
    """The specs of plain tensors as they are held."""
    return [
        spec if how == PLAIN else how.spec(spec.shape)
        for how, spec in zip(held, specs, strict=True)
    ]


def _plain(held: Held, spec: TensorSpec) -> TensorSpec:
    if held == PLAIN:
        return spec
    value = None if spec.value is None else held.values(spec.value)
    return TensorSpec(ElementType.f32, held.plain_shape(spec.shape), value)
