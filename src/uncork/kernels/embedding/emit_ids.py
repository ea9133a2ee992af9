"""The ids of bag kernels, whatever their tables hold: which ids a bag has and what an empty one is,
all checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from uncork.kernels.codegen.emit import I32, I64, INDEX_TYPES, Kernel, Value, Variable
from uncork.kernels.embedding.spec_bags import Bag


class BagIds:
    """The ids of bags, by the arguments of a kernel."""

    def __init__(self, k: Kernel, spec: Bag, arguments: Mapping[str, Value]) -> None:
        self.k, self.spec = k, spec
        self._type = I64 if spec.index == "narrowed" else INDEX_TYPES[spec.index]
        self.rows, self.indices, self.count, self.offsets, self.bags, self.default = (
            arguments[name] for name in ("rows", "indices", "count", "offsets", "bags", "default")
        )

    def at(self, position: Value) -> Value:
        """The id at a position, not checked."""
        return self._number(self.indices, position)

    def look_ahead(self, by: Value) -> None:
        """Let `ahead` give ids that are so many positions on."""
        self.further = self.indices + by * self._type.bytes

    def ahead(self, position: Value) -> Value:
        """The id that is some positions on, not checked."""
        return self._number(self.further, position)

    def checked(self, position: Value) -> Value:
        """The id at a position; the kernel stops when there is no such row."""
        index = self.at(position)
        self.k.stop_unless(index.below(self.rows), position + 1)
        return index

    def bounds(self, bag: Value) -> tuple[Value, Value]:
        """Where a bag begins and ends, checked."""
        k = self.k
        if self.spec.bags == "fixed":
            return bag * self.offsets, (bag + 1) * self.offsets
        start = self._number(self.offsets, bag)
        following = k.minimum(bag + 1, self.bags - 1)
        end = k.select(bag + 1 < self.bags, self._number(self.offsets, following), self.count)
        k.stop_unless(start >= 0, k.integer(1))
        if self.spec.strict:
            k.stop_unless((bag > 0) | start.equals(0), k.integer(1))
        k.stop_unless(start <= end, k.integer(1))
        k.stop_unless(end <= self.count, k.integer(1))
        return start, end

    def default_row(self) -> Variable:
        """The row of empty bags, not checked: -1, which stands for zeros, when there is none."""
        k = self.k
        row = k.variable(k.integer(-1))
        with k.if_(self.default.equals(0).equals(0)):
            row.set(self._number(self.default, k.integer(0)))
        return row

    def fill(self, row: Variable, zeros: Callable[[], None], copy: Callable[[Value], None]) -> None:
        """Write an empty bag: zeros, or a copy of the default row, which is checked here."""
        k = self.k
        default = row.get()
        with k.if_else(default.equals(-1)) as (absent, given):
            with absent:
                zeros()
            with given:
                k.stop_unless(default.below(self.rows), k.integer(1))
                copy(default)

    def _number(self, array: Value, position: Value) -> Value:
        """An id or an offset."""
        value = self.k.load(array + position * self._type.bytes, self._type)
        return value.to(I32).to(I64) if self.spec.index == "narrowed" else value.to(I64)
