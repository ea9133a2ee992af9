"""The working memory of a sequence's kernel, and how many steps' products with X it makes at once.
Sizes may be open.
"""

from __future__ import annotations

from uncork.kernels.extents import largest, smallest
from uncork.kernels.recurrent.spec import TILE_SCRATCH, Recurrent
from uncork.symbolic import SizeLike

#: The products with X that are made ahead take at most this many bytes.
_AHEAD_BYTES = 640 << 10


def ahead_steps(spec: Recurrent, batch: SizeLike, steps: SizeLike, hidden: int) -> SizeLike:
    """Time steps whose products with X are made at once."""
    row = spec.padded(hidden) * spec.gates * spec.size
    rows = largest(1, batch * row)
    return largest(1, smallest(steps, _AHEAD_BYTES // rows))


def workspace(
    spec: Recurrent, batch: SizeLike, steps: SizeLike, inputs: int, hidden: int
) -> SizeLike:
    """Bytes of room for the order of rows, their states, the products with X, and tables of
    addresses; with bf16 also for factors.
    """
    row = spec.padded(hidden) * spec.size
    ahead = ahead_steps(spec, batch, steps, hidden)
    tiles = TILE_SCRATCH if spec.tiles else 0
    more = 16 if spec.tiles else 0  # a tile may reach past the last row
    factors = (
        3 * (batch + more) * row // 2
        + (ahead * batch + more) * -(-inputs // spec.block) * spec.block * 2
    )
    aligned = 18 * 64
    return (
        aligned
        + tiles
        + 8 * (steps + 2 + 5 * batch)
        + 4 * batch * row
        + ahead * batch * (row * spec.gates + 8)
        + spec.parts * factors
    )
