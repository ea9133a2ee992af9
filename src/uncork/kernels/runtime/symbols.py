"""What the symbols of a recorded plan are in this process: see `addresses`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from uncork.kernels.runtime import cpython_entry, target, thread_pool


def symbol_address(name: str) -> int:
    """The address in this process of what a recorded symbol stands for. Raises KeyError for a name
    that this version does not know.
    """
    if name.startswith("dtype:"):
        return id(np.dtype(np.dtype(name[6:]).char))
    if name.startswith("Py"):
        return cpython_entry.python_function(name)
    known: dict[str, Callable[[], int]] = {
        "ndarray": lambda: id(np.ndarray),
        "None": lambda: id(None),
        "sched_yield": target.release_gil,
        "pool": thread_pool.pool_address,
    }
    return known[name]()
