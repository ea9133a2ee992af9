"""Internal operations: layers over data in blocks of channels.

`[N, C, ..]` in blocks of b channels is `[N, C / b, .., b]`. Zeros fill the last block of channels
that are no whole number of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from uncork import storage
from uncork.internal_ops.held import HALF, widened
from uncork.internal_ops.stored_filters import StoredFilters
from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, Field, Input, Output, Several
from uncork.types import Array, ElementType, PartialShape, TensorSpec


def blocked_shape(shape: PartialShape, block: int) -> PartialShape:
    """The shape of `[N, C, ..]` in blocks of channels."""
    images, channels, *others = shape.dims
    return PartialShape([images, -(-int(channels) // block), *others, block])


def plain_shape(shape: PartialShape) -> PartialShape:
    """The shape `[N, C, ..]` of what lies in blocks that are all full."""
    images, blocks, *others, block = shape.dims
    return PartialShape([images, int(blocks) * int(block), *others])


def to_blocks(data: Array, block: int) -> Array:
    """`[N, C, ..]` in blocks."""
    images, channels, *others = data.shape
    blocks = -(-channels // block)
    if channels < blocks * block:
        more = [(0, 0), (0, blocks * block - channels), *[(0, 0)] * len(others)]
        data = np.pad(data, more)
    apart = data.reshape(images, blocks, block, *others)
    return np.ascontiguousarray(np.moveaxis(apart, 2, -1))


def from_blocks(data: Array) -> Array:
    """The array `[N, C, ..]` of one that lies in blocks of channels."""
    images, blocks, *others, block = data.shape
    return np.ascontiguousarray(np.moveaxis(data, -1, 2)).reshape(images, blocks * block, *others)


class ToBlocks(Operation):
    """`[N, C, ..]` in blocks of channels."""

    data = Input(ANY, "T", moved=True)
    output = Output("T")

    block = Field[int]()

    def infer(self, data: TensorSpec) -> PartialShape:
        return blocked_shape(data.shape, self.block)

    def reference(self, data: Array) -> Array:
        return to_blocks(data, self.block)


class FromBlocks(Operation):
    """A tensor that lies in blocks of channels as `[N, C, ..]`."""

    data = Input(ANY, "T", moved=True)
    output = Output("T")

    def infer(self, data: TensorSpec) -> PartialShape:
        return plain_shape(data.shape)

    def reference(self, data: Array) -> Array:
        return from_blocks(data)


class OnBlocks(Operation):
    """An operation of which some inputs, and the result, lie in blocks of channels.

    All else is as in the operation.

    `lies` says of each input whether it does; the result's blocks have `block` channels. What lies
    in blocks is f32 or, where `half`, bf16: it is widened, and the result rounded once.
    """

    values = Input(ANY, variadic=True)
    output = Output()

    operation = Field[Operation]()
    lies = Several[bool]()
    block = Field[int]()
    half = Field(False)

    def plain(self, specs: Sequence[TensorSpec | None]) -> list[TensorSpec | None]:
        """The inputs as the operation takes them."""
        return [
            _plain(spec) if lies and spec is not None else spec
            for spec, lies in zip(specs, self.lies, strict=True)
        ]

    def describe(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        (result,) = self.operation.describe(self.plain(specs))
        shape = blocked_shape(result.shape, self.block)
        held = HALF if self.half else result.element_type
        return (replace(result, element_type=held, shape=shape, value=None, elements=None),)

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        (result,) = self.operation.evaluate(self.plain(specs))
        value = to_blocks(np.asarray(result.known), self.block)
        if self.half:
            return (TensorSpec.of_array(HALF, storage.encode(value, HALF)),)
        return (TensorSpec.of_array(result.element_type, value),)


class BlockedConvolution(OnBlocks):
    """A convolution, with what ends it, whose data and result lie in blocks of channels.

    Kernels compute it by Winograd's tiles of `side` x `side` results; 0 for direct sums. Its second
    input are its filters or, where these are `stored`, their codes.
    """

    multiplies = True

    side = Field(0)
    stored = Field[StoredFilters | None](None)

    def plain(self, specs: Sequence[TensorSpec | None]) -> list[TensorSpec | None]:
        plain = super().plain(specs)
        if self.stored is not None:
            plain[1] = TensorSpec(ElementType.f32, PartialShape(self.stored.shape))
        return plain

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        if self.stored is None:
            return super().evaluate(specs)
        value = self.stored.values()
        made = TensorSpec.of_array(ElementType.f32, value)
        return self.replace(stored=None).evaluate([specs[0], made, *specs[2:]])


class BlockedPooling(OnBlocks):
    """A pooling that gives values only, of data in blocks of channels."""


def _plain(spec: TensorSpec) -> TensorSpec:
    wide = widened(spec)
    assert wide is not None
    value = None if wide.value is None else from_blocks(wide.value)
    return TensorSpec(wide.element_type, plain_shape(wide.shape), value)
