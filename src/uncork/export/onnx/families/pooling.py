"""Poolings. ONNX and the IR differ in windows that rounding up puts past the padding, and in the
cells that count in a mean.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uncork.export.onnx.families.convolution import window_pads
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.avg_pool import AvgPool1, Pooling
from uncork.ops.max_pool import MaxPool8
from uncork.types import ElementType


class _Windows:
    """The attributes of a pooling's windows for ONNX: the pads, and apart from them the cells past
    the padding that only rounding up asks for.
    """

    def __init__(self, g: Graph, op: Pooling, data: Tensor) -> None:
        self.op = op
        self.sizes = data.shape[2:]
        self.pads, self.auto = window_pads(g, op, data, list(op.kernel))
        self.beyond = [0] * op.axes
        #: The number of windows follows from the sizes by a rule that ONNX has only as ceil_mode.
        self.ceil_mode = 0
        if self.sizes.is_static:
            slides = op.slides(np.broadcast_to(np.zeros(()), data.shape[2:].static), op.kernel)
            for axis, s in enumerate(slides):
                self.beyond[axis] = max(0, s.windows_extent - s.pad_begin - s.size - s.pad_end)
                # A window less than the size has room for: the padding at the end is cut.
                spare = s.pad_begin + s.size + s.pad_end - s.windows_extent
                if spare >= s.stride and self.pads is not None:
                    self.pads[op.axes + axis] -= spare
            self.floor = not any(self.beyond)
        elif op.rounding_type == "ceil" and self.auto is None:
            self.beyond = [s - 1 for s in op.strides]
        elif op.rounding_type == "ceil_torch" and self.auto is None:
            self.ceil_mode = 1

    def attributes(self, pads: list[int] | None) -> dict[str, Any]:
        """The attributes that ONNX's MaxPool and AveragePool share."""
        op = self.op
        return {
            "kernel_shape": list(op.kernel),
            "strides": list(op.strides),
            "dilations": list(op.dilations) if op.dilations else None,
            "pads": pads,
            "auto_pad": self.auto,
            "ceil_mode": self.ceil_mode or None,
        }

    def extended(self) -> list[int] | None:
        """The pads, with the cells that rounding up adds past them."""
        if self.pads is None:
            return None
        return [
            *self.pads[: self.op.axes],
            *(p + b for p, b in zip(self.pads[self.op.axes :], self.beyond, strict=True)),
        ]


def _apart(
    g: Graph, windows: _Windows, data: Tensor, pads: list[int] | None, fill: float
) -> tuple[Tensor, list[int] | None]:
    """The data and pads of a pooling; pads as large as the kernel, or negative ones, which
    onnxruntime refuses in a pooling, become a Pad before it.
    """
    axes = windows.op.axes
    if pads is None or all(0 <= p < k for p, k in zip(pads, windows.op.kernel * 2, strict=True)):
        return data, pads
    full = [0, 0, *pads[:axes], 0, 0, *pads[axes:]]
    return g.op("Pad", data, full, g.number(fill, data)), [0] * (2 * axes)


@lowers("MaxPool")
def max_pool(g: Graph, op: Pooling, data: Tensor) -> list[Tensor]:
    """ONNX's MaxPool. Cells past the padding do no harm, because cells outside are never the
    largest.
    """
    windows = _Windows(g, op, data)
    pads = windows.extended()
    lowest = -math.inf if data.type.is_float else np.iinfo(data.type.dtype).min
    padded, inner = _apart(g, windows, data, pads, lowest)
    if not isinstance(op, MaxPool8) or len(g.outputs) < 2:
        return [g.op("MaxPool", padded, **windows.attributes(inner))]
    if padded is not data:
        g.refuse("places of the largest cells, with pads as large as the kernel")
    values, places = g.ops("MaxPool", data, types=[None, I64], **windows.attributes(pads))
    axis = op.axis % g.rank(data)
    if axis:
        within = g.op("ReduceProd", g.dims(data, axis, g.rank(data)), keepdims=0)
        places = g.op("Mod", places, within)
    return [values, g.cast(places, op.index_element_type)]


@lowers("AvgPool")
def avg_pool(g: Graph, op: AvgPool1, data: Tensor) -> Tensor:
    """ONNX's AveragePool. Where windows that pass the padding would count cells past it too, the
    padding is a Pad and only those cells are excluded.
    """
    if not data.type.is_float:
        return _integer_mean(g, op, data)
    windows = _Windows(g, op, data)
    if op.exclude_pad or (windows.pads is not None and not any(windows.pads)):
        pads = windows.extended()
        if pads is not None and any(p >= k for p, k in zip(pads, op.kernel * 2, strict=True)):
            return _counted(g, op, windows, data)
        return g.op("AveragePool", data, count_include_pad=0, **windows.attributes(pads))
    if not any(windows.beyond) and not windows.ceil_mode:
        padded, inner = _apart(g, windows, data, windows.pads, 0)
        return g.op("AveragePool", padded, count_include_pad=1, **windows.attributes(inner))
    if windows.pads is None:
        g.refuse("padding that depends on sizes which are not known, with windows rounded up")
    axes = op.axes
    padded = g.op("Pad", data, [0, 0, *windows.pads[:axes], 0, 0, *windows.pads[axes:]])
    beyond = [0] * axes + windows.beyond
    if any(b >= k for b, k in zip(beyond, op.kernel * 2, strict=True)):
        return _counted(g, op, windows, data)
    return g.op("AveragePool", padded, count_include_pad=0, **windows.attributes(beyond))


def _counted(g: Graph, op: AvgPool1, windows: _Windows, data: Tensor) -> Tensor:
    """Means by known numbers of cells: the mean over the whole kernel, scaled."""
    pads = windows.extended()
    if pads is None or not windows.sizes.is_static:
        g.refuse("pads as large as the kernel, with sizes that are not known")
    counts = op._counts(op.slides(np.broadcast_to(np.zeros(()), windows.sizes.static), op.kernel))
    padded, inner = _apart(g, windows, data, pads, 0)
    mean = g.op("AveragePool", padded, count_include_pad=1, **windows.attributes(inner))
    factor = np.where(counts > 0, math.prod(op.kernel) / np.maximum(counts, 1), 0)
    return g.op("Mul", mean, g.cast(g.constant(factor), data.type))


def _integer_mean(g: Graph, op: AvgPool1, data: Tensor) -> Tensor:
    """The mean of integers, computed in f32 and rounded to the nearest, ties to even."""
    if data.type.bits > 32:
        g.refuse("the exact mean of 64-bit integers")
    mean = avg_pool(g, op, g.cast(data, ElementType.f32))
    g.approximate("the mean of integers is computed in f32")
    return g.cast(g.op("Round", mean), data.type)
