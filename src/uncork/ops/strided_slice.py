"""StridedSlice-1: `data[begin:end:stride]` along the leading axes, with masks that change what a
position i of the bounds means.

- ellipsis_mask: as many axes as are needed, whole (none set: at the end);  new_axis_mask: a new
  dimension of 1;
- shrink_axis_mask: the one index begin[i], whose axis goes;  begin_mask, end_mask: from the first,
  to the last element.

The first of these that is set holds, in that order. Masks shorter than the bounds are 0 beyond
their end.

Page: operation-specs/movement/strided-slice-1. It contradicts itself in places; taken here, as
OpenVINO does:
- begin equal to end gives an empty dimension; end_mask with a negative stride includes the first
  element ([::-1] is whole);
- going backwards, a begin before the first element is the first element (Python gives an empty
  slice there);
- the integer types of the bounds may differ;
- the index of a shrunken axis must lie inside the axis, its end and stride are ignored, and with
  begin_mask it is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from uncork.ops._common.slices import python_ends, sliced
from uncork.ops._common.vectors import common_length, vector
from uncork.ops._operation import Moving, register
from uncork.ops._ports import INTEGER, Attribute, Input, integers
from uncork.symbolic import Size
from uncork.types import Array, Dimension, DimensionLike, Element, PartialShape, TensorSpec

_INFINITE = 2**62  # beyond every size


def _bits(mask: tuple[int, ...]) -> str | None:
    return None if all(bit in (0, 1) for bit in mask) else "a list of 0 and 1"


def strided_ends(size: int, start: int, stop: int, step: int) -> tuple[int, int, int]:
    """The start, end and step of a slice as Python has them, except that backwards a start before
    the first element is the first element.
    """
    first, end, step = python_ends(size, start, stop, step)
    return (0 if first < 0 < size else first), end, step


def _is_inside(index: Element, dim: Dimension) -> bool:
    """Whether the index may be one of the dimension. If sizes are symbols, every call must keep to
    it.
    """
    if isinstance(index, Size) and (facts := index.facts) is not None:
        return dim.covers(Dimension.of(index + 1 if facts.suppose_at_least(index, 0) else -index))
    return not isinstance(index, int) or dim.covers(index + 1 if index >= 0 else -index)


@register("StridedSlice", 1)
class StridedSlice1(Moving):
    """`begin`, `end` and `stride` are 1-D and of one length; `stride` is optional and 1."""

    begin = Input(INTEGER)
    end = Input(INTEGER)
    stride = Input(INTEGER, optional=True)
    begin_mask = Attribute(integers, check=_bits)
    end_mask = Attribute(integers, check=_bits)
    new_axis_mask = Attribute(integers, default=(), check=_bits)
    shrink_axis_mask = Attribute(integers, default=(), check=_bits)
    ellipsis_mask = Attribute(integers, default=(), check=_bits)

    def check_attributes(self) -> None:
        self.require(
            sum(self.ellipsis_mask) <= 1,
            "attribute 'ellipsis_mask': expected at most one 1, got {}",
            self.ellipsis_mask,
        )

    def steps(self, count: int, rank: int) -> Iterator[tuple[str, int, int]]:
        """The kind of each dimension ("new", "shrink", "slice" or "whole"), its position in the
        bounds and its axis of data.
        """
        kinds = ["slice"] * count
        for kind, mask in (
            ("shrink", self.shrink_axis_mask),
            ("new", self.new_axis_mask),
            ("whole", self.ellipsis_mask),
        ):
            for i, bit in enumerate(mask[:count]):
                kinds[i] = kind if bit else kinds[i]
        hidden = rank - kinds.count("slice") - kinds.count("shrink")
        self.require(
            hidden >= 0, "expected bounds for at most {} axes, got {}", rank, rank - hidden
        )
        axis = 0
        for i, kind in enumerate(kinds if "whole" in kinds else [*kinds, "whole"]):
            for _ in range(hidden if kind == "whole" else 1):
                yield kind, i, axis
                axis += kind != "new"

    def bounds(
        self, i: int, begin: Element, end: Element, stride: int | None
    ) -> tuple[Element, Element]:
        """The begin and end in force at position i; None for one that is not known."""
        forwards = None if stride is None else stride > 0
        if i < len(self.begin_mask) and self.begin_mask[i]:
            begin = None if forwards is None else 0 if forwards else _INFINITE
        if i < len(self.end_mask) and self.end_mask[i]:
            end = None if forwards is None else _INFINITE if forwards else -_INFINITE
        return begin, end

    def single(self, i: int, begin: Element) -> Element:
        """The index along an axis that shrink_axis_mask takes away."""
        return 0 if i < len(self.begin_mask) and self.begin_mask[i] else begin

    def infer(
        self, data: TensorSpec, begin: TensorSpec, end: TensorSpec, stride: TensorSpec | None
    ) -> PartialShape:
        named = {"begin": begin, "end": end} | ({} if stride is None else {"stride": stride})
        numbers = {name: vector(self, name, spec) for name, spec in named.items()}
        count = common_length(self, named).static_size
        if data.rank is None or count is None:
            return PartialShape()
        strides = numbers.get("stride", [1] * count) or [None] * count
        begins, ends = (spec.sizes() or [None] * count for spec in (begin, end))
        dims: list[DimensionLike] = []
        for kind, i, axis in self.steps(count, data.rank):
            if kind == "slice":
                self.require(
                    strides[i] != 0,
                    "input 'stride': expected strides other than 0, got {}",
                    strides,
                )
                dims.append(
                    sliced(
                        data.shape[axis],
                        *self.bounds(i, begins[i], ends[i], strides[i]),
                        strides[i],
                        strided_ends,
                    )
                )
            elif kind == "shrink":
                index = self.single(i, begins[i])
                inside = _is_inside(index, data.shape[axis])
                self.require(
                    inside,
                    "input 'begin': begin[{}] is {}, which lies outside axis {} of data {}",
                    i,
                    index,
                    axis,
                    data.shape,
                )
            else:
                dims.append(data.shape[axis] if kind == "whole" else 1)
        return PartialShape(dims)

    def reference(self, data: Array, begin: Array, end: Array, stride: Array | None) -> Array:
        index: list[Any] = []
        for kind, i, axis in self.steps(len(begin), data.ndim):
            if kind == "slice":
                by = 1 if stride is None else int(stride[i])
                first, last = self.bounds(i, int(begin[i]), int(end[i]), by)
                assert isinstance(first, int)
                assert isinstance(last, int)
                first, last, _ = strided_ends(data.shape[axis], first, last, by)
                index.append(
                    slice(first, None if last < 0 else last, by) if first >= 0 else slice(0, 0)
                )
            elif kind == "shrink":
                index.append(self.single(i, int(begin[i])))
            else:
                index.append(slice(None) if kind == "whole" else None)
        index.append(...)  # a single element is still an array then
        return np.array(data[tuple(index)], order="C")
