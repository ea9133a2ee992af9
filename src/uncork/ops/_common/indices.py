"""Checks that operations with axes and indices share, with one wording of their errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from uncork.ops._operation import Operation
from uncork.types import Array


def normalised_axis(operation: Operation, axis: int, rank: int, name: str = "axis") -> int:
    """An axis counted from the front; refused when it is outside [-rank, rank - 1]."""
    operation.require(
        -rank <= axis < rank,
        "{} {} is outside {}..{} for rank {}",
        name,
        axis,
        -rank,
        rank - 1,
        rank,
    )
    return axis + rank if axis < 0 else axis


def normalised_axes(
    operation: Operation, axes: Array, rank: int, name: str = "axes"
) -> tuple[int, ...]:
    """Axes counted from the front, in the order given; refused when outside, or when one comes
    twice.
    """
    normal = tuple(
        normalised_axis(operation, int(a), rank, name) for a in np.asarray(axes).reshape(-1)
    )
    operation.require(
        len(set(normal)) == len(normal),
        "{} {} name an axis twice",
        name,
        [int(a) for a in np.asarray(axes).reshape(-1)],
    )
    return normal


def refuse_first(
    operation: Operation,
    name: str,
    values: Array,
    wrong: Array,
    expected: str,
    low: int | None = None,
    high: int | None = None,
) -> None:
    """Refuse a call when any element of `wrong` is set, naming the first such position and its
    value.

    `low` and `high` are the least and the greatest value that is allowed, where there are such.
    """
    if wrong.any():
        position = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        where = f"[{', '.join(map(str, position))}]" if position else ""
        value = values[position]
        known = {
            "input": name,
            "position": position,
            "value": _plain(value),
            "low": low,
            "high": high,
        }
        operation.refuse(
            "input '{}': {}{} is {}, expected {}", name, name, where, value, expected, **known
        )


def _plain(value: Any) -> Any:
    """An array's value as a Python number; a float as the shortest number that rounds to it."""
    if isinstance(value, np.floating):
        return float(str(value))
    return value.item() if isinstance(value, np.generic) else value
