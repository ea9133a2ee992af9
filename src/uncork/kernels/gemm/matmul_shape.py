"""The shape of a matrix product: rows, inner sizes, columns, and which matrices meet in which
batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product as combinations

from uncork.kernels.extents import certainly, is_known, product, same
from uncork.ops.matmul import MatMul
from uncork.symbolic import SizeLike

#: Batches that stretch differently from dimension to dimension are calls of their own: at most so
#: many.
_MOST_RUNS = 64


@dataclass(frozen=True)
class Run:
    """Batches that lie evenly: the first matrix of each operand and of the result, and whether
    either is one for all of them.
    """

    first: SizeLike
    second: SizeLike
    result: SizeLike
    one_first: bool
    one_second: bool


@dataclass(frozen=True)
class MatMulShape:
    """`first [.., rows, inner]` (or transposed), `second [.., inner, columns]` (or transposed);
    `batches` of each of the `runs`.
    """

    rows: SizeLike
    inner: SizeLike
    columns: SizeLike
    turned_first: bool
    turned_second: bool
    #: Matrices of the first operand.
    firsts: SizeLike
    batches: SizeLike
    runs: Sequence[Run]


def matmul_shape(
    matmul: MatMul, left: Sequence[SizeLike], right: Sequence[SizeLike]
) -> MatMulShape | str:
    """The product of tensors of these sizes; or why no kernel can tell how its batches meet."""
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
    count = max(len(first), len(second)) - 2
    batch_first: list[SizeLike] = [*[1] * (count - len(first) + 2), *first[:-2]]
    batch_second: list[SizeLike] = [*[1] * (count - len(second) + 2), *second[:-2]]
    firsts = product(batch_first)
    if not turned_first and all(
        certainly(size, 1) for size in batch_second
    ):  # one matrix for all batches: they are rows of one product
        return MatMulShape(
            rows * firsts, inner, columns, False, turned_second, 1, 1, [Run(0, 0, 0, False, False)]
        )
    outer = next(n for n in range(count + 1) if _evenly(batch_first[n:], batch_second[n:]))
    if not all(map(is_known, (*batch_first[:outer], *batch_second[:outer]))):
        return "no kernel for batches that stretch by sizes of the call"
    of_first, of_second = batch_first[outer:], batch_second[outer:]
    one_first, one_second = (
        all(certainly(size, 1) for size in sizes) for sizes in (of_first, of_second)
    )
    batches = product(of_second if one_first else of_first)
    places = list(_places(batch_first[:outer], batch_second[:outer]))
    if len(places) > _MOST_RUNS:
        return "no kernel for that many batches that stretch"
    runs = [
        Run(a * product(of_first), b * product(of_second), number * batches, one_first, one_second)
        for number, (a, b) in enumerate(places)
    ]
    return MatMulShape(rows, inner, columns, turned_first, turned_second, firsts, batches, runs)


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
        (int(a), int(b)) for a, b in zip(first, second) if isinstance(a, int) and isinstance(b, int)
    ]
    for indices in combinations(*(range(max(pair)) for pair in sizes)):
        one = other = 0
        for index, (a, b) in zip(indices, sizes):
            one, other = one * a + index % a, other * b + index % b
        yield one, other
