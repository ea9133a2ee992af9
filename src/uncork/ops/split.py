"""Split-1, VariadicSplit-1: `data` cut along an axis into parts of equal, or of given, lengths.

Pages: operation-specs/movement/split-1, variadic-split-1.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import normalised_axis
from uncork.ops._common.shapes import divided
from uncork.ops._common.vectors import length, scalar, vector
from uncork.ops._operation import Operation, register
from uncork.ops._ports import ANY, INTEGER, Attribute, Input, Output, integer
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec


def _parts(data: TensorSpec, axis: int | None, sizes: list[Dimension]) -> list[TensorSpec]:
    """Specs of the parts, with what is known of a shape vector that is cut."""
    if data.rank is None or axis is None:
        shapes = [PartialShape() if data.rank is None else PartialShape([None] * data.rank) for _ in sizes]
    else:
        shapes = [PartialShape([*data.shape[:axis], size, *data.shape[axis + 1 :]]) for size in sizes]
    if data.partial is None or data.rank != 1 or not all(s.is_static for s in sizes):
        return [TensorSpec(data.element_type, shape) for shape in shapes]
    values, known = data.partial
    cuts = np.cumsum([int(s) for s in sizes])[:-1]
    return [
        TensorSpec(data.element_type, *part) for part in zip(shapes, [None] * len(sizes), zip(np.split(values, cuts), np.split(known, cuts)))
    ]


class _Split(Operation):
    data = Input(ANY, "T", moved=True)
    axis = Input(INTEGER)

    def along(self, data: TensorSpec, axis: TensorSpec) -> int | None:
        """The axis, counted from the front, where it and the rank are known."""
        number = scalar(self, "axis", axis)
        self.require(data.rank != 0, "input 'data' is a scalar: there is no axis to split along")
        return None if number is None or data.rank is None else normalised_axis(self, number, data.rank)


def _check_count(count: int) -> str | None:
    """More outputs than this no file has ports for, and a list of them alone would fill the memory."""
    return "at least 1" if count < 1 else "at most 2**20" if count > 2**20 else None


@register("Split", 1)
class Split1(_Split):
    """`num_splits` equal parts; the dimension must be a multiple of it."""

    output = Output("T")
    num_splits = Attribute(integer, check=_check_count)

    def infer(self, data: TensorSpec, axis: TensorSpec) -> list[TensorSpec]:
        along = self.along(data, axis)
        if along is None:
            return _parts(data, None, [DYNAMIC] * self.num_splits)
        dim = data.shape[along]
        rule = "expected a multiple of num_splits {} along axis {}, got data {}"
        return _parts(data, along, [divided(self, dim, self.num_splits, rule, self.num_splits, along, data.shape)] * self.num_splits)

    def reference(self, data: Array, axis: Array) -> list[Array]:
        along = int(axis.reshape(-1)[0])
        size = data.shape[along] // self.num_splits
        return [np.array(p, order="C") for p in np.split(data, [size * k for k in range(1, self.num_splits)], along)]


@register("VariadicSplit", 1)
class VariadicSplit1(_Split):
    """Parts of `split_lengths [parts]`; one of them may be -1 and takes what the others leave."""

    split_lengths = Input(INTEGER)
    output = Output("T")
    #: A layer has a fixed number of outputs: the first known length of `split_lengths` is kept for later calls of `infer`.
    parts: int | None = None

    def infer(self, data: TensorSpec, axis: TensorSpec, split_lengths: TensorSpec) -> list[TensorSpec]:
        along = self.along(data, axis)
        numbers = vector(self, "split_lengths", split_lengths)
        self.parts = length(split_lengths).size if self.parts is None else self.parts
        self.require(
            self.parts is not None,
            "input 'split_lengths': its length is the number of outputs and must be known, got shape {}",
            split_lengths.shape,
        )
        numbers = [None] * (self.parts or 0) if numbers is None else numbers
        self.require(len(numbers) == self.parts, "input 'split_lengths': expected {} lengths, one for each output, got {}", self.parts, numbers)
        self.require(all(n is None or n >= -1 for n in numbers), "input 'split_lengths': expected lengths of at least -1, got {}", numbers)
        self.require(numbers.count(-1) <= 1, "input 'split_lengths': expected at most one -1, got {}", numbers)
        sizes = [Dimension.of(n) for n in numbers]
        if along is None:
            return _parts(data, None, sizes)
        whole = data.shape[along]
        given = sum(n for n in numbers if n is not None and n >= 0)
        rest = Dimension(max(0, whole.low - given), None if whole.high is None else max(0, whole.high - given))
        unknown = [i for i, n in enumerate(numbers) if n is None or n < 0]
        fits = whole.high is None or given <= whole.high if unknown else whole.contains(given)
        self.require(fits, "input 'split_lengths': expected lengths that add up to {} (axis {} of data), got {}", whole, along, numbers)
        for i in unknown:
            sizes[i] = rest if len(unknown) == 1 else Dimension(0, rest.high)
        return _parts(data, along, sizes)

    def reference(self, data: Array, axis: Array, split_lengths: Array) -> list[Array]:
        along = int(axis.reshape(-1)[0])
        lengths = [int(n) for n in split_lengths]
        rest = data.shape[along] - sum(n for n in lengths if n >= 0)
        cuts = np.cumsum([rest if n < 0 else n for n in lengths])[:-1]
        return [np.array(p, order="C") for p in np.split(data, cuts, along)]
