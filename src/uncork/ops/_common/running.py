"""What has been put together so far, at each place along an axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from uncork.types import Array


def running(
    together: Callable[..., Array],
    first: int,
    data: Array,
    along: int,
    exclusive: bool,
    reverse: bool,
) -> Array:
    """np.cumsum or np.cumprod of the data in their own type. `exclusive`: without the element
    itself, so that `first` is what the first place has; `reverse`: from the end.
    """
    ordered = np.flip(data, along) if reverse else data
    result = together(ordered, along, data.dtype)
    if exclusive and data.shape[along]:
        result = np.roll(result, 1, along)
        np.moveaxis(result, along, 0)[0] = first
    return np.flip(result, along) if reverse else result
