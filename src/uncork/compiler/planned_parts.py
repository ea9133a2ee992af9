"""Pieces of a plan under construction, and what the planner asks of specs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from msgspec import Struct, field

from uncork.compiler.call_plan import NativeStep, Part
from uncork.compiler.size_program import SizeProgram
from uncork.kernels.extents import product
from uncork.kernels.runtime.segment_plan import (
    Bind,
    BufferLifetime,
    MadeResult,
    Op,
    SegmentPlan,
    SizeCheck,
    SizeTensor,
    Slot,
    Step,
)
from uncork.kernels.runtime.target import Target
from uncork.symbolic import Relation, Size, SizeLike, Symbol
from uncork.types import Array, TensorSpec


class NotPlanned(Exception):
    """Raised where a model cannot have one plan for every size; the message says why."""


class OpenSegment(Struct):
    """A segment under construction."""

    steps: list[Step] = field(default_factory=list)
    binds: list[Bind] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    checks: list[SizeCheck] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)
    tensors: list[SizeTensor] = field(default_factory=list)
    #: Results of the model that it makes, by number, with the sizes that its step knows: a view of
    #: it is the result.
    makes: list[tuple[int, MadeResult]] = field(default_factory=list)
    cost: SizeLike = 0
    #: The slot of the cost, when no more steps come.
    cost_slot: Slot | None = None


class PlannedBuffer(Struct):
    """A buffer of the working memory under construction: its bytes, and the steps that use it."""

    bytes: Slot
    first: int
    last: int


def dimensions(spec: TensorSpec) -> tuple[SizeLike, ...]:
    """The sizes of a tensor. Raises NotPlanned when one has no expression."""
    sizes: list[SizeLike] = []
    if spec.rank is None:
        raise NotPlanned("a rank is known at the call only")
    for dim in spec.shape.dims:
        if dim.size is None:
            raise NotPlanned(f"the shape {spec.shape} is known at the call only")
        sizes.append(dim.size)
    return tuple(sizes)


def symbols_of(spec: TensorSpec) -> set[Symbol]:
    """The symbols that the sizes of a tensor are made of."""
    dims = spec.shape.dims if spec.rank is not None else ()
    return {symbol for dim in dims if isinstance(dim.size, Size) for symbol in dim.size.symbols}


def packable(spec: TensorSpec) -> bool:
    return spec.element_type.is_integer and spec.element_type.name in (
        "i64",
        "i32",
        "u64",
        "u32",
        "i8",
        "u8",
    )


def bytes_of(spec: TensorSpec) -> SizeLike:
    return product(dimensions(spec)) * spec.element_type.dtype.itemsize


def own_dtype(spec: TensorSpec) -> np.dtype[Any]:
    """The dtype of the spec as the very object that NumPy gives its own arrays."""
    return np.dtype(spec.element_type.dtype.char)


def known_element(element: SizeLike | None) -> SizeLike:
    assert element is not None
    return element


def contiguous(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(array.shape)


def whole_cost(cost: SizeLike | float) -> SizeLike:
    return int(cost) if isinstance(cost, (int, float)) else cost


def common_denominator(*sizes: Size) -> int:
    return math.lcm(
        *(Fraction(factor).denominator for size in sizes for factor in size.terms.values())
    )


def lowered(relation: Relation, program: SizeProgram) -> tuple[str, Slot, Slot]:
    """A relation as a check of two numbers: see `SizeCheck`."""
    scale = common_denominator(relation.left, relation.right)
    left, right = relation.left * scale, relation.right * scale
    if relation.kind == "==":
        return "equal", program.slot(left), program.slot(right)
    if relation.kind == "!=":
        return "not_equal", program.slot(left), program.slot(right)
    if relation.kind == ">=":
        return "at_least", program.slot(left), program.slot(right)
    if relation.kind == "<":
        return "at_least", program.slot(right), program.slot(left + 1)
    return "equal", program.slot(left - right * (left // right)), program.slot(0)


def closed(part: Part | OpenSegment, buffers: Sequence[PlannedBuffer], target: Target) -> Part:
    """A part as the plan has it: a segment whose buffers and steps are complete."""
    if not isinstance(part, OpenSegment):
        return part
    placed = tuple(
        BufferLifetime(n, buffers[n].bytes, buffers[n].first, buffers[n].last)
        for n in sorted(part.buffers, key=lambda n: buffers[n].first)
    )
    segment = SegmentPlan(
        tuple(part.steps),
        tuple(part.binds),
        tuple(part.ops),
        tuple(part.checks),
        placed,
        part.cost_slot,
        tuple(part.tensors),
        target,
    )
    return NativeStep(segment, tuple(part.makes))
