"""The scope of a plan: which sizes of its inputs' shapes it takes as numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from msgspec.structs import replace

from uncork.ir.model import Model
from uncork.types import DYNAMIC, PartialShape, TensorSpec

#: Shapes of all inputs. None is a size that a plan leaves open, or that the model tells anyway.
Shapes = tuple[tuple[int | None, ...], ...]


class Scope(Enum):
    """The sizes that a plan takes as numbers.

    Ranks are always known: a model that leaves one open has plans by rank.
    """

    EVERY_SIZE = "every size"
    #: Kernels are made for inner sizes: how long rows are, not how many there are.
    INNER_SIZES = "the sizes of last axes"
    THESE_SIZES = "all sizes"


#: The scopes that are tried where kernels need numbers that the model leaves open, the widest
#: first.
NARROWER = (Scope.INNER_SIZES, Scope.THESE_SIZES)


def scoped(
    scope: Scope,
    model: Model,
    shapes: Sequence[tuple[int, ...]],
    inner: Collection[int] | None = None,
) -> Shapes:
    """The shapes as plans of this scope take them: those of equal ones serve the same calls.

    Kernels need the last axes of `inner` inputs, by number; None where nobody knows of which.
    """
    found = []
    for index, (parameter, shape) in enumerate(zip(model.parameters, shapes, strict=True)):
        declared = model.by_id[parameter].outputs[0].spec.shape
        left = scope is Scope.INNER_SIZES and inner is not None and index not in inner
        kept = [not left and _is_kept(scope, axis, len(shape)) for axis in range(len(shape))]
        if declared.rank is not None:
            kept = [
                is_kept and not dim.is_static
                for is_kept, dim in zip(kept, declared.dims, strict=True)
            ]
        found.append(
            tuple(size if is_kept else None for size, is_kept in zip(shape, kept, strict=True))
        )
    return tuple(found)


def _is_kept(scope: Scope, axis: int, rank: int) -> bool:
    if scope is Scope.INNER_SIZES:
        return axis == rank - 1 > 0
    return scope is Scope.THESE_SIZES


def narrowed(model: Model, shapes: Shapes) -> dict[int, TensorSpec]:
    """The specs of parameters, by node id, with these sizes; where a size is None, the declared one
    stays.
    """
    specs: dict[int, TensorSpec] = {}
    for parameter, shape in zip(model.parameters, shapes, strict=True):
        spec = model.by_id[parameter].outputs[0].spec
        dims = spec.shape.dims if spec.rank is not None else (DYNAMIC,) * len(shape)
        sizes = [dim if size is None else size for dim, size in zip(dims, shape, strict=True)]
        specs[parameter] = replace(spec, shape=PartialShape(sizes))
    return specs
