"""Reading the small integer inputs that give shapes, axes, lengths and bounds, and turning indices
into places.

At load such an input may be known whole, in part, or not at all: `vector` and `scalar` give None
for what is unknown, so a rule is written once for all three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from uncork.ops._common.indices import normalised_axes, normalised_axis, refuse_first
from uncork.ops._common.shapes import require_one, require_rank
from uncork.ops._operation import Operation
from uncork.symbolic import Size
from uncork.types import DYNAMIC, Array, Dimension, Element, PartialShape, TensorSpec

Numbers = list[int | None]
_VECTOR = PartialShape([None])


def vector(
    operation: Operation, name: str, spec: TensorSpec, scalar_too: bool = False
) -> Numbers | None:
    """The elements of a 1-D input, None for each unknown one; None when not even their number is
    known.
    """
    fits = spec.shape.compatible(_VECTOR) or (
        scalar_too and spec.shape.compatible(PartialShape([]))
    )
    operation.require(
        fits,
        "input '{}': expected a {}1-D tensor, got shape {}",
        name,
        "scalar or a " if scalar_too else "",
        spec.shape,
    )
    return spec.integers()


def sizes(operation: Operation, name: str, spec: TensorSpec) -> list[Element]:
    """The elements of an input that gives sizes, after `vector` has looked at it. Those that are
    expressions may not be negative.
    """
    elements = spec.sizes() or []
    for element in elements:
        demand_size(operation, name, element)
    return elements


def size(operation: Operation, name: str, spec: TensorSpec) -> Element:
    """The one element of an input that gives a size, after `scalar` has looked at it."""
    elements = sizes(operation, name, spec)
    return elements[0] if elements else None


def count(operation: Operation, name: str, spec: TensorSpec) -> Element:
    """The one element of an input that gives a size, which may not be negative."""
    numbers = spec.integers()
    number = numbers[0] if numbers else None
    operation.require(
        number is None or number >= 0,
        "input '{}' is {}, expected at least 0",
        name,
        number,
        input=name,
        value=number,
        low=0,
    )
    return size(operation, name, spec)


def demand_size(operation: Operation, name: str, element: Element) -> None:
    """Require every call to keep a size from being negative, where an input gives it as an
    expression.
    """
    if isinstance(element, Size) and (facts := element.facts) is not None:
        operation.require(
            facts.require_at_least(element, 0),
            "input '{}': expected no negative size, got {}",
            name,
            element,
        )


def size_or_minus_one(operation: Operation, name: str, element: Element) -> Element:
    """An element that is a size or -1: the facts of an expression say which of them it is."""
    if (
        not isinstance(element, Size)
        or (facts := element.facts) is None
        or facts.suppose_at_least(element, 0)
    ):
        return element
    operation.require(
        facts.require_equal(element, -1),
        "input '{}': expected sizes of at least -1, got {}",
        name,
        element,
    )
    return -1


def scalar(operation: Operation, name: str, spec: TensorSpec) -> int | None:
    """The value of an input that is a scalar or has one element; None when it is not known."""
    require_one(operation, name, spec)
    numbers = spec.integers()
    return numbers[0] if numbers else None


def axis_along(operation: Operation, data: TensorSpec, axis: TensorSpec, doing: str) -> int | None:
    """The axis of `data` that the input 'axis' says, counted from the front; None unless it and the
    rank are known. A scalar is refused: there is none to do this along.
    """
    number = scalar(operation, "axis", axis)
    operation.require(
        data.rank != 0, "input 'data' is a scalar: there is no axis to {} along", doing
    )
    if number is None or data.rank is None:
        return None
    return normalised_axis(operation, number, data.rank)


def length(spec: TensorSpec) -> Dimension:
    """The number of elements of a 1-D input."""
    return spec.shape.dims[0] if spec.rank == 1 else Dimension(1, 1) if spec.rank == 0 else DYNAMIC


def known_axes(
    operation: Operation,
    numbers: Numbers | None,
    rank: int,
    name: str = "axes",
    unique: bool = True,
) -> list[int | None] | None:
    """Axes counted from the front, None for each unknown one; known ones are refused when outside,
    or when one comes twice.
    """
    if numbers is None:
        return None
    axes = [None if n is None else normalised_axis(operation, n, rank, name) for n in numbers]
    known = [a for a in axes if a is not None]
    operation.require(
        not unique or len(set(known)) == len(known),
        "input '{}': {} name an axis twice",
        name,
        numbers,
    )
    return axes


def check_axes(operation: Operation, data: TensorSpec, axes: TensorSpec) -> None:
    """Refuse an input `axes`, a scalar or 1-D, whose axes are known not to be axes of the data, or
    to come twice.
    """
    require_rank(operation, "axes", axes, 0, 1)
    if data.rank is not None and axes.value is not None:
        normalised_axes(operation, axes.value, data.rank)


def all_known(numbers: Sequence[int | None] | None) -> list[int] | None:
    """The numbers, when every one is known."""
    if numbers is None or None in numbers:
        return None
    return [n for n in numbers if n is not None]


def places(
    operation: Operation, name: str, indices: Array, size: int | Array, from_end: bool = True
) -> Array:
    """Indices along an axis of `size` as int64 places; what is outside is refused. Negative ones
    count `from_end`, or are outside.

    `size` may be an array that broadcasts to `indices`, where they address several axes.
    """
    sizes = np.broadcast_to(np.asarray(size, np.int64), indices.shape)
    if indices.dtype.kind == "u":
        inside = indices < sizes.astype(np.uint64)
        place = indices.astype(np.int64)
    else:
        place = indices.astype(np.int64)
        inside = (place >= (-sizes if from_end else 0)) & (place < sizes)
        place = np.where(place < 0, place + sizes, place)
    if not inside.all():
        limit = int(sizes.reshape(-1)[int(np.argmin(inside))])
        low = -limit if from_end else 0
        expected = f"{low} to {limit - 1}" if limit else "none at all: the axis is empty"
        refuse_first(operation, name, indices, ~inside, expected, low, limit - 1)
    return place


def common_length(operation: Operation, specs: Mapping[str, TensorSpec]) -> Dimension:
    """The length that 1-D inputs share; refused when there is none."""
    common = DYNAMIC
    for spec in specs.values():
        merged = common.merge(length(spec))
        if merged is None:
            shown = ", ".join(f"'{name}' {s.shape}" for name, s in specs.items())
            operation.require(False, "expected inputs of one length, got {}", shown)
        common = merged or common
    return common
