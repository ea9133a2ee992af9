"""Complex numbers as pairs in a last dimension of 2."""

from __future__ import annotations

import numpy as np

from uncork.types import Array


def complex_of(pairs: Array) -> Array:
    """The numbers as NumPy's complex ones. A sum of the parts would multiply by i: an infinite part
    would make the other NaN.
    """
    kind = np.complex128 if pairs.dtype == np.float64 else np.complex64
    made = np.empty(pairs.shape[:-1], kind)
    made.real, made.imag = pairs[..., 0], pairs[..., 1]
    return made
