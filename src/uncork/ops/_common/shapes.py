"""Checks of shapes that operations share, with one wording of errors. What is unknown passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from uncork.ops._operation import Operation, check_memory
from uncork.symbolic import Size
from uncork.types import (
    DYNAMIC,
    Array,
    Dimension,
    DimensionLike,
    ElementType,
    PartialShape,
    TensorSpec,
)

_SMALL = {(0,): "a scalar", (1,): "a 1-D tensor", (0, 1): "a scalar or a 1-D tensor"}


def require_rank(operation: Operation, name: str, spec: TensorSpec, *ranks: int) -> None:
    """Refuse an input of any other rank."""
    expected = _SMALL.get(ranks) or "rank " + ", ".join(map(str, ranks[:-1])) + " or " * (
        len(ranks) > 1
    ) + str(ranks[-1])
    operation.require(
        spec.rank in (None, *ranks),
        "input '{}': expected {}, got shape {}",
        name,
        expected,
        spec.shape,
    )


def require_one(operation: Operation, name: str, spec: TensorSpec) -> None:
    """Refuse an input that is neither a scalar nor has one element."""
    fits = spec.shape.agrees(PartialShape([])) or spec.shape.agrees(PartialShape([1]))
    operation.require(
        fits, "input '{}': expected a scalar or one element, got shape {}", name, spec.shape
    )


def is_one_of(dim: Dimension, first: DimensionLike, second: DimensionLike) -> bool:
    """Whether the dimension may be one of two sizes; where sizes are symbols, their facts decide
    which one it is, and demand the second where it is not the first.
    """
    return dim.may_be(first) or dim.agrees(second)


def image_dims(
    operation: Operation, name: str, spec: TensorSpec, layout: str = "N, C, H, W"
) -> tuple[Dimension, ...]:
    """The four dimensions of an input; any other rank is refused."""
    operation.require(
        spec.rank in (None, 4), "input '{}': expected [{}], got shape {}", name, layout, spec.shape
    )
    return (DYNAMIC,) * 4 if spec.rank is None else spec.shape.dims


def suppose_pixels(dims: Iterable[Dimension]) -> None:
    """Suppose that these sizes are at least 1: kernels that read at computed places take no empty
    images, of which plans ask here.
    """
    for dim in dims:
        size = dim.expression if dim.is_open else None
        if size is not None and (facts := size.facts) is not None:
            facts.suppose_at_least(size, 1)


def divided(
    operation: Operation, dim: Dimension, divisor: int, template: str, *details: object
) -> Dimension:
    """The quotient of a dimension and a number that must divide it; refused, in the words given,
    when the dimension has no such size.
    """
    if dim.is_open and (size := dim.expression) is not None and (facts := size.facts) is not None:
        facts.require_multiple(size, divisor)
        return Dimension.of(size.over(Size.of(divisor)))
    low, high = -(-dim.low // divisor), None if dim.high is None else dim.high // divisor
    operation.require(high is None or low <= high, template, *details)
    return Dimension(low, high)


def check_array_fits(shape: Sequence[int], like: Array) -> None:
    """Refuse a call that needs an array of this shape, and of the type of `like`, that this machine
    cannot hold.
    """
    check_memory(
        [TensorSpec(ElementType.of_dtype(like.dtype) or ElementType.f32, PartialShape(shape))]
    )
