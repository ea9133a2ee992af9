"""Interpolate: ONNX's Resize where it reads the same cells with the same weights, else the cells
gathered and weighted one by one.

Which cells an axis reads, and with what weights, the operation's own rules say (`ops/_resize.py`),
once the sizes are known. ONNX
computes coordinates from a scale rounded to f32, and onnxruntime resizes linearly and cubically
only along the last axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.export.onnx.resize_open import OpenAxis
from uncork.ops._common.resize import (
    Axis,
    Settings,
    coordinates_in_f32,
    linear_onnx_taps,
    nearest_cells,
    taps,
)
from uncork.ops.interpolate import Interpolate1, Interpolating
from uncork.storage import decode
from uncork.types import Array, ElementType

T = ElementType
_SAME = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
_NODES = {"nearest": "nearest", "linear": "linear", "linear_onnx": "linear", "cubic": "cubic"}
#: More taps than this are one product of matrices.
_TAPS = 8


@dataclass(frozen=True)
class _Plan:
    """The padded data to resize, the axes, their sizes or scales, and the settings."""

    op: Interpolating
    data: Tensor
    axes: Sequence[int]
    #: Sizes or scales, one for each axis.
    wanted: Tensor
    how: Settings


@lowers("Interpolate")
def interpolate(g: Graph, op: Interpolating, data: Tensor, *inputs: Tensor | None) -> Tensor:
    """ONNX's Resize where that reads the same cells with the same weights, else the cells one by
    one.
    """
    plan = _plan(g, op, _padded(g, op, data), inputs)
    if plan.data.shape.is_static and plan.wanted.value is not None:
        return _static(g, plan)
    return _dynamic(g, plan)


def _padded(g: Graph, op: Interpolating, data: Tensor) -> Tensor:
    pads = op.pads(g.rank(data))
    if not any(b or e for b, e in pads):
        return data
    dims = [(d + b + e).static_size for d, (b, e) in zip(data.shape, pads, strict=True)]
    return g.op("Pad", data, [*(b for b, _ in pads), *(e for _, e in pads)], shape=dims)


def _plan(g: Graph, op: Interpolating, data: Tensor, inputs: Sequence[Tensor | None]) -> _Plan:
    rank = g.rank(data)
    wanted, named = op.chosen(*inputs)
    axes = list(op.axes) if isinstance(op, Interpolate1) else list(range(rank))
    if named is not None:
        known = named.known()
        if known is None:
            g.refuse("the axes are computed as the model runs")
        axes = [a % rank for a in known]
    return _Plan(op, data, axes, wanted, op.settings(any(map(any, op.pads(rank))), rank))


def _static(g: Graph, plan: _Plan) -> Tensor:
    data, how, wanted = plan.data, plan.how, plan.wanted
    assert wanted.value is not None
    numbers = decode(wanted.value, wanted.type).reshape(-1)
    axes = plan.op.changes(data.shape.static, plan.axes, numbers)
    results = list(data.shape.static)
    for a in axes:
        results[a.axis] = a.result
    if 0 in results:
        return g.op("Expand", g.number(0, data), g.constant(np.array(results)))
    changed = [a for a in axes if a.size != a.result]
    if not changed:
        return data
    if _is_onnx(plan, changed):
        return g.op(
            "Resize",
            data,
            None,
            None,
            np.array(results, np.int64),
            shape=results,
            **_attributes(how, changed),
        )
    if how.mode == "nearest":
        for a in changed:
            cells = nearest_cells(
                a, a.coordinates(how.coordinate_transformation_mode), how.nearest_mode
            )
            data = g.op("Gather", data, g.constant(cells), axis=a.axis)
        return data
    if how.mode == "linear_onnx" and data.type in (T.u8, T.i8):
        return _bytes(g, data, changed, how.coordinate_transformation_mode)
    smoothed = how.antialias and any(a.factor < 1 for a in axes)
    by_pillow = how.mode.endswith("pillow")
    whole = not data.type.is_float
    values = g.cast(data, T.f64 if whole else T.f32 if data.type is not T.f64 else T.f64)
    for a in sorted(changed, key=lambda a: -a.axis) if by_pillow else changed:
        values = _weighted(g, values, a.axis, *taps(a, how, smoothed))
        if by_pillow and whole:
            values = _limited(g, values, data.type)
    return g.cast(_limited(g, values, data.type) if whole else values, data.type)


def _bytes(g: Graph, data: Tensor, axes: Sequence[Axis], transformation: str) -> Tensor:
    """Bytes resized by linear_onnx in f32. The second product of an axis is not rounded (f64 has it
    exactly), as `linear_onnx_of_bytes` tells.
    """
    rank, values = g.rank(data), g.cast(data, T.f32)
    for axis in sorted(axes, key=lambda a: -a.axis):
        cells, weights = linear_onnx_taps(axis, coordinates_in_f32(axis, transformation))
        order = (0, 1) if axis.axis != rank - 2 else (1, 0)
        along = [1] * rank
        along[axis.axis] = axis.result
        exact, rounded = (
            (
                g.op(
                    "Gather", values, g.constant(np.ascontiguousarray(cells[:, k])), axis=axis.axis
                ),
                g.constant(weights[:, k].astype(np.float32).reshape(along)),
            )
            for k in order
        )
        product = g.op("Mul", *(g.cast(factor, T.f64) for factor in exact))
        total = g.op("Add", product, g.cast(g.op("Mul", *rounded), T.f64))
        values = g.cast(total, T.f32)
    return g.cast(_limited(g, values, data.type), data.type)


def _limited(g: Graph, values: Tensor, element_type: ElementType) -> Tensor:
    """Values rounded, halves to even, and limited to the range of an integer type."""
    limits = np.iinfo(element_type.dtype)
    if element_type.bits == 64:
        g.refuse("an Interpolate of 64-bit integers")
    rounded = g.op("Round", values)
    return g.op(
        "Min",
        g.op("Max", rounded, g.number(float(limits.min), values)),
        g.number(float(limits.max), values),
    )


def _weighted(g: Graph, data: Tensor, axis: int, cells: Array, weights: Array) -> Tensor:
    """The weighted sums of cells along an axis: tap by tap, or with many taps by a matrix."""
    if cells.shape[1] > _TAPS:
        return _by_matrix(g, data, axis, cells, weights)
    total: Tensor | None = None
    along = [1] * g.rank(data)
    along[axis] = len(cells)
    for cell, weight in zip(cells.T, weights.T, strict=True):
        if not weight.any():
            continue
        part = g.op("Gather", data, g.constant(np.ascontiguousarray(cell)), axis=axis)
        part = g.op(
            "Mul",
            part,
            g.constant(np.ascontiguousarray(weight.astype(data.type.dtype).reshape(along))),
        )
        total = part if total is None else g.op("Add", total, part)
    if total is None:
        first = g.op("Gather", data, g.constant(np.zeros(len(cells), np.int64)), axis=axis)
        return g.op("Sub", first, first)
    return total


def _by_matrix(g: Graph, data: Tensor, axis: int, cells: Array, weights: Array) -> Tensor:
    rank = g.rank(data)
    size = (
        int(data.shape[axis])
        if data.rank is not None and data.shape[axis].is_static
        else int(cells.max()) + 1
    )
    matrix = np.zeros((size, len(cells)))
    for row, (places, values) in enumerate(zip(cells, weights, strict=True)):
        np.add.at(matrix[:, row], places, values)
    order = [*(i for i in range(rank) if i != axis), axis]
    last = g.transpose(data, order)
    product = g.op("MatMul", last, g.constant(matrix.astype(data.type.dtype)))
    return (
        g.op("Transpose", product, perm=[order.index(i) for i in range(rank)])
        if axis != rank - 1
        else product
    )


def _attributes(how: Settings, changed: Sequence[Axis]) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "mode": _NODES[how.mode],
        "coordinate_transformation_mode": how.coordinate_transformation_mode,
    }
    if how.mode == "nearest":
        attributes["nearest_mode"] = _rounding(how, changed)
    if how.mode == "cubic":
        attributes["cubic_coeff_a"] = float(how.cube_coeff)
    return attributes


def _rounding(how: Settings, changed: Sequence[Axis]) -> str:
    """The nearest_mode in ONNX: mode simple is floor where the data grow and ceil where they
    shrink.
    """
    if how.nearest_mode != "simple":
        return how.nearest_mode
    return "ceil" if changed[0].factor < 1 else "floor"


def _is_onnx(plan: _Plan, changed: Sequence[Axis]) -> bool:
    """Whether ONNX's Resize gives the same for these sizes, and onnxruntime runs it."""
    how, data = plan.how, plan.data
    if (
        how.mode not in _NODES
        or how.coordinate_transformation_mode not in _SAME
        or data.type not in (T.f32, T.f16)
    ):
        return False
    if how.antialias and any(a.factor < 1 for a in changed):
        return False
    rank, last = data.shape.rank or 0, {a.axis for a in changed}
    if how.mode != "nearest" and (
        rank not in (3, 4) or not last <= ({2} if rank == 3 else {2, 3}) or data.type is not T.f32
    ):
        return False
    if (
        how.mode == "nearest"
        and how.nearest_mode == "simple"
        and len({a.factor < 1 for a in changed}) > 1
    ):
        return False
    return all(_same_cells(how, a, _rounding(how, changed)) for a in changed)


