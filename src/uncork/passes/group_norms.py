"""The parts of a group normalisation as one layer.

    Reshape to [N, groups, rest] -> MVN of the rest -> Reshape back -> Multiply -> Add
    MVN of all but [N, C] -> Multiply -> Add                       each channel is a group

Exporters that have no operation for it write such layers. One layer reads and writes each element
once, and ends with what follows.

Recognised: layers of f32 of which nothing else is read, with factors and summands that are
constants, of groups before the Reshape back, of channels behind it; any of them may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from msgspec import Struct

from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import extents, has_extents, same_extents
from uncork.ops._common.indices import normalised_axes
from uncork.ops.batch_norm import GroupNormalization
from uncork.ops.mvn import MVN1, MVN6
from uncork.passes.rewrite import NewLayers, only_reader, readers
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType, TensorSpec

_MOVES = frozenset({"Reshape", "View"})
_ReadBy = Mapping[Source, "list[Node]"]


class _Norm(Struct, frozen=True):
    """A group normalisation: the tensor, its groups, and for each channel a factor and a summand.

    `last` is the layer whose result it is.
    """

    last: Node
    data: Source
    operation: GroupNormalization
    factors: Array
    summands: Array


def group_norms(model: Model) -> Model:
    """The model with one layer in place of the parts of each group normalisation."""
    read_by = readers(model)
    norms = [_found(model, read_by, node) for node in model.nodes if node.type_name == "MVN"]
    by_last = {norm.last.id: norm for norm in norms if norm is not None}
    layers = NewLayers(model)

    def normalise(node: Node) -> bool:
        norm = by_last.get(node.id)
        if norm is None:
            return False
        numbers = [layers.constant(n, ElementType.f32) for n in (norm.factors, norm.summands)]
        layers.put(norm.operation, norm.data, *numbers)
        layers.finish(node)
        return True

    return layers.rewritten(normalise)


def _found(model: Model, read_by: _ReadBy, mvn: Node) -> _Norm | None:
    """The group normalisation that a layer is the heart of; None where there is none, or where it
    would be that layer alone.
    """
    data, before = mvn.inputs[0], model.by_id[mvn.inputs[0].node]
    grouped = before.type_name in _MOVES and len(read_by[data]) == 1
    if grouped:
        data = before.inputs[0]
    epsilon = _epsilon(model, mvn)
    given, seen = model.spec(data), model.spec(mvn.inputs[0])
    if epsilon is None or not all(_is_readable(spec) for spec in (given, seen)):
        return None
    shape, parts = extents(given), extents(seen)
    channels, groups = shape[1], parts[1]
    if not isinstance(channels, int) or not isinstance(groups, int) or not channels:
        return None
    if grouped and not (same_extents(shape[:1], parts[:1]) and channels % groups == 0):
        return None
    last, factors, summands = _ended(model, read_by, mvn, shape, groups)
    if last is mvn or not same_extents(extents(last.outputs[0].spec), shape):
        return None
    operation = GroupNormalization(num_groups=groups, epsilon=epsilon)
    each = channels // len(factors)
    return _Norm(last, data, operation, np.repeat(factors, each), np.repeat(summands, each))


def _is_readable(spec: TensorSpec) -> bool:
    return spec.element_type is ElementType.f32 and has_extents(spec) and len(spec.shape) >= 3


def _epsilon(model: Model, mvn: Node) -> float | None:
    """What is added to the variance by a layer that normalises all axes behind the second one; None
    of other layers.
    """
    operation = mvn.checked_operation
    assert isinstance(operation, (MVN1, MVN6))
    spec = model.spec(mvn.inputs[0])
    if spec.rank is None or not operation.normalize_variance:
        return None
    if isinstance(operation, MVN1):
        axes = operation.axes(spec.rank)
    else:
        given = model.spec(mvn.inputs[1]).value
        if given is None or operation.eps_mode != "inside_sqrt":
            return None
        axes = normalised_axes(operation, given, spec.rank)
    return operation.eps if set(axes) == set(range(2, spec.rank)) else None


def _ended(
    model: Model, read_by: _ReadBy, mvn: Node, shape: tuple[SizeLike, ...], groups: int
) -> tuple[Node, Array, Array]:
    """The last of the layers behind one that multiply, add or move back to a shape, and what they
    multiply by and add: numbers of groups or, of that shape, of channels.
    """
    factors, summands = np.ones(groups), np.zeros(groups)
    last, result = mvn, (mvn, factors, summands)
    while (reader := only_reader(read_by, last)) is not None:
        if len(reader.outputs) != 1:
            break
        spec = reader.outputs[0].spec
        if reader.type_name in _MOVES:
            if not has_extents(spec) or not same_extents(extents(spec), shape):
                break
            each = cast("int", shape[1]) // len(factors)
            factors, summands = np.repeat(factors, each), np.repeat(summands, each)
        elif reader.type_name in ("Add", "Multiply"):
            numbers = _by_channel(model, reader, last, len(factors))
            if numbers is None:
                break
            if reader.type_name == "Add":
                summands = summands + numbers
            else:
                factors, summands = factors * numbers, summands * numbers
        else:
            break
        last = reader
        if has_extents(spec) and same_extents(extents(spec), shape):
            result = last, factors, summands
    return result


def _by_channel(model: Model, node: Node, other: Node, count: int) -> Array | None:
    """The constant that a layer takes beside the result of another, as numbers for so many
    channels; None where it is no such constant, or changes the shape.
    """
    source = next((source for source in node.inputs if source.node != other.id), None)
    rank = other.outputs[0].spec.rank
    value = None if source is None else model.spec(source).value
    same_rank = rank is not None and node.outputs[0].spec.rank == rank
    if value is None or rank is None or not same_rank or value.size not in (1, count):
        return None
    aligned = (1,) * (rank - value.ndim) + value.shape
    if value.size > 1 and aligned[1] != count:
        return None
    return np.broadcast_to(value.reshape(-1).astype(np.float64), (count,))
