"""Interpolate: ONNX's Resize where it reads the same cells with the same weights, else the cells
taken and weighted one by one.

ONNX computes coordinates from a scale rounded to f32, and onnxruntime resizes linearly and
cubically only along the last axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.export.onnx.composed import composed
from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._common.resize import Axis, Settings, nearest_cells
from uncork.ops.interpolate import Interpolate1, Interpolating
from uncork.storage import decode
from uncork.types import ElementType

T = ElementType
_SAME = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
_NODES = {"nearest": "nearest", "linear": "linear", "linear_onnx": "linear", "cubic": "cubic"}


@lowers("Interpolate")
def interpolate(
    g: Graph, op: Interpolating, data: Tensor, *inputs: Tensor | None
) -> Tensor | Sequence[Tensor]:
    """ONNX's Resize where that reads the same cells with the same weights, else the cells one by
    one.
    """
    resized = _by_node(g, op, data, *op.chosen(*inputs))
    return composed(g, op, data, *inputs) if resized is None else resized


def _by_node(
    g: Graph, op: Interpolating, data: Tensor, wanted: Tensor, named: Tensor | None
) -> Tensor | None:
    if not data.shape.is_static or wanted.value is None or (named and named.value is None):
        return None
    rank = g.rank(data)
    pads = op.pads(rank)
    sizes = [n + b + e for n, (b, e) in zip(data.shape.static, pads, strict=True)]
    places = list(op.axes) if isinstance(op, Interpolate1) else list(range(rank))
    if named is not None:
        places = [a % rank for a in named.known() or ()]
    how = op.settings(any(map(any, pads)), rank)
    axes = op.changes(sizes, places, decode(wanted.value, wanted.type).reshape(-1))
    changed = [a for a in axes if a.size != a.result]
    if not changed or not all(a.result for a in axes) or not _is_onnx(how, data, changed):
        return None
    if any(map(any, pads)):
        data = g.op("Pad", data, [p[end] for end in (0, 1) for p in pads], shape=sizes)
    for a in axes:
        sizes[a.axis] = a.result
    attributes = _attributes(how, changed)
    return g.op("Resize", data, None, None, np.array(sizes), shape=sizes, **attributes)


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


def _is_onnx(how: Settings, data: Tensor, changed: Sequence[Axis]) -> bool:
    """Whether ONNX's Resize gives the same for these sizes, and onnxruntime runs it."""
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
