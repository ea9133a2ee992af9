"""How many sums of products are held in registers: the rule by which all inner loops choose their
tiles.

A tile is a grid of rows and vectors. It holds a sum for each of both, the vectors of the shorter
side, and one vector of the other side at a time.
"""

from __future__ import annotations

#: Rows of tiles are powers of two.
_ROWS = (8, 4, 2, 1)


def fits(registers: int, rows: int, vectors: int, chains: int = 1) -> bool:
    """Whether so many registers hold a tile that has several sums in turn for each number."""
    return chains * rows * vectors + min(rows, vectors) + 1 <= registers


def most_rows(registers: int, vectors: int, most: int = _ROWS[0]) -> int:
    """The most rows, at most so many, of a tile of vectors."""
    return next(n for n in _ROWS if n == 1 or (n <= most and fits(registers, n, vectors)))


def rows_of_tiles(registers: int, vectors: int, most: int = _ROWS[0]) -> list[int]:
    """The rows of a tile and of smaller ones for what is left."""
    return [n for n in _ROWS if n <= most_rows(registers, vectors, most)]


def chains_of(registers: int, rows: int, vectors: int, wanted: int) -> int:
    """Sums in turn for each number of a tile, `wanted` of them or as many as registers hold: a
    power of two.
    """
    while wanted > 1 and not fits(registers, rows, vectors, wanted):
        wanted //= 2
    return wanted
