"""Split-1, VariadicSplit-1: `data` cut along an axis into parts of equal, or of given, lengths.

Pages: operation-specs/movement/split-1, variadic-split-1.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from uncork.ops._common.shapes import divided
from uncork.ops._common.vectors import axis_along, length, size_or_minus_one, vector
from uncork.ops._elements import elements_of, spec_of
from uncork.ops._operation import Operation, register
from uncork.ops._ports import ANY, INTEGER, Attribute, Field, Input, Output, integer
from uncork.symbolic import facts_of
from uncork.types import DYNAMIC, Array, Dimension, Element, PartialShape, TensorSpec


def _parts(data: TensorSpec, axis: int | None, sizes: list[Dimension]) -> list[TensorSpec]:
    """The specs of the parts, with the elements that are known of a small tensor."""
    if data.rank is None or axis is None:
        shapes = [
            PartialShape() if data.rank is None else PartialShape([None] * data.rank) for _ in sizes
        ]
    else:
        shapes = [data.shape.with_dimension(axis, size) for size in sizes]
    parts = [TensorSpec(data.element_type, shape) for shape in shapes]
    known = None if data.elements is None else elements_of(data)
    if known is None or axis is None or not all(shape.is_static for shape in shapes):
        return parts
    ends = list(itertools.accumulate(map(int, sizes)))
    if not parts or ends[-1] != known.shape[axis]:
        return parts
    cuts = np.split(known, ends[:-1], axis)
    return [spec_of(part, cut) or part for part, cut in zip(parts, cuts, strict=True)]


class _Split(Operation):
    data = Input(ANY, "T", moved=True)
    axis = Input(INTEGER)


def _check_count(count: int) -> str | None:
    """The check of `num_splits`: from 1 to 2**20, since a list of more outputs alone would fill the
    memory.
    """
    return "at least 1" if count < 1 else "at most 2**20" if count > 2**20 else None


@register("Split", 1)
class Split1(_Split):
    """`num_splits` equal parts; the dimension must be a multiple of it."""

    output = Output("T")
    num_splits = Attribute(integer, check=_check_count)

    def infer(self, data: TensorSpec, axis: TensorSpec) -> list[TensorSpec]:
        along = axis_along(self, data, axis, "split")
        if along is None:
            return _parts(data, None, [DYNAMIC] * self.num_splits)
        dim = data.shape[along]
        rule = "expected a multiple of num_splits {} along axis {}, got data {}"
        return _parts(
            data,
            along,
            [divided(self, dim, self.num_splits, rule, self.num_splits, along, data.shape)]
            * self.num_splits,
        )

    def reference(self, data: Array, axis: Array) -> list[Array]:
        along = int(axis.reshape(-1)[0])
        size = data.shape[along] // self.num_splits
        return [
            np.array(p, order="C")
            for p in np.split(data, [size * k for k in range(1, self.num_splits)], along)
        ]


@register("VariadicSplit", 1)
class VariadicSplit1(_Split):
    """Parts of `split_lengths [parts]`; one of them may be -1 and takes what the others leave."""

    split_lengths = Input(INTEGER)
    output = Output("T")
    #: The number of outputs, which is that of the layer: known at load, it holds for every call.
    parts = Field[int | None](None)

    def specialised(self, specs: Sequence[TensorSpec | None]) -> Operation:
        if self.parts is not None or len(specs) != 3 or specs[2] is None:
            return self
        parts = length(specs[2]).static_size
        return self if parts is None else self.replace(parts=parts)

    def infer(
        self, data: TensorSpec, axis: TensorSpec, split_lengths: TensorSpec
    ) -> list[TensorSpec]:
        along = axis_along(self, data, axis, "split")
        numbers = vector(self, "split_lengths", split_lengths)
        parts = self.wanted(
            length(split_lengths).static_size if self.parts is None else self.parts,
            "input 'split_lengths': its length is the number of outputs and must be known, "
            "got shape {}",
            split_lengths.shape,
        )
        numbers = [None] * parts if numbers is None else numbers
        self.require(
            len(numbers) == parts,
            "input 'split_lengths': expected {} lengths, one for each output, got {}",
            parts,
            numbers,
        )
        self.require(
            all(n is None or n >= -1 for n in numbers),
            "input 'split_lengths': expected lengths of at least -1, got {}",
            numbers,
        )
        self.require(
            numbers.count(-1) <= 1,
            "input 'split_lengths': expected at most one -1, got {}",
            numbers,
        )
        sizes = [Dimension.of(n) for n in numbers]
        if along is None:
            return _parts(data, None, sizes)
        whole = data.shape[along]
        elements = split_lengths.sizes() or []
        if (
            (size := whole.expression) is not None
            and facts_of([size, *elements]) is not None
            and all(e is not None for e in elements)
        ):
            return _parts(data, along, self.open_sizes(whole, elements))
        given = sum(n for n in numbers if n is not None and n >= 0)
        rest = Dimension(
            max(0, whole.low - given), None if whole.high is None else max(0, whole.high - given)
        )
        unknown = [i for i, n in enumerate(numbers) if n is None or n < 0]
        fits = whole.high is None or given <= whole.high if unknown else whole.contains(given)
        self.require(
            fits,
            "input 'split_lengths': expected lengths that add up to {} (axis {} of data), got {}",
            whole,
            along,
            numbers,
        )
        for i in unknown:
            sizes[i] = rest if len(unknown) == 1 else Dimension(0, rest.high)
        # A length that is not known may turn out not to fit: then there are no parts, and no
        # values.
        return _parts(replace(data, elements=None) if None in numbers else data, along, sizes)

    def open_sizes(self, whole: Dimension, lengths: Sequence[Element]) -> list[Dimension]:
        """The sizes of the parts where some are expressions."""
        lengths = [size_or_minus_one(self, "split_lengths", n) for n in lengths]
        sizes = [Dimension.of(n) for n in lengths]
        minus = [i for i, n in enumerate(lengths) if isinstance(n, int) and n == -1]
        self.require(
            len(minus) <= 1, "input 'split_lengths': expected at most one -1, got {}", lengths
        )
        given = sum((size for i, size in enumerate(sizes) if i not in minus), Dimension(0, 0))
        fits = whole.covers(given) if minus else whole.agrees(given)
        self.require(
            fits,
            "input 'split_lengths': expected lengths that add up to {}, got {}",
            whole,
            lengths,
        )
        for i in minus:
            sizes[i] = whole - given
        return sizes

    def reference(self, data: Array, axis: Array, split_lengths: Array) -> list[Array]:
        along = int(axis.reshape(-1)[0])
        lengths = [int(n) for n in split_lengths]
        rest = data.shape[along] - sum(n for n in lengths if n >= 0)
        cuts = np.cumsum([rest if n < 0 else n for n in lengths])[:-1]
        # NumPy gives one part at least, also where no length is asked for.
        parts = np.split(data, cuts, along)[: len(lengths)]
        return [np.array(p, order="C") for p in parts]
