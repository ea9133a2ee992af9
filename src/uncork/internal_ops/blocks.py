"""Internal operations: layers over data in blocks of channels.

`[N, C, ..]` in blocks of b channels is `[N, C / b, .., b]`. Channels that are no whole number of
blocks, and parts of them that others join or cut, are runs, each of which begins a block: zeros
fill the last one of a run (`ChannelLayout`). To all layers over blocks these are channels like
others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork import storage
from uncork.internal_ops.held import HALF, widened
from uncork.internal_ops.stored_filters import StoredFilters
from uncork.ops._operation import Moving, Operation
from uncork.ops._ports import ANY, Field, Input, Output, Several
from uncork.types import Array, ElementType, PartialShape, TensorSpec


def blocked_shape(shape: PartialShape, block: int) -> PartialShape:
    """The shape of `[N, C, ..]` in blocks of channels, all of which are full."""
    images, channels, *others = shape.dims
    return PartialShape([images, int(channels) // block, *others, block])


def plain_shape(shape: PartialShape) -> PartialShape:
    """The shape `[N, C, ..]` of what lies in blocks that are all full."""
    images, blocks, *others, block = shape.dims
    return PartialShape([images, int(blocks) * int(block), *others])


def to_blocks(data: Array, block: int) -> Array:
    """`[N, C, ..]` in blocks, all of which are full."""
    images, channels, *others = data.shape
    apart = data.reshape(images, channels // block, block, *others)
    return np.ascontiguousarray(np.moveaxis(apart, 2, -1))


def from_blocks(data: Array) -> Array:
    """The array `[N, C, ..]` of one that lies in blocks of channels."""
    images, blocks, *others, block = data.shape
    return np.ascontiguousarray(np.moveaxis(data, -1, 2)).reshape(images, blocks * block, *others)


class ChannelLayout(Struct, frozen=True):
    """How channels lie in blocks of `block`: `runs` of so many channels follow each other."""

    block: int
    runs: tuple[int, ...]

    @property
    def is_full(self) -> bool:
        """Whether no zeros fill blocks."""
        return all(run % self.block == 0 for run in self.runs)

    @property
    def blocks(self) -> int:
        return sum(-(-run // self.block) for run in self.runs)

    @property
    def channels(self) -> int:
        """The channels, with those of zeros."""
        return self.blocks * self.block

    def part(self, first: int, end: int) -> ChannelLayout | None:
        """The layout of neighbouring channels; None where they are not some whole blocks."""
        runs: list[int] = []
        for run in self.runs:
            begin, stop = max(first, 0), min(end, run)
            if begin < stop:
                if begin % self.block or (stop % self.block and stop != run):
                    return None
                runs.append(stop - begin)
            first, end = first - run, end - run
        return ChannelLayout(self.block, tuple(runs))

    def shape(self, shape: PartialShape) -> PartialShape:
        """The shape of `[N, C, ..]` in blocks."""
        images, _, *others = shape.dims
        return PartialShape([images, self.blocks, *others, self.block])

    def filled(self, array: Array, axis: int) -> Array:
        """An array with zeros for the channels of zeros, which lie along an axis."""
        if self.is_full:
            return array
        sizes = list(array.shape)
        sizes[axis] = self.channels
        result = np.zeros(sizes, array.dtype)
        np.moveaxis(result, axis, 0)[self._places] = np.moveaxis(array, axis, 0)
        return result

    def laid(self, data: Array) -> Array:
        """`[N, C, ..]` in blocks."""
        return to_blocks(self.filled(data, 1), self.block)

    def taken(self, data: Array) -> Array:
        """The array `[N, C, ..]` of one that lies in blocks."""
        plain = from_blocks(data)
        return plain if self.is_full else np.ascontiguousarray(plain[:, self._places])

    @property
    def _places(self) -> list[int]:
        """Where channels are among those with zeros."""
        found: list[int] = []
        first = 0
        for run in self.runs:
            found += range(first, first + run)
            first += -(-run // self.block) * self.block
        return found


def joined(runs: Sequence[int], block: int) -> tuple[int, ...]:
    """The runs, one in place of neighbours between which no zeros are."""
    found: list[int] = []
    for run in runs:
        if found and found[-1] % block == 0:
            found[-1] += run
        else:
            found.append(run)
    return tuple(found)


class ToBlocks(Moving):
    """`[N, C, ..]` in blocks of channels."""

    layout = Field[ChannelLayout]()

    def infer(self, data: TensorSpec) -> PartialShape:
        return self.layout.shape(data.shape)

    def reference(self, data: Array) -> Array:
        return self.layout.laid(data)


class FromBlocks(Moving):
    """A tensor that lies in blocks of channels as `[N, C, ..]`."""

    layout = Field[ChannelLayout]()

    def infer(self, data: TensorSpec) -> PartialShape:
        images, _, *others, _ = data.shape.dims
        return PartialShape([images, sum(self.layout.runs), *others])

    def reference(self, data: Array) -> Array:
        return self.layout.taken(data)


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


class BlockedNormalization(OnBlocks):
    """A normalisation of groups of channels or over channels, with what ends it, of data in blocks
    of channels that are all full; or of the pixels of each channel.
    """


def _plain(spec: TensorSpec) -> TensorSpec:
    wide = widened(spec)
    assert wide is not None
    value = None if wide.value is None else from_blocks(wide.value)
    return TensorSpec(wide.element_type, plain_shape(wide.shape), value)
