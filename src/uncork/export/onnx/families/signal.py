"""DFT and IDFT by ONNX's DFT along one axis after the other."""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.families.shapes import numbers
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.export.onnx.sizes import Size, each
from uncork.ops._operation import Operation
from uncork.types import ElementType


@lowers("DFT", "IDFT")
def dft(g: Graph, op: Operation, data: Tensor, axes: Tensor, signal_size: Tensor | None) -> Tensor:
    """ONNX's DFT along each axis, counted without the dimension of the pairs; in f64, as
    onnxruntime's transforms of sizes that are no power of two lose digits in f32.
    """
    rank = g.rank(data) - 1
    places = [a % rank for a in numbers(g, axes, "axes")]
    sizes = [-1] * len(places) if signal_size is None else each(g, signal_size, len(places))
    result = g.cast(data, ElementType.f64)
    for axis, size in zip(places, sizes, strict=True):
        length = None if size == -1 else _length(g, result, axis, size)
        along, inverse = g.constant(np.array(axis, np.int64)), int(op.type_name == "IDFT")
        result = g.op("DFT", result, length, along, inverse=inverse)
    return g.cast(result, data.type)


def _length(g: Graph, data: Tensor, axis: int, size: Size) -> Tensor:
    """How long an axis is made, of which -1 keeps the length."""
    if isinstance(size, int):
        return g.constant(np.array(size, np.int64))
    keeps = g.op("Equal", size, g.constant(-1, I64))
    return g.scalar(g.op("Where", keeps, g.dim(data, axis), size, shape=[1]))
