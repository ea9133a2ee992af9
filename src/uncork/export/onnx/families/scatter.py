"""Scattering updates: into elements, slices and tuples of places, replacing or reducing; the last
of equal places stays.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from uncork.export.onnx.families.gather import counted_forward
from uncork.export.onnx.families.shapes import numbers
from uncork.export.onnx.graph import BOOLEAN, I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._common.scatter import Reducing
from uncork.ops._operation import Operation
from uncork.ops.scatter_elements_update import ScatterElementsUpdate12
from uncork.types import ElementType, PartialShape

T = ElementType
_NODES = {
    "none": "none",
    "sum": "add",
    "sub": "add",
    "prod": "mul",
    "min": "min",
    "max": "max",
    "mean": "add",
}


def _reduction(op: Operation) -> str:
    return op.reduction if isinstance(op, Reducing) else "none"


def _prepared(g: Graph, tensor: Tensor, reduction: str) -> Tensor:
    """The tensor in the type that a reduction is computed in. Booleans are numbers, of which or is
    the maximum and and the minimum.
    """
    if reduction == "none":
        return tensor
    if tensor.type is BOOLEAN:
        return g.cast(tensor, T.i32)
    return g.cast(tensor, T.f32) if tensor.type in (T.f16, T.bf16) else tensor


def _node_of(reduction: str, element_type: ElementType) -> str:
    if element_type is BOOLEAN and reduction in ("sum", "prod"):
        return "max" if reduction == "sum" else "min"
    return _NODES[reduction]


def _finished(g: Graph, result: Tensor, own: ElementType) -> Tensor:
    if own is BOOLEAN and result.type is not BOOLEAN:
        return g.op("Not", g.op("Equal", result, g.number(0, result)))
    return g.cast(result, own)


@lowers("ScatterElementsUpdate")
def elements(
    g: Graph, op: Operation, data: Tensor, indices: Tensor, updates: Tensor, axis: Tensor
) -> Tensor:
    """ONNX's ScatterElements; without use_init_val the places written to begin with the neutral
    element.
    """
    along = numbers(g, axis, "axis")[0]
    reduction, own = _reduction(op), data.type
    places = (
        g.cast(indices, I64)
        if isinstance(op, ScatterElementsUpdate12)
        else counted_forward(g, indices)
    )
    base, values = (_prepared(g, t, reduction) for t in (data, updates))
    node = _node_of(reduction, own)
    initial = not isinstance(op, ScatterElementsUpdate12) or op.use_init_val
    if reduction != "none" and not initial:
        neutral = g.op("Expand", _neutral(g, reduction, base, own), g.shape(updates))
        base = g.op("ScatterElements", base, places, neutral, axis=along)
    result = g.op(
        "ScatterElements", base, places, values, axis=along, reduction=node, shape=data.shape
    )
    if reduction == "mean":
        result = _mean(g, data, result, places, along, initial)
    return _finished(g, result, own)


def _neutral(g: Graph, reduction: str, base: Tensor, own: ElementType) -> Tensor:
    if own is BOOLEAN:
        return g.number(int(reduction in ("prod", "min")), base)
    if reduction in ("min", "max"):
        if base.type.is_float:
            return g.number(math.inf if reduction == "min" else -math.inf, base)
        limits = np.iinfo(base.type.dtype)
        return g.number(int(limits.max if reduction == "min" else limits.min), base)
    return g.number(int(reduction == "prod"), base)


def _mean(
    g: Graph, data: Tensor, total: Tensor, places: Tensor, along: int, initial: bool
) -> Tensor:
    """Sums over the numbers of terms, in places that have any; of integers rounded down."""
    shape = g.shape(data)
    ones = g.op("Expand", g.constant(1, I64), g.op("Shape", places))
    counts = g.op(
        "ScatterElements",
        g.op("Expand", g.constant(int(initial), I64), shape),
        places,
        ones,
        axis=along,
        reduction="add",
    )
    counts = g.op("Max", counts, g.constant(1, I64))
    if total.type.is_float:
        return g.op("Div", total, g.cast(counts, total.type))
    from uncork.export.onnx.families.arithmetic import floor_division

    if total.type.bits == 64:
        g.approximate("the mean of 64-bit integers is of a sum that may wrap")
    if total.type.bits < 64:
        g.approximate("the mean of integers is of a sum in their own type, which may wrap")
    return g.cast(floor_division(g, g.cast(total, I64), counts), total.type)


@lowers("ScatterUpdate")
def slices(
    g: Graph, op: Operation, data: Tensor, indices: Tensor, updates: Tensor, axis: Tensor
) -> Tensor:
    """ONNX's ScatterElements, with each index spread over its whole slice."""
    rank = g.rank(data)
    along = numbers(g, axis, "axis")[0] % rank
    places = g.op("Reshape", counted_forward(g, indices), [-1])
    count = g.rank(indices)
    if count != 1:
        shape = g.concat(
            [g.dims(data, 0, along), g.op("Shape", places, type=I64), g.dims(data, along + 1, rank)]
        )
        updates = g.op("Reshape", updates, shape)
    places = g.unsqueeze(
        replace(places, shape=PartialShape([None])), [i for i in range(rank) if i != along]
    )
    spread = g.op("Expand", places, g.op("Shape", updates, type=I64))
    return g.op("ScatterElements", data, spread, updates, axis=along, shape=data.shape)


