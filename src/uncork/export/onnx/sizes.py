"""Sizes: numbers where they are known, else vectors of one element that nodes compute."""

from __future__ import annotations

from typing import Union

import numpy as np

from uncork.export.onnx.graph import I64, Graph, Tensor

Size = Union[int, Tensor]


def dimension(g: Graph, tensor: Tensor, axis: int) -> Size:
    """A dimension of a tensor."""
    g.rank(tensor)
    known = tensor.shape[axis].static_size
    return g.dim(tensor, axis) if known is None else known


def each(g: Graph, tensor: Tensor, count: int) -> list[Size]:
    """The elements of a vector, or of a scalar."""
    known = tensor.known()
    if known is not None:
        return list(known)
    wide = g.vector(tensor)
    return [wide] if count == 1 else [g.slice(wide, i, i + 1, 0) for i in range(count)]


def vector(g: Graph, number: Size) -> Tensor:
    """A size as a vector of one element."""
    return g.constant(np.array([number], np.int64)) if isinstance(number, int) else number


def counted(g: Graph, number: Size) -> Tensor:
    """The numbers from 0 up to a size, without it."""
    if isinstance(number, int):
        return g.constant(np.arange(number, dtype=np.int64))
    return g.op("Range", g.constant(0, I64), g.scalar(number), g.constant(1, I64))
