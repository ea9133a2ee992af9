"""The parts of tensors that the turns of a loop take and give, and how they lie."""

from __future__ import annotations

from typing import NamedTuple

from uncork.compiler.planned_parts import dimensions
from uncork.kernels.extents import product
from uncork.ops._body import BodyInput, SlicedInput, Slicing
from uncork.ops.iteration import Iteration
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

Sizes = tuple[SizeLike, ...]


def taken_spec(operation: Iteration, entry: BodyInput, spec: TensorSpec) -> TensorSpec:
    """The spec of what a Parameter takes in one turn: the input, or a part of it."""
    if not isinstance(entry, SlicedInput):
        return spec
    axis = operation.axis(entry.slicing, len(spec.shape))
    part = spec.shape.with_dimension(axis, entry.slicing.part_size)
    return TensorSpec(spec.element_type, part)


class Parts(NamedTuple):
    """The parts of a tensor along an axis, and how they lie. In elements of the axis: where the
    `first` part begins, and the `step` from one to the next; `turns` is how many parts there are. A
    part consists of `runs` of neighbouring bytes, each of `bytes` bytes and with `stride` bytes
    from one to the next. An element of the axis takes `element` bytes.
    """

    first: SizeLike
    step: int
    turns: SizeLike
    runs: SizeLike
    bytes: SizeLike
    stride: SizeLike
    element: SizeLike


def parts_of(operation: Iteration, slicing: Slicing, spec: TensorSpec, joined: bool) -> Parts:
    """The parts of an input, or where it is `joined` of them, of an output."""
    sizes = dimensions(spec)
    axis = operation.axis(slicing, len(sizes))
    size, step = sizes[axis], slicing.stride
    element = product(sizes[axis + 1 :]) * spec.element_type.dtype.itemsize
    runs = product(sizes[:axis])
    count: SizeLike = 0
    first: SizeLike
    if joined:
        step = slicing.part_size if step > 0 else -slicing.part_size
        first = 0 if step > 0 else size - slicing.part_size
    else:
        first = size + slicing.start + 1 if slicing.start < 0 else slicing.start
        first = first if step > 0 else first - slicing.part_size
        count = operation.count_parts(slicing, size)
    return Parts(first, step, count, runs, element * slicing.part_size, element * size, element)
