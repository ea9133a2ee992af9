"""How many sums of products are held in registers: the rule by which inner loops choose tiles.

A tile is a grid of rows and vectors. It holds a sum for each of both, the vectors of the shorter
side, and one vector of the other side at a time.
"""

from __future__ import annotations

#: Of AMX the rows of a tile register, and the words of 32 bits that one holds of a row: pairs of
#: bf16, or four bytes.
AMX_ROWS, AMX_WORDS = 16, 16
#: Rows of the largest tile, but for those of `most_rows`.
_ROWS = (8, 4, 2, 1)
#: Rows of smaller tiles. What two tiles multiply is read twice, so three rows have one of their
#: own: 3 rows take 0.7 of the time, 7 and 11 rows 0.8 to 0.87. Tiles of 5, 6 and 7 rows would gain
#: a quarter for these; with them a kernel takes 1.65 times as long to compile.
_SMALLER = (8, 4, 3, 2, 1)
#: Registers for vectors where there are few.
FEW_REGISTERS = 16
#: The part of the registers that hold sums: fewer sums read the vectors of a panel, which the first
#: cache does not hold, too often.
_SUMS = 0.75


def fits(registers: int, rows: int, vectors: int, chains: int = 1) -> bool:
    """Whether so many registers hold a tile that has several sums in turn for each number."""
    return chains * rows * vectors + min(rows, vectors) + 1 <= registers


def holds_vectors(registers: int, rows: int, vectors: int, chains: int) -> bool:
    """Whether so many registers hold all vectors and one row at a time, beside the sums."""
    return (chains * rows + 1) * vectors + 1 <= registers


def most_sums(registers: int) -> int:
    """The sums of a tile of one vector, whose products read the other factor from memory."""
    return int(_SUMS * registers)


def most_rows(registers: int, vectors: int, most: int = _ROWS[0]) -> int:
    """The most rows, at most so many, of a tile of vectors: a power of two where that is enough
    sums, else as many as registers hold.
    """
    rows = next(n for n in _ROWS if n == 1 or (n <= most and fits(registers, n, vectors)))
    while (
        rows * vectors < most_sums(registers) and rows < most and fits(registers, rows + 1, vectors)
    ):
        rows += 1
    return rows


def rows_of_tiles(registers: int, vectors: int, most: int = _ROWS[0]) -> list[int]:
    """The rows of the largest tile, and of smaller ones for the rows that are left."""
    largest = most_rows(registers, vectors, most)
    return [largest, *(n for n in _SMALLER if n < largest)]


def rows_of_parts(registers: int, vectors: int, least: int = _ROWS[0]) -> int:
    """How many rows, or multiples of them, a part of a product may have: whole largest tiles, at
    least so many rows. A part begins with such tiles as the whole has there, so that every row has
    the bits that it has of one thread.
    """
    largest = most_rows(registers, vectors)
    return -(-least // largest) * largest


def chains_of(registers: int, rows: int, vectors: int, wanted: int) -> int:
    """Sums in turn for each number of a tile, `wanted` of them or as many as registers hold: a
    power of two.
    """
    while wanted > 1 and not fits(registers, rows, vectors, wanted):
        wanted //= 2
    return wanted
