"""The working memory of a sequence's kernel, and how many steps' products with X it makes at once.
Sizes may be open.
"""

from __future__ import annotations

import math

from uncork.kernels.extents import largest, smallest
from uncork.kernels.recurrent.spec import TILE_SCRATCH, Recurrent
from uncork.kernels.register_tiles import most_rows
from uncork.symbolic import SizeLike

#: The products with X that are made ahead take at least and at most this many bytes. Between them
#: they take as many as W, which is read once for all of them: more leave the second cache before
#: their steps (from 640 KB to 192 KB batches of 50 and 100 take 0.94 of the time).
_LEAST_AHEAD, _MOST_AHEAD = 128 << 10, 640 << 10
#: Bytes of the states of a pass that stay in the first cache beside a panel.
_STATES = 16 << 10
#: Bytes of R that stay in the second cache from step to step.
_REREAD = 1 << 20


def rows_of_pass(spec: Recurrent, registers: int, hidden: int) -> int:
    """Rows that go through all steps before the others begin: whole blocks of them, whose states
    stay in the first cache; 0, which is all of them, where R is too large to be read again for each
    pass.
    """
    vectors = {2 if spec.cell == "rnn" else spec.gates, 2 if spec.cell == "gru" else spec.gates}
    block = math.lcm(*(most_rows(registers, n) for n in vectors))
    if spec.gates * hidden * hidden * spec.size > _REREAD:
        return 0
    return max(1, _STATES // (spec.padded(hidden) * spec.size * block)) * block


def most_of_pass(batch: SizeLike, rows: int) -> SizeLike:
    """The most rows that a pass of a batch has: see `Frame.most_rows`."""
    return smallest(batch, rows + rows // 2) if rows else batch


def ahead_steps(
    spec: Recurrent, batch: SizeLike, steps: SizeLike, inputs: int, hidden: int
) -> SizeLike:
    """Time steps of so many rows whose products with X are made at once."""
    row = spec.padded(hidden) * spec.gates * spec.size
    room = max(_LEAST_AHEAD, min(_MOST_AHEAD, inputs * row))
    return largest(1, smallest(steps, room // largest(1, batch * row)))


def workspace(
    spec: Recurrent, batch: SizeLike, most: SizeLike, steps: SizeLike, inputs: int, hidden: int
) -> SizeLike:
    """Bytes of room for the order of rows, their states, the products with X, and tables of
    addresses; with bf16 also for factors. A pass has `most` of the rows.
    """
    row = spec.padded(hidden) * spec.size
    ahead = ahead_steps(spec, most, steps, inputs, hidden)
    tiles = TILE_SCRATCH if spec.tiles else 0
    more = 16 if spec.tiles else 0  # a tile may reach past the last row
    factors = (
        3 * (batch + more) * row // 2
        + (ahead * most + more) * -(-inputs // spec.block) * spec.block * 2
    )
    aligned = 18 * 64
    return (
        aligned
        + tiles
        + 8 * (steps + 2 + 5 * batch)
        + 4 * batch * row
        + ahead * most * (row * spec.gates + 8)
        + spec.parts * factors
    )
