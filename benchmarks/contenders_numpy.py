"""NumPy's contenders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.arrays import aligned
from benchmarks.timing import Contender
from uncork.types import Array


def _array(result: Any) -> list[Array]:
    return [result]


def bags(table: Array, indices: Sequence[Array], offsets: Sequence[Array]) -> list[Contender]:
    """Rows taken, then summed by `add.reduceat`; no bag may be empty."""
    return [
        Contender(
            "numpy reduceat",
            "numpy",
            "direct",
            lambda i: np.add.reduceat(table.take(indices[i], 0), offsets[i]),
            _array,
        )
    ]


def gather(data: Array, indices: Sequence[Array], axis: int) -> list[Contender]:
    """`take`, with a new result and, without its check of the indices, into an array."""
    result = aligned((*data.shape[:axis], *indices[0].shape, *data.shape[axis + 1 :]), data.dtype)
    return [
        Contender("numpy take", "numpy", "direct", lambda i: data.take(indices[i], axis), _array),
        Contender(
            "numpy take, clip",
            "numpy",
            "preset",
            lambda i: data.take(indices[i], axis, result, "clip"),
            _array,
        ),
        Contender(
            "numpy.take", "numpy", "call", lambda i: np.take(data, indices[i], axis=axis), _array
        ),
    ]
