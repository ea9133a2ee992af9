"""The matcher of layers that take one step of each row of a sequence.

It tells where the number of the step stands, and what it means outside of the sequence.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import certainly, extents, has_extents, is_empty, product, same
from uncork.ops.broadcast import Broadcast1, Broadcast3
from uncork.ops.convert import Convert1
from uncork.ops.gather import Gather
from uncork.ops.gather_elements import GatherElements6
from uncork.ops.gather_nd import GatherND8
from uncork.ops.tile import Tile1
from uncork.symbolic import SizeLike


class Axes(Struct, frozen=True):
    """The axes of the steps of a sequence, and of its rows (None when there is only one row), in a
    tensor.
    """

    step: int
    batch: int | None


class StepSelection(Struct, frozen=True):
    """The step of row b is element b * stride of `indices`; see `StepLengths` for the rest."""

    indices: Source
    stride: int
    counts_from_end: bool
    zeros: bool


def match_step_selection(
    model: Model, node: Node, source: Source, axes: Axes
) -> StepSelection | None:
    """The way in which the node takes one step of each row of `source`, and nothing else of it.

    None when it does something else.

    The steps are more than one, so their axis is known by its size; all shapes are static.
    """
    operation = node.operation
    if (
        len(node.inputs) < 2
        or node.inputs[0] != source
        or source in node.inputs[1:]
        or len(node.outputs) != 1
    ):
        return None
    specs = [model.spec(given) for given in node.inputs]
    result = node.outputs[0].spec
    if not all(has_extents(spec) for spec in (result, *specs)) or result.value is not None:
        return None
    shape, indices = extents(specs[0]), extents(specs[1])
    if not same(product(extents(result)) * shape[axes.step], product(shape)) or is_empty(indices):
        return None
    if isinstance(operation, Gather):
        stride = _gathered(operation, specs[2].value, shape, indices, axes)
        return (
            None
            if stride is None
            else StepSelection(
                node.inputs[1], stride, operation.counts_from_end, not operation.strict
            )
        )
    if isinstance(operation, GatherElements6):
        stride = _gathered_elements(model, node.inputs[1], operation.axis % len(shape), axes)
    elif isinstance(operation, GatherND8):
        stride = (
            _of_each_row(indices, axes, operation.batch_dims)
            if operation.batch_dims == axes.step and certainly(indices[-1], 1)
            else None
        )
    else:
        return None
    return None if stride is None else StepSelection(node.inputs[1], stride, True, False)


def _gathered(
    operation: Gather,
    axis: np.ndarray | None,
    shape: tuple[SizeLike, ...],
    indices: tuple[SizeLike, ...],
    axes: Axes,
) -> int | None:
    if axis is None or int(axis.reshape(-1)[0]) % len(shape) != axes.step:
        return None
    return _of_each_row(indices, axes, operation.batch_count(len(indices)))


def _of_each_row(indices: tuple[SizeLike, ...], axes: Axes, batch_dims: int) -> int | None:
    """The stride of indices: 0 where one index is for all rows, 1 where each row has one; else
    None.
    """
    if certainly(product(indices), 1):
        return 0
    each = (
        axes.batch is not None
        and axes.batch < batch_dims
        and same(product(indices), indices[axes.batch])
    )
    return 1 if each else None


def _gathered_elements(model: Model, indices: Source, axis: int, axes: Axes) -> int | None:
    shape = extents(model.spec(indices))
    if axis != axes.step or not certainly(shape[axis], 1):
        return None
    others = [n for n, size in enumerate(shape) if not certainly(size, 1) and n != axes.batch]
    if not all(_is_same_along(model, indices, len(shape) - n) for n in others):
        return None
    stride = 0 if axes.batch is None else product(shape[axes.batch + 1 :])
    return stride if isinstance(stride, int) else None


def _is_same_along(model: Model, source: Source, from_end: int) -> bool:
    """Whether all elements along an axis, counted from the end beginning with 1, are the same: they
    come from one that was repeated.
    """
    waiting = [source]
    while waiting:
        source = waiting.pop()
        spec, node = model.spec(source), model.by_id[source.node]
        if not has_extents(spec):
            return False
        shape = extents(spec)
        if len(shape) < from_end or certainly(shape[-from_end], 1):
            continue
        if spec.value is not None:
            if not (spec.value == spec.value.take([0], -from_end)).all():
                return False
        elif isinstance(node.operation, (Broadcast1, Broadcast3)) and node.operation.mode in (
            "numpy",
            "bidirectional",
        ):
            waiting.append(node.inputs[0])
        elif isinstance(node.operation, Tile1):
            data = model.spec(node.inputs[0])
            if not has_extents(data):
                return False
            repeated = extents(data)
            if not (len(repeated) < from_end or certainly(repeated[-from_end], 1)):
                return False
        elif (
            isinstance(node.operation, Convert1)
            or getattr(node.operation, "auto_broadcast", "") == "numpy"
        ):
            waiting += node.inputs
        else:
            return False
    return True
