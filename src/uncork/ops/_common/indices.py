"""Checks that operations with axes and indices share, with one wording of their errors."""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import Operation
from uncork.types import Array


def normalised_axis(operation: Operation, axis: int, rank: int, name: str = "axis") -> int:
    """An axis counted from the front; refused when it is outside [-rank, rank - 1]."""
    operation.require(-rank <= axis < rank, "{} {} is outside {}..{} for rank {}", name, axis, -rank, rank - 1, rank)
    return axis + rank if axis < 0 else axis


def normalised_axes(operation: Operation, axes: Array, rank: int, name: str = "axes", unique: bool = True) -> tuple[int, ...]:
    """Axes counted from the front, in the order given; refused when outside, or when one comes twice and `unique` asks for it."""
    normal = tuple(normalised_axis(operation, int(a), rank, name) for a in np.asarray(axes).reshape(-1))
    if unique:
        operation.require(len(set(normal)) == len(normal), "{} {} name an axis twice", name, [int(a) for a in np.asarray(axes).reshape(-1)])
    return normal


def refuse_first(operation: Operation, name: str, values: Array, wrong: Array, expected: str) -> None:
    """Refuse a call when any element of `wrong` is set, naming the first such position and its value."""
    if wrong.any():
        position = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        where = f"[{', '.join(map(str, position))}]" if position else ""
        operation.refuse("input '{}': {}{} is {}, expected {}", name, name, where, values[position], expected)
