"""Tensors that lie beside each other from the start, so that the Concat that joins them has nothing
to copy.

A Concat along the outermost axis of more than one element lays its inputs one after the other. The
kernels that make them write into its room. Where another Concat joins some of these tensors in the
same order it is a part of that room.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from uncork.compiler.memory import ALIGNMENT
from uncork.compiler.planned_parts import bytes_of, dimensions
from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import certainly, is_empty, same
from uncork.kernels.kernel_plan import KernelPlan, Selection
from uncork.ops.concat import Concat1
from uncork.symbolic import Size, SizeLike, Symbol
from uncork.types import TensorSpec


class JoinedPart(Struct, frozen=True):
    """The place of a tensor in the room of a Concat's result, `whole`: it begins at this byte."""

    whole: Source
    offset: SizeLike

    def begins_at(self, whole: Source, offset: SizeLike) -> bool:
        """Whether it begins at this byte of that room, in every call."""
        return self.whole == whole and same(self.offset, offset)


class JoinedTensors:
    """The places of tensors that Concats join, and the Concats that have nothing to do."""

    def __init__(
        self,
        model: Model,
        choices: Mapping[int, Selection],
        root: Callable[[Source], Source],
        is_made: Callable[[Source], bool],
    ) -> None:
        """`root` gives the tensor that another is a view of; `is_made` tells whether a tensor may
        be given any place.
        """
        self.model, self._choices, self._root, self._is_made = model, choices, root, is_made
        self.parts: dict[Source, JoinedPart] = {}
        self.views: set[int] = set()
        # The last Concat comes first: those before it may join a part of what it joins.
        for node in reversed(model.nodes):
            if isinstance(node.operation, Concat1) and isinstance(choices.get(node.id), KernelPlan):
                self._join(node)

    def _join(self, node: Node) -> None:
        """Have the inputs of a Concat lie in its result, or find that they lie so."""
        source = Source(node.id, 0)
        sizes = _outer_sizes(node, [self.model.spec(given) for given in node.inputs])
        if not sizes or not self._can_be_placed(source):
            return
        roots = [self._root(given) for given in node.inputs]
        offsets: list[SizeLike] = [0, *accumulate(sizes, operator.add)][:-1]
        parts = [self.parts.get(root) for root in roots]
        first = parts[0]
        if first is not None:
            follows = all(
                part is not None and part.begins_at(first.whole, first.offset + offset)
                for part, offset in zip(parts, offsets, strict=True)
            )
            if source in self.parts or not follows:
                return
            self.parts[source] = first
        elif any(parts) or len(set(roots)) < len(roots) or not all(map(self._can_be_placed, roots)):
            return
        else:
            own = self.parts.setdefault(source, JoinedPart(source, 0))
            for root, offset in zip(roots, offsets, strict=True):
                self.parts[root] = JoinedPart(own.whole, own.offset + offset)
        self.views.add(node.id)

    def _can_be_placed(self, source: Source) -> bool:
        """Whether a kernel makes the tensor, which may have any place."""
        choice = self._choices.get(source.node)
        return isinstance(choice, KernelPlan) and choice.extends is None and self._is_made(source)


def _outer_sizes(node: Node, specs: Sequence[TensorSpec]) -> list[SizeLike]:
    """The bytes of the inputs of a Concat that lays them one after the other at lines of the cache;
    none where it does not. All are made of the same symbols, so that the first one's step knows the
    room of all.
    """
    operation = node.operation
    assert isinstance(operation, Concat1)
    axis = operation.axis % len(dimensions(specs[0]))
    sizes = [bytes_of(spec) for spec in specs]
    joins = (
        all(certainly(size, 1) for size in dimensions(specs[0])[:axis])
        and all(map(_is_of_whole_lines, specs[:-1]))
        and not is_empty(sizes)
        and len({_symbols(size) for size in sizes}) == 1
    )
    return sizes if joins else []


def _is_of_whole_lines(spec: TensorSpec) -> bool:
    """Whether a tensor takes whole lines of the cache, whatever its open sizes are."""
    known = math.prod(size for size in dimensions(spec) if isinstance(size, int))
    return known * spec.element_type.dtype.itemsize % ALIGNMENT == 0


def _symbols(size: SizeLike) -> frozenset[Symbol]:
    return frozenset(size.symbols) if isinstance(size, Size) else frozenset()
