"""Internal operations: variables that only grow, in a storage with a length.

A storage `[.., capacity, ..]` holds `length` elements along an axis. What is appended is written
behind them into the storage itself. So a call that fails has changed nothing: the length tells what
of the storage is the variable's value, and whoever runs the model moves it when the call has
succeeded.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from uncork.ops._common.vectors import size
from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, I32_I64, INTEGER, Field, Input, Output
from uncork.ops.parameter import Parameter
from uncork.symbolic import Size
from uncork.types import DYNAMIC, Array, Dimension, Element, ElementType, PartialShape, TensorSpec

#: What a length is.
_ONE = PartialShape([1])


class StateLength(Parameter):
    """The length of a variable before the call, i64 [1], never negative: shapes read this input."""

    def __init__(self) -> None:
        super().__init__(element_type=ElementType.i64, shape=_ONE)


class _OfState(Operation):
    """An operation of a storage with its length along `axis`."""

    axis = Field[int]()

    def _along(self, shape: PartialShape, dim: Dimension) -> PartialShape:
        return PartialShape(
            [dim if axis == self.axis else other for axis, other in enumerate(shape)]
        )


class LengthAfter(_OfState):
    """The length when `new` is appended: a number like those that shapes are made of."""

    length = Input(I32_I64)
    new = Input(ANY, moved=True)
    after = Output()

    def infer(self, length: TensorSpec, new: TensorSpec) -> TensorSpec:
        return TensorSpec(ElementType.i64, _ONE)

    def known_values(self, length: TensorSpec | None, new: TensorSpec | None) -> TensorSpec | None:  # type: ignore[override]
        before = None if length is None else size(self, "length", length)
        more = None if new is None or new.rank is None else new.shape[self.axis].size
        if before is None or more is None:
            return None
        return _of_element(before + more)

    def reference(self, length: Array, new: Array) -> Array:
        return np.asarray(length + new.shape[self.axis])


class AppendState(_OfState):
    """`new` written into the storage behind its first `length` elements; the output is the storage.

    `picks` are as many as the storage has rows along their axis: whoever runs the model has put the
    picked rows there.
    """

    storage = Input(ANY, "T", moved=True)
    length = Input(I32_I64)
    new = Input(ANY, "T", moved=True)
    picks = Input(INTEGER, optional=True)
    output = Output("T")

    picked_axis = Field(0)

    def infer(
        self, storage: TensorSpec, length: TensorSpec, new: TensorSpec, picks: TensorSpec | None
    ) -> PartialShape:
        merged = self.wanted(
            self._along(storage.shape, DYNAMIC).merge(self._along(new.shape, DYNAMIC)),
            "expected dimensions {} but for axis {}, got {}",
            storage.shape,
            self.axis,
            new.shape,
        )
        capacity, before = storage.shape[self.axis], size(self, "length", length)
        if before is not None:
            after = Dimension.of(before) + new.shape[self.axis]
            self.require(
                capacity.covers(after),
                "expected room for {} elements along axis {}, got {}",
                after,
                self.axis,
                capacity,
            )
        if picks is not None:
            rows = merged[self.picked_axis]
            self.require(
                rows.agrees(picks.shape[0]), "expected {} picked rows, got {}", rows, picks.shape[0]
            )
        return self._along(merged, capacity)

    def reference(self, storage: Array, length: Array, new: Array, picks: Array | None) -> Array:
        before = int(length[0])
        part = [slice(None)] * self.axis + [slice(before, before + new.shape[self.axis])]
        storage[tuple(part)] = new
        return storage


class StateValue(_OfState):
    """The first `length` elements of the storage along the axis."""

    storage = Input(ANY, "T", moved=True)
    length = Input(I32_I64)
    output = Output("T")

    def infer(self, storage: TensorSpec, length: TensorSpec) -> PartialShape:
        count = size(self, "length", length)
        return self._along(storage.shape, DYNAMIC if count is None else Dimension.of(count))

    def reference(self, storage: Array, length: Array) -> Array:
        return np.array(storage[(slice(None),) * self.axis + (slice(int(length[0])),)])


def _of_element(element: Element) -> TensorSpec:
    spec = TensorSpec(ElementType.i64, _ONE)
    if isinstance(element, Size):
        return replace(spec, elements=(element,))
    return replace(spec, value=np.array([element]))
