"""What passes that find the parts of a normalisation share: an MVN's axes, numbers of channels
behind it, and one layer in the place of all parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct

from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import has_extents
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axes
from uncork.ops.mvn import MVN1, MVN6
from uncork.passes.rewrite import NewLayers
from uncork.types import Array, ElementType, TensorSpec

RESHAPES = frozenset({"Reshape", "View"})
ReadBy = Mapping[Source, "list[Node]"]


class Norm(Struct, frozen=True):
    """A normalisation: the tensor, the operation, and for each channel a factor and a summand.

    `last` is the layer whose result it is.
    """

    last: Node
    data: Source
    operation: Operation
    factors: Array
    summands: Array


def with_norms(model: Model, norms: Iterable[Norm | None]) -> Model:
    """The model with one layer in the place of the parts of each normalisation."""
    by_last = {norm.last.id: norm for norm in norms if norm is not None}
    layers = NewLayers(model)

    def normalise(node: Node) -> None:
        norm = by_last.get(node.id)
        if norm is not None:
            numbers = [layers.constant(n, ElementType.f32) for n in (norm.factors, norm.summands)]
            layers.put(norm.operation, norm.data, *numbers)
            layers.finish(node)

    return layers.rewritten(normalise)


def is_readable(spec: TensorSpec) -> bool:
    """Whether it is the spec of images of f32 with channels and pixels."""
    return spec.element_type is ElementType.f32 and has_extents(spec) and len(spec.shape) >= 3


def standardised_axes(model: Model, node: Node) -> tuple[int, ...] | None:
    """The axes over which an MVN takes the mean away and divides by the root of the variance and
    its epsilon; None where only the call knows them, or it does something else, and of any other
    layer.
    """
    operation, rank = node.operation, model.spec(node.inputs[0]).rank if node.inputs else None
    if not isinstance(operation, (MVN1, MVN6)) or rank is None or not operation.normalize_variance:
        return None
    if isinstance(operation, MVN1):
        return tuple(operation.axes(rank))
    given = model.spec(node.inputs[1]).value
    if given is None or operation.eps_mode != "inside_sqrt":
        return None
    return tuple(normalised_axes(operation, given, rank))


def numbers_behind(
    model: Model, node: Node, other: Node, axis: int, factors: Array, summands: Array
) -> tuple[Array, Array] | None:
    """The factors and summands of channels along an axis, with those of an Add or a Multiply of the
    result of another layer; None where it does not take one number for each channel.
    """
    sources = [source for source in node.inputs if source.node != other.id]
    value = model.spec(sources[0]).value if len(sources) == 1 else None
    count, rank = len(factors), other.outputs[0].spec.rank
    same_rank = rank is not None and node.outputs[0].spec.rank == rank
    if value is None or rank is None or not same_rank or value.size not in (1, count):
        return None
    aligned = (1,) * (rank - value.ndim) + value.shape
    if value.size > 1 and aligned[axis] != count:
        return None
    numbers = np.broadcast_to(value.reshape(-1).astype(np.float64), (count,))
    if node.type_name == "Add":
        return factors, summands + numbers
    return factors * numbers, summands * numbers