@lowers("ScatterNDUpdate")
def tuples(g: Graph, op: Operation, data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """ONNX's ScatterND where no place comes twice, which it leaves open; else single elements of
    the flattened tensor.
    """
    rank = g.rank(data)
    size = indices.shape[-1].static_size if indices.rank is not None else None
    if not size:
        g.refuse("the length of the tuples of indices is not known, or 0")
    reduction, own = _reduction(op), data.type
    base, values = (_prepared(g, t, reduction) for t in (data, updates))
    values = g.op("Neg", values) if reduction == "sub" else values
    expected = [*(d for d in indices.shape[:-1]), *data.shape[size:]]
    if updates.rank != len(expected):
        values = g.op(
            "Reshape",
            values,
            g.concat([g.dims(indices, 0, g.rank(indices) - 1), g.dims(data, size, rank)]),
        )
    places = (
        g.cast(indices, I64)
        if getattr(op, "counts_from_end", False)
        else counted_forward(g, indices)
    )
    known = indices.value
    if known is not None and _distinct(known, data):
        result = g.op(
            "ScatterND", base, places, values, reduction=_node_of(reduction, own), shape=data.shape
        )
        return _finished(g, result, own)
    return _finished(g, _flat(g, base, data, places, values, size, _node_of(reduction, own)), own)


def _distinct(indices: np.ndarray, data: Tensor) -> bool:
    size = indices.shape[-1]
    if not data.shape[:size].is_static:
        wrapped = indices
        if (indices < 0).any():
            return False
    else:
        wrapped = indices % np.array(data.shape[:size].static)
    rows = wrapped.reshape(-1, size)
    return len(np.unique(rows, axis=0)) == len(rows)


def _flat(
    g: Graph, base: Tensor, data: Tensor, places: Tensor, values: Tensor, size: int, node: str
) -> Tensor:
    sizes = g.dims(data, 0, size)
    wrapped = g.op(
        "Where", g.op("Less", places, g.constant(0, I64)), g.op("Add", places, sizes), places
    )
    # How many rows of the flattened tensor a step along each of the axes is.
    steps = [g.constant(np.ones(1, np.int64))]
    for axis in range(size - 1, 0, -1):
        steps.insert(0, g.op("Mul", steps[0], g.dim(data, axis)))
    number = g.op("ReduceSum", g.op("Mul", wrapped, g.concat(steps)), [-1], keepdims=0)
    # An index outside of its own axis may be a place of the whole: it is sent outside of that too.
    inside = g.op(
        "And", g.op("GreaterOrEqual", wrapped, g.constant(0, I64)), g.op("Less", wrapped, sizes)
    )
    wrong = g.op("ReduceMax", g.cast(g.op("Not", inside), T.i32), [-1], keepdims=0)
    number = g.op("Where", g.cast(wrong, BOOLEAN), g.constant(2**62, I64), number)
    total = g.op("ReduceProd", sizes, keepdims=1)
    width = (
        g.op("ReduceProd", g.dims(data, size, g.rank(data)), keepdims=1)
        if size < g.rank(data)
        else g.constant(np.ones(1, np.int64))
    )
    rows = g.op("Reshape", base, g.concat([total, width]), allowzero=1)
    row = g.op("Reshape", number, [-1, 1])
    parts = g.op(
        "Reshape",
        values,
        g.op("Concat", g.op("Shape", row, start=0, end=1, type=I64), width, axis=0),
        allowzero=1,
    )
    spread = g.op("Expand", row, g.op("Shape", parts, type=I64))
    result = g.op("ScatterElements", rows, spread, parts, axis=0, reduction=node)
    return g.op("Reshape", result, g.shape(data), shape=data.shape, allowzero=1)


@lowers("SliceScatter")
def slice_scatter(
    g: Graph,
    op: Operation,
    data: Tensor,
    updates: Tensor,
    start: Tensor,
    stop: Tensor,
    step: Tensor,
    axes: Tensor | None,
) -> Tensor:
    """ONNX's ScatterElements on the flattened data, at the numbers of the elements that the slice
    selects.
    """
    shape = g.shape(data)
    total = g.op("ReduceProd", shape, keepdims=0)
    every = g.op(
        "Reshape", g.op("Range", g.constant(0, I64), total, g.constant(1, I64)), shape, allowzero=1
    )
    named = None if axes is None else g.vector(axes)
    places = g.op("Slice", every, g.vector(start), g.vector(stop), named, g.vector(step))
    flat = [g.op("Reshape", t, [-1]) for t in (data, places, updates)]
    result = g.op("ScatterElements", *flat, axis=0)
    return g.op("Reshape", result, shape, shape=data.shape, allowzero=1)
