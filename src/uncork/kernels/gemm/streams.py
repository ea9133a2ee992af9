"""Whether panels of a product stay in the first cache."""

from __future__ import annotations

from uncork.kernels.gemm.spec_matmul import SINGLE
from uncork.symbolic import SizeLike

#: Bytes of a panel that the first cache keeps beside the rows that it multiplies.
_KEPT = 1 << 14


def streams(inner: SizeLike, width: int, size: int = SINGLE) -> bool:
    """Whether a panel of so many columns is larger than what the first cache keeps of it."""
    whole = inner * (width * size)
    return isinstance(whole, int) and whole > _KEPT
