"""Poolings. ONNX and the IR differ in windows that rounding up puts past the padding, and in the
cells that count in a mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from uncork.export.onnx.families.bodies import Parts, Step, repeated
from uncork.export.onnx.families.convolution import window_pads
from uncork.export.onnx.families.shapes import numbers
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.export.onnx.sizes import Size, dimension, each, vector
from uncork.ops._operation import Operation
from uncork.ops.adaptive_pool import AdaptiveMaxPool8
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


@lowers("AdaptiveAvgPool")
def adaptive_mean(g: Graph, op: Operation, data: Tensor, output_shape: Tensor) -> Tensor:
    """The means of windows cut out one by one, along each axis; in a Loop where their number is
    computed.
    """
    counts = output_shape.known()
    if counts is None:
        return _means(g, data, output_shape)
    if 0 in counts:
        return g.op("Expand", g.number(0, data), g.concat([g.dims(data, 0, 2), counts]))
    for axis, count in enumerate(counts, 2):
        if count == 1:
            data = g.op("ReduceMean", data, [axis], keepdims=1, shape=_with_dim(data, axis, 1))
        else:
            data = _along(
                g,
                data,
                axis,
                count,
                lambda part, axis: g.op("ReduceMean", part, [axis], keepdims=1),
            )
    return data


@lowers("AdaptiveMaxPool")
def adaptive_max(
    g: Graph, op: AdaptiveMaxPool8, data: Tensor, output_shape: Tensor
) -> list[Tensor]:
    """Maxima of windows that are sliced one by one, and their places."""
    counts = numbers(g, output_shape, "output_shape")
    if 0 in counts:
        shape = g.concat([g.dims(data, 0, 2), counts])
        blanks = [g.number(0, data), *(g.constant(0, s.element_type) for s in g.outputs[1:])]
        return [g.op("Expand", blank, shape) for blank in blanks]
    values, places = _largest(g, data, counts)
    return [values, g.cast(places, op.index_element_type)]


def _means(g: Graph, data: Tensor, output_shape: Tensor) -> Tensor:
    """Means of as many windows as the model computes, one in each iteration of a Loop."""
    rank = g.rank(data)
    for axis, count in enumerate(each(g, output_shape, rank - 2), 2):
        (parts,) = repeated(g, g.scalar(vector(g, count)), [], _mean_of_window(data, axis, count))
        turned = g.transpose(parts, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
        # Of no windows the Loop does not tell the other sizes.
        shape = [g.dims(data, 0, axis), vector(g, count), g.dims(data, axis + 1, rank)]
        data = g.reshape(turned, g.concat(shape), [None] * rank)
    return data


def _mean_of_window(data: Tensor, axis: int, count: Size) -> Step:
    def step(g: Graph, i: Tensor, values: Sequence[Tensor]) -> Parts:
        cells, windows, here = dimension(g, data, axis), vector(g, count), g.unsqueeze(i, [0])
        start = g.op("Div", g.op("Mul", here, vector(g, cells)), windows)
        past = g.op("Mul", g.op("Add", here, [1]), vector(g, cells))
        end = g.op("Div", g.op("Add", past, g.op("Sub", windows, [1])), windows)
        return [], [g.op("ReduceMean", g.op("Slice", data, start, end, [axis]), [axis], keepdims=0)]

    return step


def _with_dim(data: Tensor, axis: int, size: int) -> list[int | None]:
    return [size if i == axis else d.static_size for i, d in enumerate(data.shape)]


def _bound(g: Graph, data: Tensor, axis: int, numerator: int, count: int, up: bool) -> Tensor:
    """numerator * size / count, rounded down or up."""
    size = data.shape[axis].static_size
    if size is not None:
        return g.constant(
            np.array([-(-numerator * size // count) if up else numerator * size // count])
        )
    product = g.op("Mul", g.dim(data, axis), g.constant(np.array([numerator])))
    product = g.op("Add", product, g.constant(np.array([count - 1]))) if up else product
    return g.op("Div", product, g.constant(np.array([count])))


def _window(g: Graph, data: Tensor, axis: int, i: int, count: int) -> tuple[Tensor, Tensor]:
    """Window i of the axis, and where it begins."""
    start = _bound(g, data, axis, i, count, up=False)
    end = _bound(g, data, axis, i + 1, count, up=True)
    return g.op("Slice", data, start, end, [axis], shape=_with_dim(data, axis, -1)), start


def _along(
    g: Graph, data: Tensor, axis: int, count: int, function: Callable[[Tensor, int], Tensor]
) -> Tensor:
    parts = [function(_window(g, data, axis, i, count)[0], axis) for i in range(count)]
    return g.op("Concat", *parts, axis=axis, shape=_with_dim(data, axis, count))


def _largest(g: Graph, data: Tensor, counts: list[int]) -> tuple[Tensor, Tensor]:
    """The largest cell of each window, and its place in the flattened spatial axes: the first in
    row-major order.
    """
    values: list[Tensor] = []
    places: list[Tensor] = []
    rank = g.rank(data)
    for cell in np.ndindex(*counts):
        part, starts = data, []
        for axis, (i, count) in enumerate(zip(cell, counts, strict=True), 2):
            part, start = _window(g, part, axis, i, count)
            starts.append(start)
        flat = g.op("Reshape", part, [0, 0, -1])
        winner = g.op("ArgMax", flat, axis=2, keepdims=1)
        values.append(g.op("GatherElements", flat, winner, axis=2))
        places.append(_place(g, data, part, winner, starts, rank))
    shape = g.concat([g.dims(data, 0, 2), counts])
    joined = (g.op("Concat", *parts, axis=2) for parts in (values, places))
    largest, where = (g.op("Reshape", part, shape, shape=g.outputs[0].shape) for part in joined)
    return largest, where


def _place(
    g: Graph, data: Tensor, part: Tensor, winner: Tensor, starts: list[Tensor], rank: int
) -> Tensor:
    """A place in a window as a place in the flattened spatial axes."""
    place, stride, rest = None, None, winner
    for axis in range(rank - 1, 1, -1):
        width = g.op("Shape", part, start=axis, end=axis + 1, type=I64)
        local = g.op("Add", g.op("Mod", rest, width), starts[axis - 2])
        rest = g.op("Div", rest, width)
        term = local if stride is None else g.op("Mul", local, stride)
        place = term if place is None else g.op("Add", place, term)
        stride = g.dim(data, axis) if stride is None else g.op("Mul", stride, g.dim(data, axis))
    assert place is not None
    return place
