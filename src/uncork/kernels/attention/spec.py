"""What the kernels of attention are specialised for, their arguments, and how they divide their
working memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec

#: Queries and keys of a block: its scores stay in the second-level cache.
QUERIES, KEYS = 48, 512
#: Keys of a block where there are few queries.
FEW_KEYS = 256
#: Queries that the registers hold scores of.
ROWS = 6
#: Keys that an AMX tile holds the weights of.
TILE_KEYS = 32
_LINE = 64


def _strided(name: str, *axes: str) -> Iterator[str]:
    yield name
    for axis in axes:
        yield f"{name}_{axis}"


#: Addresses, each with the bytes from one batch, head of keys, head of a group, row and (of keys)
#: number of a head to the next. The mask of the first batch is that of the one behind so many
#: (`mask_batches`), too. Then the factor (its bits, or its address), the bits of the cap, those of
#: scores where a mask of truths does not hold, sizes, the first of the things to do and how many,
#: and working memory. The things are blocks of queries of one head, or all queries that share keys.
ARGUMENTS = (
    *_strided("query", "batch", "head", "member", "row"),
    *_strided("key", "batch", "head", "row", "number"), *_strided("value", "batch", "head", "row"),
    *_strided("output", "batch", "head", "member", "row"),
    *_strided("mask", "batch", "head", "member", "row"),
    *_strided("sink", "batch", "head", "member", "row"), "mask_batches", "scale", "cap", "hidden",
    "targets", "sources", "heads", "members", "first", "count", "scratch",
)  # fmt: skip


class Attention(KernelSpec, frozen=True):
    """The spec of a kernel of attention. Queries and keys have `size` numbers in a head, values
    `depth`.

    `vectors` of `lanes` keys, or columns of values, are computed at once. The mask's type is ""
    where there is none; it may be one number for all keys of a row (`row_mask`). `scaled`: the
    factor lies in memory. `capped`: a number times their tanh are the scores. `turned`: keys are
    neighbours, not the numbers of one. `pairs`: tensors of bf16 are multiplied as they are, two
    numbers at a time, and weights are rounded to bf16.
    In AMX `tiles` those are multiplied in blocks of 32 keys, the last ones with values of zeros.
    `kept`: the type of keys and values where it is another one; of u8 a step and a least number of
    f32 lie behind the codes of each row.
    """

    emitter: ClassVar[str] = "uncork.kernels.attention.emit:emit_attention"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    size: int
    depth: int
    lanes: int
    vectors: int
    element_type: str = "f32"
    mask: str = ""
    row_mask: bool = False
    sink: bool = False
    causal: bool = False
    scaled: bool = False
    capped: bool = False
    turned: bool = False
    pairs: bool = False
    kept: str = ""
    tiles: bool = False

    @property
    def rows(self) -> int:
        """Rows that are computed at once."""
        return ROWS

    @property
    def queries(self) -> int:
        """Rows of a block."""
        return QUERIES

    @property
    def keys(self) -> int:
        """Keys of a block."""
        return KEYS

    @property
    def panel(self) -> int:
        """Keys of a panel."""
        return self.lanes * self.vectors

    @property
    def width(self) -> int:
        """The numbers of a row of sums: whole vectors."""
        return -(-self.depth // self.lanes) * self.lanes

    @property
    def score_row(self) -> int:
        """Bytes from one row of scores to the next: no power of two, so that rows share no place in
        the cache.
        """
        return (self.keys + self.lanes) * 4

    @property
    def copies_queries(self) -> bool:
        """Whether the queries of a block are first copied as f32."""
        return self.element_type != "f32" and not self.pairs

    @property
    def copies_values(self) -> bool:
        """Whether the values are copied once for all queries, as f32 in rows of whole vectors, or
        as pairs of neighbouring keys.
        """
        return (self.kept or self.element_type) != "f32" or self.width != self.depth

    @property
    def packed_size(self) -> int:
        """Bytes of a number of packed keys and of copied values."""
        return 2 if self.pairs else 4

    @property
    def together(self) -> int:
        """Keys whose values are multiplied together, with those of no weight behind the last."""
        return TILE_KEYS if self.tiles else 2 if self.pairs else 1

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel of keys."""
        return self.panel * self.size * self.packed_size

    @property
    def fixed_offsets(self) -> dict[str, int]:
        """Where the parts of the working memory begin, in bytes. Behind what has one size lie the
        packed keys, and then copied values.
        """
        parts = {
            "state": 3 * self.queries * 4,
            "sums": self.queries * self.width * 4,
            "scores": self.queries * self.score_row,
            "queries": self.queries * self.size * 4 if self.copies_queries else 0,
        }
        found: dict[str, int] = {}
        begin = 0
        for name, size in parts.items():
            found[name] = begin
            begin += -(-size // _LINE) * _LINE
        return found | {"keys": begin}


class FewQueries(Attention, frozen=True):
    """Attention for few queries: keys and values are read as they lie, once for `query_rows`
    queries of a group.
    """

    emitter: ClassVar[str] = "uncork.kernels.attention.emit_few:emit_few_queries"
    query_rows: int = 1

    @property
    def rows(self) -> int:
        return self.query_rows

    @property
    def queries(self) -> int:
        return self.query_rows

    @property
    def keys(self) -> int:
        return FEW_KEYS

    @property
    def copies_values(self) -> bool:
        return False
