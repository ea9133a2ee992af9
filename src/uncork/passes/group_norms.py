"""The parts of a group normalisation as one layer.

    Reshape to [N, groups, rest] -> MVN of the rest -> Reshape back -> Multiply -> Add
    MVN of all but [N, C] -> Multiply -> Add                       each channel is a group

Exporters that have no operation for it write such layers. One layer reads and writes each element
once, and ends with what follows.

Recognised: layers of f32 of which nothing else is read, with factors and summands that are
constants, of groups before the Reshape back, of channels behind it; any of them may be missing.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from uncork.ir.model import Model, Node
from uncork.kernels.extents import extents, has_extents, same_extents
from uncork.ops.batch_norm import GroupNormalization
from uncork.ops.mvn import MVN1, MVN6
from uncork.passes.match_norms import (
    RESHAPES,
    Norm,
    ReadBy,
    is_readable,
    numbers_behind,
    standardised_axes,
    with_norms,
)
from uncork.passes.rewrite import only_reader, readers
from uncork.symbolic import SizeLike
from uncork.types import Array


def group_norms(model: Model) -> Model:
    """The model with one layer in place of the parts of each group normalisation."""
    read_by = readers(model)
    return with_norms(
        model, [_found(model, read_by, node) for node in model.nodes if node.type_name == "MVN"]
    )


def _found(model: Model, read_by: ReadBy, mvn: Node) -> Norm | None:
    """The group normalisation that a layer is the heart of; None where there is none, or where it
    would be that layer alone.
    """
    data, before = mvn.inputs[0], model.by_id[mvn.inputs[0].node]
    grouped = before.type_name in RESHAPES and len(read_by[data]) == 1
    if grouped:
        data = before.inputs[0]
    epsilon = _epsilon(model, mvn)
    given, seen = model.spec(data), model.spec(mvn.inputs[0])
    if epsilon is None or not all(is_readable(spec) for spec in (given, seen)):
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
    return Norm(last, data, operation, np.repeat(factors, each), np.repeat(summands, each))


def _epsilon(model: Model, mvn: Node) -> float | None:
    """What is added to the variance by a layer that normalises all axes behind the second one; None
    of other layers.
    """
    operation, axes = mvn.checked_operation, standardised_axes(model, mvn)
    assert isinstance(operation, (MVN1, MVN6))
    rank = len(model.spec(mvn.inputs[0]).shape) if axes else 0
    return operation.eps if axes and set(axes) == set(range(2, rank)) else None


def _ended(
    model: Model, read_by: ReadBy, mvn: Node, shape: tuple[SizeLike, ...], groups: int
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
        if reader.type_name in RESHAPES:
            if not has_extents(spec) or not same_extents(extents(spec), shape):
                break
            each = cast("int", shape[1]) // len(factors)
            factors, summands = np.repeat(factors, each), np.repeat(summands, each)
        elif reader.type_name in ("Add", "Multiply"):
            numbers = numbers_behind(model, reader, last, 1, factors, summands)
            if numbers is None:
                break
            factors, summands = numbers
        else:
            break
        last = reader
        if has_extents(spec) and same_extents(extents(spec), shape):
            result = last, factors, summands
    return result
