"""ReverseSequence-1: the first seq_lengths[i] elements along `seq_axis` backwards, for each place i
along `batch_axis`.

Page: operation-specs/movement/reverse-sequence-1. Lengths outside 1..size are refused, but for 0,
which reverses nothing (S). Where the page is silent: lengths of a float type must be whole numbers
(bf16 holds too few of them and is not taken); the two axes must differ.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import normalised_axis, refuse_first
from uncork.ops._operation import Moving, register
from uncork.ops._ports import INTEGER, Attribute, Input, integer
from uncork.types import Array, ElementType, PartialShape, TensorSpec


@register("ReverseSequence", 1)
class ReverseSequence1(Moving):
    """`data` of rank 2 or more, `seq_lengths [data.shape[batch_axis]]`."""

    seq_lengths = Input(INTEGER | {ElementType.f16, ElementType.f32, ElementType.f64})
    batch_axis = Attribute(integer, default=0)
    seq_axis = Attribute(integer, default=1)

    def infer(self, data: TensorSpec, seq_lengths: TensorSpec) -> PartialShape:
        self.require(
            seq_lengths.shape.compatible(PartialShape([None])),
            "input 'seq_lengths': expected a 1-D tensor, got shape {}",
            seq_lengths.shape,
        )
        if data.rank is None:
            return data.shape
        self.require(
            data.rank >= 2, "input 'data': expected at least 2 dimensions, got shape {}", data.shape
        )
        batch = normalised_axis(self, self.batch_axis, data.rank, "batch_axis")
        sequence = normalised_axis(self, self.seq_axis, data.rank, "seq_axis")
        self.require(
            batch != sequence,
            "batch_axis {} and seq_axis {} are the same axis of data {}",
            self.batch_axis,
            self.seq_axis,
            data.shape,
        )
        if seq_lengths.rank is None:
            return data.shape
        merged = self.wanted(
            data.shape[batch].merge(seq_lengths.shape[0]),
            "input 'seq_lengths': expected {} lengths (batch_axis of data {}), got shape {}",
            data.shape[batch],
            data.shape,
            seq_lengths.shape,
        )
        return data.shape.with_dimension(batch, merged)

    def reference(self, data: Array, seq_lengths: Array) -> Array:
        batch, sequence = self.batch_axis % data.ndim, self.seq_axis % data.ndim
        size = data.shape[sequence]
        lengths = seq_lengths
        wrong = ~((lengths >= (1 if self.strict else 0)) & (lengths <= size))
        if lengths.dtype.kind == "f":
            wrong |= lengths != np.trunc(lengths)
        expected = f"a whole number of 1 to {size}"
        refuse_first(self, "seq_lengths", lengths, wrong, expected, 1 if self.strict else 0, size)
        output: Array = data.copy()
        for i, length in enumerate(map(int, lengths)):
            row = np.moveaxis(output, (batch, sequence), (0, 1))[i]
            row[:length] = np.moveaxis(data, (batch, sequence), (0, 1))[i][:length][::-1]
        return output
