"""The shape of a matrix product: rows, inner sizes, columns, and which matrices meet in which
batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as combinations

from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.extents import certainly, decline_if, is_empty, is_known, product, same
from uncork.ops.matmul import MatMul
from uncork.symbolic import SizeLike

#: Batches that stretch differently from dimension to dimension are calls of their own: at most so
#: many.
_MOST_RUNS = 64


class Group(Struct, frozen=True):
    """Batches that lie evenly: how many, and whether either operand has one matrix for all."""

    count: SizeLike
    one_first: bool
    one_second: bool


#: No batches.
_ONE = Group(1, False, False)


class Run(Struct, frozen=True):
    """The matrices that a run of batches begins with, of each operand and of the result."""

    first: SizeLike
    second: SizeLike
    result: SizeLike


class MatMulShape(Struct, frozen=True):
    """The shape of a product of `first [.., rows, inner]` (or transposed) and `second [.., inner,
    columns]` (or transposed).

    Each of the `runs` has `batches` for each of those of `outer`.
    """

    rows: SizeLike
    inner: SizeLike
    columns: SizeLike
    turned_first: bool
    turned_second: bool
    #: Matrices of the first operand.
    firsts: SizeLike
    batches: Group
    outer: Group
    runs: Sequence[Run]

    @property
    def is_one_product(self) -> bool:
        """Whether there is one matrix of either operand."""
        return (
            certainly(self.batches.count, 1)
            and certainly(self.outer.count, 1)
            and len(self.runs) == 1
        )

    @property
    def is_column(self) -> bool:
        """Whether each of several rows of the first matrix has one result."""
        return certainly(self.columns, 1) and not certainly(self.rows, 1)

    def as_row(self) -> MatMulShape:
        """The same product of a column as one of a row, of the operands in the other order."""
        batches, outer = (
            replace(group, one_first=group.one_second, one_second=group.one_first)
            for group in (self.batches, self.outer)
        )
        return replace(
            self,
            rows=1,
            columns=self.rows,
            turned_first=False,
            turned_second=not self.turned_first,
            batches=batches,
            outer=outer,
            runs=[replace(run, first=run.second, second=run.first) for run in self.runs],
        )

    @property
    def products(self) -> SizeLike:
        """How many pairs of matrices are multiplied."""
        return len(self.runs) * self.outer.count * self.batches.count


def matmul_shape(
    matmul: MatMul, left: Sequence[SizeLike], right: Sequence[SizeLike]
) -> MatMulShape:
    """The product of tensors of these sizes. Raises KernelDeclined where there is nothing to
    multiply, or no kernel can tell how batches meet.
    """
    decline_if(is_empty((*left, *right)), "no kernel for empty matrices")
    turned_first, turned_second = (
        matmul.transpose_a and len(left) > 1,
        matmul.transpose_b and len(right) > 1,
    )
    first, second = (
        ([1, *left] if len(left) == 1 else list(left)),
        ([*right, 1] if len(right) == 1 else list(right)),
    )
    rows, inner = first[-2:][::-1] if turned_first else first[-2:]
    columns = second[-2] if turned_second else second[-1]
    # A single row lies as a single column does: it is the one along which neighbours lie.
    turned_first = turned_first and not certainly(rows, 1) and not certainly(inner, 1)
    turned_second = (turned_second and not certainly(inner, 1)) or certainly(columns, 1)
    count = max(len(first), len(second)) - 2
    batch_first: list[SizeLike] = [*[1] * (count - len(first) + 2), *first[:-2]]
    batch_second: list[SizeLike] = [*[1] * (count - len(second) + 2), *second[:-2]]
    firsts = product(batch_first)
    if not turned_first and all(
        certainly(size, 1) for size in batch_second
    ):  # one matrix for all batches: they are rows of one product
        one = [Run(0, 0, 0)]
        return MatMulShape(rows * firsts, inner, columns, False, turned_second, 1, _ONE, _ONE, one)
    rest, batches = _last_group(batch_first, batch_second, count)
    rest, outer = _last_group(batch_first, batch_second, rest)
    decline_if(
        not all(map(is_known, (*batch_first[:rest], *batch_second[:rest]))),
        "no kernel for batches that stretch by sizes of the call",
    )
    places = list(_places(batch_first[:rest], batch_second[:rest]))
    decline_if(len(places) > _MOST_RUNS, "no kernel for that many batches that stretch")
    each_first, each_second = product(batch_first[rest:]), product(batch_second[rest:])
    each = outer.count * batches.count
    runs = [Run(a * each_first, b * each_second, n * each) for n, (a, b) in enumerate(places)]
    return MatMulShape(
        rows, inner, columns, turned_first, turned_second, firsts, batches, outer, runs
    )


def _last_group(
    first: Sequence[SizeLike], second: Sequence[SizeLike], end: int
) -> tuple[int, Group]:
    """The most batches before dimension `end` that lie evenly, and the dimension they begin at."""
    begin = next(n for n in range(end + 1) if _evenly(first[n:end], second[n:end]))
    of_first, of_second = first[begin:end], second[begin:end]
    one_first, one_second = (
        all(certainly(size, 1) for size in sizes) for sizes in (of_first, of_second)
    )
    return begin, Group(product(of_second if one_first else of_first), one_first, one_second)


def _evenly(first: Sequence[SizeLike], second: Sequence[SizeLike]) -> bool:
    """Whether all batches of both are the same, or there is one of either."""
    return all(map(same, first, second)) or any(
        all(certainly(size, 1) for size in sizes) for sizes in (first, second)
    )


def _places(first: Sequence[SizeLike], second: Sequence[SizeLike]) -> Iterator[tuple[int, int]]:
    """The numbers of the matrices of both operands that meet, in the order of the result; a size of
    1 stretches.
    """
    sizes = [
        (int(a), int(b))
        for a, b in zip(first, second, strict=True)
        if isinstance(a, int) and isinstance(b, int)
    ]
    for indices in combinations(*(range(max(pair)) for pair in sizes)):
        one = other = 0
        for index, (a, b) in zip(indices, sizes, strict=True):
            one, other = one * a + index % a, other * b + index % b
        yield one, other