def _same_cells(how: Settings, axis: Axis, rounding: str) -> bool:
    """Whether the coordinates that ONNX computes in f32 from sizes lead to the same cells."""
    mode = how.coordinate_transformation_mode
    exact = axis.coordinates(mode)
    scale = np.float32(axis.result) / np.float32(axis.size)
    x = np.arange(axis.result, dtype=np.float32)
    if mode == "align_corners":
        near = x * np.float32(axis.size - 1) / np.float32(max(1, axis.result - 1))
    elif mode == "asymmetric":
        near = x / scale
    else:
        near = (x + np.float32(0.5)) / scale - np.float32(0.5)
        if mode == "pytorch_half_pixel" and axis.result == 1:
            near = np.zeros(1, np.float32)
    if how.mode != "nearest":
        # linear looks at cells inside only; beyond a cell outside it has nothing to look at.
        return bool(
            np.allclose(exact, near, atol=1e-4) and (exact > -1).all() and (exact < axis.size).all()
        )
    return bool(
        (
            nearest_cells(axis, exact, rounding)
            == nearest_cells(axis, near.astype(np.float64), rounding)
        ).all()
    )


def _dynamic(g: Graph, plan: _Plan) -> Tensor:
    """The data resized where sizes are not known: cell by cell, with coordinates that the model
    computes.
    """
    how, data = plan.how, plan.data
    if how.antialias or how.mode.endswith("pillow"):
        g.refuse("Interpolate with antialias, or as Pillow does it, and sizes that are not known")
    whole = not data.type.is_float
    own = data.type
    values = (
        data if how.mode == "nearest" else g.cast(data, T.f64 if whole or own is T.f64 else T.f32)
    )
    wanted = (
        plan.wanted
        if plan.op.by_sizes
        else g.cast(plan.wanted, T.f64 if plan.wanted.type is T.f64 else T.f32)
    )
    bytes_in_f32 = how.mode == "linear_onnx" and own in (T.u8, T.i8)
    if bytes_in_f32:
        values = g.cast(data, T.f32)
    order = list(enumerate(plan.axes))
    for position, axis in sorted(order, key=lambda p: -p[1]) if bytes_in_f32 else order:
        if _kept(plan, axis):
            continue
        element = g.scalar(g.slice(wanted, position, position + 1, 0))
        size = g.scalar(g.dim(data, axis))
        scale = None if plan.op.by_sizes else element
        result = g.cast(element, I64) if scale is None else _scaled(g, size, scale)
        along = OpenAxis(g, size, result, scale, how)
        resize = along.applied_to_bytes if bytes_in_f32 else along.applied
        values = resize(values, axis)
    if how.mode == "nearest":
        return values
    return g.cast(_limited(g, values, own) if whole else values, own)


def _scaled(g: Graph, size: Tensor, scale: Tensor) -> Tensor:
    """floor(scale * size), where a product that misses a whole number by a millionth is that
    number.
    """
    near = g.op("Mul", g.op("Add", scale, g.number(1e-6, scale)), g.cast(size, scale.type))
    exact = g.op("Mul", g.cast(scale, T.f64), g.cast(size, T.f64))
    cells = g.op("Min", g.cast(g.op("Floor", near), I64), g.cast(g.op("Ceil", exact), I64))
    return g.op("Where", g.op("Equal", scale, g.number(1, scale)), size, cells)


def _kept(plan: _Plan, axis: int) -> bool:
    """Whether the axis keeps its size, known or not."""
    if plan.wanted.value is None:
        return False
    number = decode(plan.wanted.value, plan.wanted.type).reshape(-1)[list(plan.axes).index(axis)]
    return bool(number == 1) if not plan.op.by_sizes else plan.data.shape[axis] == int(number)
