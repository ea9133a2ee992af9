"""Operations whose body takes slices of tensors, one an iteration: how many, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from uncork.ops._body import BodyMap, Slicing, SubGraphOperation
from uncork.ops._common.indices import normalised_axis
from uncork.symbolic import Size, SizeLike, facts_of, plain
from uncork.types import Array, Element, TensorSpec


class SlicingOperation(SubGraphOperation):
    """An operation with one body; its inputs may be sliced for the body, and the body's outputs
    joined.
    """

    body_names = ("body",)

    @property
    def map(self) -> BodyMap:
        """The body and its connections."""
        return self.bodies["body"]

    def axis(self, slicing: Slicing, rank: int) -> int:
        """The axis that is sliced, counted from the first."""
        self.require(
            slicing.stride != 0 and slicing.part_size > 0,
            "stride must not be 0 and part_size at least 1, got {}",
            slicing,
        )
        return normalised_axis(self, slicing.axis, rank)

    def parts(self, slicing: Slicing, size: int) -> range:
        """Where each iteration's part begins, along an axis of `size`."""
        start = slicing.start + size + 1 if slicing.start < 0 else slicing.start
        end = slicing.end + size + 1 if slicing.end < 0 else slicing.end
        self.require(
            0 <= start <= size and 0 <= end <= size and (end - start) * slicing.stride >= 0,
            "slices {} reach outside an axis of {}, or run against their stride",
            slicing,
            size,
        )
        length, step = abs(end - start), abs(slicing.stride)
        self.require(
            length % step == 0, "{} elements do not divide into strides of {}", length, step
        )
        self.require(
            slicing.part_size <= step or length == 0,
            "part_size {} overlaps the next part (stride {})",
            slicing.part_size,
            step,
        )
        starts = range(start, end, slicing.stride)
        return (
            starts
            if slicing.stride > 0
            else range(start - slicing.part_size, end - slicing.part_size, slicing.stride)
        )

    def _sliced_iterations(self, inputs: Sequence[TensorSpec]) -> Element:
        """The number of iterations that the sliced inputs ask for; None when none is known."""
        counts: dict[int, SizeLike] = {}
        for entry in self.map.sliced:
            spec = self.external(inputs, entry)
            if spec.rank is not None:
                size = spec.shape[self.axis(entry.slicing, spec.rank)].size
                if size is not None:
                    counts[entry.port] = self.count_parts(entry.slicing, size)
        first = next(iter(counts.values()), None)
        facts = facts_of(counts.values())
        if facts is None or first is None:
            alike = len(set(counts.values())) <= 1
        else:
            alike = all(facts.require_equal(count, first) for count in counts.values())
        self._require_alike(alike, counts)
        return first

    def _require_alike(self, alike: bool, counts: Mapping[int, SizeLike]) -> None:
        self.require(
            alike,
            "the sliced inputs ask for different numbers of iterations (input: number): {}",
            counts,
        )

    def count_parts(self, slicing: Slicing, size: SizeLike) -> SizeLike:
        """How many parts there are along an axis."""
        if isinstance(size, int):
            return len(self.parts(slicing, size))
        return self._open_parts(slicing, size)

    def _open_parts(self, slicing: Slicing, size: Size) -> SizeLike:
        """How many parts there are along an axis whose size is an expression."""
        start = size + slicing.start + 1 if slicing.start < 0 else Size.of(slicing.start)
        end = size + slicing.end + 1 if slicing.end < 0 else Size.of(slicing.end)
        length = end - start if slicing.stride > 0 else start - end
        facts = size.facts
        assert facts is not None
        rule = "slices {} reach outside an axis of {}, or run against their stride"
        self.require(facts.require_at_least(length, 0), rule, slicing, size)
        self.require(
            facts.require_at_least(size, start if slicing.stride < 0 else end), rule, slicing, size
        )
        facts.require_multiple(length, abs(slicing.stride))
        return plain(facts.canonical(length * Fraction(1, abs(slicing.stride))))

    def part(self, slicing: Slicing, data: Array, iteration: int) -> Array:
        """What one turn takes of an input that is sliced."""
        axis = self.axis(slicing, data.ndim)
        starts = self.parts(slicing, data.shape[axis])
        if iteration >= len(starts):
            self.refuse(
                "iteration {} has no slice: the axis of {} gives {}",
                iteration,
                data.shape[axis],
                len(starts),
            )
        return data[
            (slice(None),) * axis
            + (slice(starts[iteration], starts[iteration] + slicing.part_size),)
        ]
