"""Internal operations: several layers fused into one.

Their meaning is that of the layers, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from uncork.internal_ops.of_layers import OfLayers, Specs, Step
from uncork.ops._operation import Operation
from uncork.ops._ports import ARITHMETIC, Field, Input, Output, Several
from uncork.types import ElementType, PartialShape, TensorSpec


class NarrowedBag(Operation):
    """A bag by offsets of which indices and offsets are first converted from i64 to i32: they wrap,
    as Convert does.
    """

    emb_table = Input(ARITHMETIC, "T")
    indices = Input(frozenset({ElementType.i64}))
    offsets = Input(frozenset({ElementType.i64}))
    output = Output("T")

    bag = Field[Operation]()

    def infer(
        self, emb_table: TensorSpec, indices: TensorSpec, offsets: TensorSpec
    ) -> PartialShape:
        ids = [TensorSpec(ElementType.i32, spec.shape) for spec in (indices, offsets)]
        return self.bag.describe([emb_table, *ids])[0].shape

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        narrowed: list[TensorSpec | None] = []
        for position, spec in enumerate(specs):
            if spec is not None and spec.value is not None and position > 0:
                spec = TensorSpec(ElementType.i32, spec.shape, spec.value.astype(np.int32))
            narrowed.append(spec)
        return self.bag.evaluate(narrowed)


class FusedMember(Struct, frozen=True):
    """An operation of a `Fused` one: its arguments are inputs of the whole (by number), then
    results of members before it.
    """

    operation: Operation
    arguments: tuple[int, ...]


class Fused(OfLayers):
    """Several operations element by element, each rounded to its own type, and moves of inputs
    that these read.

    The result is that of the last member.
    """

    output = Output()

    members = Several[FusedMember]()

    def through(self, step: Step, specs: Specs) -> tuple[TensorSpec, ...]:
        return _last(self.members, step, specs)


class Moved(OfLayers):
    """Several moves, one after the other, of inputs and of what others have moved: no element is
    computed with.

    The result is that of the last member.
    """

    moves_values = True
    output = Output()

    members = Several[FusedMember]()

    def through(self, step: Step, specs: Specs) -> tuple[TensorSpec, ...]:
        return _last(self.members, step, specs)


class FusedProduct(OfLayers):
    """A product (MatMul or a convolution), or a normalisation, with its epilogue: the element-wise
    operations that follow it.

    The result is that of the last member.

    The first `given` inputs are the product's. Arguments of members are the product's result (0),
    the other inputs, then results of members before it.
    """

    multiplies = True
    output = Output()

    product = Field[Operation]()
    given = Field[int]()
    members = Several[FusedMember]()

    def through(self, step: Step, specs: Specs) -> tuple[TensorSpec, ...]:
        made = step(self.product, specs[: self.given])
        return _last(self.members, step, [*made, *specs[self.given :]])


def _last(members: Sequence[FusedMember], step: Step, specs: Specs) -> tuple[TensorSpec, ...]:
    """The result of the last member, after each member in order."""
    known = list(specs)
    for member in members:
        known += step(member.operation, [known[i] for i in member.arguments])
    result = known[-1]
    assert result is not None
    return (result,)


def product_of(operation: Operation) -> Operation:
    """A layer without its epilogue: the product that it is, or begins with."""
    return operation.product if isinstance(operation, FusedProduct) else operation


class FusedLinear(FusedProduct):
    """A MatMul and its epilogue."""


class FusedConvolution(FusedProduct):
    """A convolution, of any kind, and its epilogue."""


class FusedNormalization(FusedProduct):
    """A normalisation of groups of channels, or over channels, and its epilogue."""

    multiplies = False
