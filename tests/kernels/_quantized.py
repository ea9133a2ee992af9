"""Quantized layers for tests: products of random codes with what ends them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uncork.internal_ops.fused import FusedConvolution, FusedLinear, FusedMember
from uncork.internal_ops.quantized import (
    PLAIN,
    Grid,
    Held,
    QuantizedProduct,
    QuantizedWeights,
    in_words,
)
from uncork.ops import Operation, find
from uncork.types import ElementType, PartialShape, TensorSpec


def grid(low: float, high: float, levels: int = 256) -> Grid:
    """A grid whose limits are numbers of f32, as a model has them."""
    ends = float(np.float32(low)), float(np.float32(high))
    return Grid(levels, *ends, *ends)


def of_channels(first: Grid, second: Grid, channels: int) -> Grid:
    """The limits of two grids by turns, one for each channel."""
    grids = [(first, second)[n % 2] for n in range(channels)]
    limits = ([getattr(grid, name) for grid in grids] for name in Grid.__struct_fields__[1:])
    return Grid(first.levels, *map(tuple, limits))


#: Limits from 0 on, through 0 with a code for it, and without one. Steps of powers of 2 make sums
#: that f32 holds.
POSITIVE, SIGNED, ODD = grid(0, 255 / 16), grid(-128 / 16, 127 / 16), grid(-1.234, 5.1)


def spec(array: np.ndarray) -> TensorSpec:
    return TensorSpec(
        ElementType.parse({"f": "f32", "u": "u8"}[array.dtype.kind]),
        PartialShape(array.shape),
        array,
    )


@dataclass
class Layer:
    """A convolution `[O, C, k, k]` of codes, or a product of a matrix `[O, C]`, ended by bias, sum,
    relu and FakeQuantize.
    """

    filters: tuple[int, ...]
    data: Grid = POSITIVE
    #: Images, rows, columns; of a product the rows.
    sizes: tuple[int, ...] = (1, 5, 5)
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    #: Another tensor that is added: codes of a grid, or numbers; and an activation.
    other: Grid | str = ""
    activation: str = "ReLU"
    result: Grid | None = None
    groups: int = 1

    def made(self, generator: np.random.Generator) -> tuple[QuantizedProduct, list[TensorSpec]]:
        windows = len(self.filters) > 2
        outputs, channels = self.filters[0], self.filters[1] * self.groups
        product, shape = self._product(windows)
        codes = generator.integers(-127, 128, self.filters).astype(np.int8)
        scales = (2.0 ** -generator.integers(8, 10, outputs)).astype(np.float32)
        weights = QuantizedWeights(codes, scales, shape)
        arrays = [
            generator.integers(0, self.data.levels, (*self.sizes, in_words(channels))).astype(
                np.uint8
            )
        ]
        held = [Held(self.data, windows, channels)]
        # No sum with it lies in the middle of two levels: their order of rounding does not matter.
        bias = (generator.integers(-64, 64, outputs) * 2 + 1) / np.float32(2**15)
        arrays.append(
            bias.astype(np.float32).reshape(1, -1, 1, 1) if windows else bias.astype(np.float32)
        )
        held.append(PLAIN)
        reaches = [2 * self.pad - (taps - 1) * self.dilation - 1 for taps in self.filters[2:]]
        counts = [
            (n + reach) // self.stride + 1
            for n, reach in zip(self.sizes[1:], reaches, strict=False)
        ]
        lead = [self.sizes[0], *counts] if windows else list(self.sizes)
        if isinstance(self.other, Grid):
            arrays.append(
                generator.integers(0, self.other.levels, (*lead, in_words(outputs))).astype(
                    np.uint8
                )
            )
            held.append(Held(self.other, windows, outputs))
        elif self.other:
            arrays.append((generator.integers(-99, 99, (*lead, outputs)) / 16).astype(np.float32))
            held.append(Held(None, True, outputs) if windows else PLAIN)
        limits = (
            []
            if self.result is None
            else [
                self.result.input_low,
                self.result.input_high,
                self.result.output_low,
                self.result.output_high,
            ]
        )
        of_limits = (1, -1, 1, 1) if windows and self.result and self.result.channels else ()
        arrays += [np.array(limit, np.float32).reshape(of_limits) for limit in limits]
        held += [PLAIN] * len(limits)
        first = len(arrays)
        steps: list[tuple[Operation, tuple[int, ...]]] = [(find("Add", 1)(), (1,))]
        if self.other:
            steps.append((find("Add", 1)(), (2,)))
        if self.activation:
            steps.append((find(self.activation, 1)(), ()))
        if self.result is not None:
            steps.append(
                (find("FakeQuantize", 1)(levels=self.result.levels), tuple(range(first - 4, first)))
            )
        members = [
            FusedMember(step, (first + n - 1 if n else 0, *others))
            for n, (step, others) in enumerate(steps)
        ]
        fused = (FusedConvolution if windows else FusedLinear)(product, 2, members)
        into = Held(self.result, windows, outputs) if windows or self.result is not None else PLAIN
        return QuantizedProduct(fused, held, into, weights), [spec(array) for array in arrays]

    def _product(self, windows: bool) -> tuple[Operation, tuple[int, ...]]:
        if not windows:
            return find("MatMul", 1)(transpose_b=True), self.filters
        around = {
            "strides": [self.stride] * 2, "dilations": [self.dilation] * 2,
            "pads_begin": [self.pad] * 2, "pads_end": [self.pad] * 2,
        }  # fmt: skip
        if self.groups == 1:
            return find("Convolution", 1)(**around), self.filters
        outputs, *others = self.filters
        return find("GroupConvolution", 1)(**around), (self.groups, outputs // self.groups, *others)
