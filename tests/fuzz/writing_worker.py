"""Writes past the end of memory, to see that this is found. See `worker` for the protocol.

Each job is {"past": bytes}.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tests.fuzz.worker import serve


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    """Make an array, write behind it, and give it back."""
    array = np.zeros(4096, np.uint8)
    ctypes.memset(array.ctypes.data, 0, array.nbytes + job["past"])
    return {"outcome": "ran", "detail": ""}


if __name__ == "__main__":
    serve(attempt)
