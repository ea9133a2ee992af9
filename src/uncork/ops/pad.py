"""Pad-1, -12: `data` made longer, or with negative pads of Pad-12 shorter, at both ends of each
axis.

Output place p of an axis of size n comes from place i = p - pads_begin of `data`; outside 0..n-1
the mode decides:

- constant: `pad_value` (zero, false or "" when it is absent);      - edge: the nearest place;
- reflect: -i, and 2 (n - 1) - i: the edge is not repeated;          - symmetric: -i - 1, and 2 n -
  1 - i: it is.

Pages: operation-specs/movement/pad-1, -12. Where they are silent: `pad_value` is ignored in other
modes than constant; edge with an empty axis is refused, since there is nothing to copy.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.vectors import demand_size, length, vector
from uncork.ops._operation import Moving, register
from uncork.ops._ports import ANY, INTEGER, Attribute, Input, one_of
from uncork.symbolic import Facts, Size, SizeLike, facts_of
from uncork.types import DYNAMIC, Array, Dimension, Element, ElementType, PartialShape, TensorSpec


@register("Pad", 12)
class Pad12(Moving):
    """`data`, `pads_begin [rank]`, `pads_end [rank]` and, optionally, the scalar `pad_value`."""

    pads_begin = Input(INTEGER)
    pads_end = Input(INTEGER)
    pad_value = Input(ANY, "T", optional=True, moved=True)
    pad_mode = Attribute(one_of("constant", "edge", "reflect", "symmetric"))
    #: Pads may be negative.
    crops = True
    fills = True

    def infer(
        self,
        data: TensorSpec,
        pads_begin: TensorSpec,
        pads_end: TensorSpec,
        pad_value: TensorSpec | None,
    ) -> PartialShape:
        self.require(
            data.element_type is not ElementType.string or self.pad_mode == "constant",
            "strings are padded in mode constant only, got {}",
            self.pad_mode,
        )
        self.require(
            pad_value is None or pad_value.shape.compatible(PartialShape([])),
            "input 'pad_value': expected a scalar, got shape {}",
            pad_value and pad_value.shape,
        )
        pads = []
        for name, spec in (("pads_begin", pads_begin), ("pads_end", pads_end)):
            numbers = vector(self, name, spec)
            self.require(
                self.crops or all(n is None or n >= 0 for n in numbers or []),
                "input '{}': expected no negative pads, got {}",
                name,
                numbers,
            )
            self.require(
                data.rank is None or length(spec).agrees(data.rank),
                "input '{}': expected one pad for each dimension of data {}, got shape {}",
                name,
                data.shape,
                spec.shape,
            )
            pads.append(numbers)
        if data.rank is None:
            ranks = [len(numbers) for numbers in pads if numbers is not None]
            return PartialShape([None] * ranks[0]) if ranks else PartialShape()
        begins, ends = (spec.sizes() or [None] * data.rank for spec in (pads_begin, pads_end))
        return PartialShape(
            [
                self.padded(axis, *each)
                for axis, each in enumerate(zip(data.shape, begins, ends, strict=True))
            ]
        )

    def padded(self, axis: int, dim: Dimension, begin: Element, end: Element) -> Dimension:
        """The output dimension of an axis."""
        if begin is None or end is None:
            return DYNAMIC
        size = dim.expression
        if size is not None and (facts := facts_of([size, begin, end])) is not None:
            return self.padded_open(axis, dim, begin, end, facts)
        if isinstance(begin, Size) or isinstance(end, Size):
            return DYNAMIC
        most = max(begin, end)
        if self.pad_mode in ("reflect", "symmetric") and most > 0 and dim.high is not None:
            limit = dim.high - (self.pad_mode == "reflect")
            self.require(
                most <= limit,
                "mode {}: expected pads of at most {} along axis {}, got {} and {}",
                self.pad_mode,
                limit,
                axis,
                begin,
                end,
            )
        result = Dimension(
            max(0, dim.low + begin + end),
            None if dim.high is None else max(0, dim.high + begin + end),
        )
        self.require(
            self.pad_mode != "edge" or dim.high != 0 or result.low == 0,
            "mode edge: axis {} of data is empty, there is no edge",
            axis,
        )
        return result

    def padded_open(
        self, axis: int, dim: Dimension, begin: SizeLike, end: SizeLike, facts: Facts
    ) -> Dimension:
        """The output dimension of an axis whose size or pads are expressions."""
        for name, pad in (("pads_begin", begin), ("pads_end", end)):
            if not self.crops:
                demand_size(self, name, pad)
            if self.pad_mode == "constant":
                continue
            # With a cell at least, the demand below holds by itself where there is no pad: no plan
            # depends on whether there is one.
            if not facts.certainly_at_least(dim.as_size(), 1) and not facts.suppose_at_least(
                pad, 1
            ):
                continue
            least = (
                Size.of(1)
                if self.pad_mode == "edge"
                else Size.of(pad) + int(self.pad_mode == "reflect")
            )
            fits = dim.covers(Dimension.of(least))
            self.require(
                fits,
                "mode {}: expected pads that axis {} of size {} has cells for, got {}",
                self.pad_mode,
                axis,
                dim,
                pad,
            )
        return Dimension.of(facts.larger(dim.as_size() + begin + end, 0))

    def reference(
        self,
        data: Array,
        pads_begin: Array,
        pads_end: Array,
        pad_value: Array | None,
        blank: object,
    ) -> Array:
        for axis, (begin, end) in enumerate(
            zip(map(int, pads_begin), map(int, pads_end), strict=True)
        ):
            size = data.shape[axis]
            place = np.arange(max(0, begin + size + end)) - begin
            inside = (place >= 0) & (place < size)
            if self.pad_mode == "constant":
                wider = np.full(
                    (*data.shape[:axis], len(place), *data.shape[axis + 1 :]),
                    blank if pad_value is None else pad_value,
                    data.dtype,
                )
                np.moveaxis(wider, axis, 0)[inside] = np.moveaxis(data, axis, 0)[place[inside]]
                data = wider
            else:
                again = {"edge": 0, "reflect": 0, "symmetric": 1}[self.pad_mode]
                if self.pad_mode == "edge":
                    mirrored = np.clip(place, 0, size - 1)
                else:
                    mirrored = np.where(place < 0, -place - again, 2 * (size - 1) + again - place)
                data = data.take(np.where(inside, place, mirrored), axis)
        return data


@register("Pad", 1)
class Pad1(Pad12):
    """Without negative pads."""

    crops = False
