"""Reshape-1: the same elements in another shape.

In `shape`, -1 stands for the size that keeps the number of elements, and with `special_zero` a 0
copies the dimension of `data` at its own position.

Page: operation-specs/shape/reshape-1. Where it is silent: copied dimensions count on neither side
when -1 is computed, so with an empty batch [0, 3] the pattern [0, -1] gives [0, 3]; a -1 beside a
real dimension of 0 has no size and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from uncork.ops._common.vectors import Numbers, size_or_minus_one, vector
from uncork.ops._operation import Moving, register
from uncork.ops._ports import INTEGER, Attribute, Input, boolean
from uncork.symbolic import Facts, Size, SizeLike, facts_of
from uncork.types import DYNAMIC, Array, Dimension, Element, PartialShape, TensorSpec


@register("Reshape", 1)
class Reshape1(Moving):
    """`data` of any shape, `shape [r]` -> a tensor of rank r."""

    shape = Input(INTEGER)
    special_zero = Attribute(boolean)

    def copies(self, number: int | None) -> bool:
        """Whether this number of `shape` copies a dimension of `data`."""
        return number == 0 and self.special_zero

    def infer(self, data: TensorSpec, shape: TensorSpec) -> PartialShape:
        numbers = vector(self, "shape", shape)
        if numbers is None:
            return PartialShape()
        self.require(
            all(n is None or n >= -1 for n in numbers),
            "input 'shape': expected sizes of at least -1, got {}",
            numbers,
        )
        self.require(
            numbers.count(-1) <= 1, "input 'shape': expected at most one -1, got {}", numbers
        )
        if data.rank is None:
            return PartialShape([None if self.copies(n) else n for n in numbers])
        self.require_copies(data, {i for i, n in enumerate(numbers) if self.copies(n)})
        elements = shape.sizes() or []
        facts = facts_of([*elements, *(d.expression for d in data.shape)])
        if facts is not None and all(
            e is not None for e in (*elements, *(d.expression for d in data.shape))
        ):
            return self.open_shape(data, elements, facts)
        copied = {i for i, n in enumerate(numbers) if self.copies(n)}
        rest = PartialShape([d for i, d in enumerate(data.shape) if i not in copied]).size
        given = math.prod(
            n for i, n in enumerate(numbers) if n is not None and n >= 0 and i not in copied
        )
        maybe_empty = any(data.shape[i].contains(0) for i in copied)
        dims = [data.shape[i] if i in copied else Dimension.of(n) for i, n in enumerate(numbers)]
        unknown = [i for i, n in enumerate(numbers) if n is None or n == -1]
        if len(unknown) == 1:
            dims[unknown[0]] = self.remaining(data, numbers, rest, given, maybe_empty)
        elif not unknown:
            self.require(
                rest.contains(given) or maybe_empty,
                "expected a shape with as many elements as data {}, got {}",
                data.shape,
                numbers,
            )
        return PartialShape(dims)

    def require_copies(self, data: TensorSpec, positions: Collection[int]) -> None:
        """Refuse numbers of `shape` at these positions that copy a dimension of `data` that it does
        not have.
        """
        for position in sorted(positions):
            self.require(
                data.rank is None or position < data.rank,
                "input 'shape': the 0 at position {} copies a dimension that data {} does not have",
                position,
                data.shape,
            )

    def open_shape(
        self, data: TensorSpec, elements: Sequence[Element], facts: Facts
    ) -> PartialShape:
        """The output's shape where sizes are expressions."""
        target = [
            self.settled_element(e, data.shape[i] if i < len(data.shape) else None, facts)
            for i, e in enumerate(elements)
        ]
        copied = {i for i, n in enumerate(target) if isinstance(n, int) and self.copies(n)}
        self.require_copies(data, copied)
        minus = [i for i, n in enumerate(target) if isinstance(n, int) and n == -1]
        self.require(len(minus) <= 1, "input 'shape': expected at most one -1, got {}", target)
        whole = [d.as_size() for i, d in enumerate(data.shape) if i not in copied]
        rest = facts.canonical(math.prod(whole, start=Size.of(1)))
        factors = [n for i, n in enumerate(target) if i not in copied and i not in minus]
        given = facts.canonical(math.prod(factors, start=Size.of(1)))
        dims = [data.shape[i] if i in copied else Dimension.of(n) for i, n in enumerate(target)]
        message = "expected a shape with as many elements as data {}, got {}"
        if minus:
            positive = facts.require_at_least(given, 1)
            self.require(
                positive,
                "input 'shape': -1 has no size beside a dimension of 0: data {}, shape {}",
                data.shape,
                target,
            )
            facts.require_multiple(rest, given)
            ratio = rest.over(given)
            dims[minus[0]] = Dimension.of(rest // given if ratio is None else ratio)
        elif all(facts.certainly_at_least(data.shape[i].as_size(), 1) for i in copied):
            self.require(facts.require_equal(rest, given), message, data.shape, target)
        elif not facts.suppose_equal(rest, given):  # then all has to be empty
            empty = facts.require_equal(
                math.prod((data.shape[i].as_size() for i in copied), start=Size.of(1)), 0
            )
            self.require(empty, message, data.shape, target)
        return PartialShape(dims)

    def settled_element(self, element: Element, dim: Dimension | None, facts: Facts) -> SizeLike:
        """An element of `shape` as -1, 0 or a size that is neither; for an expression the facts
        decide which of these it is.
        """
        element = size_or_minus_one(self, "shape", element)
        assert element is not None
        if isinstance(element, int):
            return element
        if self.special_zero and not (
            dim is not None
            and dim.expression is not None
            and facts.certainly_equal(element, dim.expression)
        ):
            return element if facts.suppose_at_least(element, 1) else 0
        return element

    def remaining(
        self, data: TensorSpec, numbers: Numbers, rest: Dimension, given: int, maybe_empty: bool
    ) -> Dimension:
        """The one dimension that is -1 or not known yet: `rest` elements divided by the `given`
        ones.
        """
        if -1 not in numbers and (rest.contains(0) or given == 0 or maybe_empty):
            return DYNAMIC  # when all is empty, any size keeps the number of elements
        self.require(
            given > 0,
            "input 'shape': -1 has no size beside a dimension of 0: data {}, shape {}",
            data.shape,
            numbers,
        )
        low = -(-rest.low // given)
        high = None if rest.high is None else rest.high // given
        self.require(
            high is None or low <= high,
            "input 'shape': expected sizes that divide the elements of data {}, got {}",
            data.shape,
            numbers,
        )
        return Dimension(low, high)

    def reference(self, data: Array, shape: Array) -> Array:
        numbers = [int(n) for n in shape]
        copied = {i for i, n in enumerate(numbers) if self.copies(n)}
        rest = math.prod(s for i, s in enumerate(data.shape) if i not in copied)
        given = math.prod(n for i, n in enumerate(numbers) if n >= 0 and i not in copied)
        sizes = [
            data.shape[i] if i in copied else rest // given if n == -1 else n
            for i, n in enumerate(numbers)
        ]
        return data.reshape(sizes)
