"""Winograd's convolutions F(m, 3): the matrices that transform data, filters and results, from
points by Toom and Cook.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from uncork.types import Array

#: By the pixels of a tile's side: 0, then pairs of opposite points; infinity is the last. These
#: keep the error of f32 low.
_POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2), Fraction(-3, 2)),
}
#: Taps of a side.
TAPS = 3
Matrix = tuple[tuple[float, ...], ...]


@cache
def transforms(m: int) -> tuple[Matrix, Matrix, Matrix]:
    """(A^T [m, n], G [n, 3], B^T [n, n]) with n = m + 2: the result is A^T ((G w G^T) * (B^T d B))
    A.
    """
    points = _POINTS[m]
    norms = [_product([p - q for q in points if q != p]) for p in points]
    results = [[*(p**i for p in points), Fraction(int(i == m - 1))] for i in range(m)]
    filters = [
        [p**i / norm for i in range(TAPS)] for p, norm in zip(points, norms, strict=True)
    ] + [[Fraction(0), Fraction(0), Fraction(1)]]
    data = [[*_polynomial([q for q in points if q != p]), Fraction(0)] for p in points] + [
        _polynomial(points)
    ]
    return _floats(results), _floats(filters), _floats(data)


class Transformation:
    """The transformation of some filters at a time, by working memory that is used again."""

    def __init__(self, m: int, outputs: int, channels: int) -> None:
        """`outputs` and `channels` that are transformed at a time."""
        by = np.array(transforms(m)[1])
        self._both_sides = np.kron(by, by)  # as one product
        self._taps = np.empty((TAPS * TAPS, channels, outputs))
        self._transformed = np.empty((len(self._both_sides), channels, outputs))

    def __call__(self, filters: Array) -> Array:
        """`filters [O, C, 3, 3]` as `[n * n, C, O]`, computed and given in f64, until the next
        call.
        """
        self._taps[...] = filters.reshape(*filters.shape[:2], -1).transpose(2, 1, 0)
        np.matmul(
            self._both_sides,
            self._taps.reshape(TAPS * TAPS, -1),
            out=self._transformed.reshape(len(self._transformed), -1),
        )
        return self._transformed


def _product(factors: list[Fraction]) -> Fraction:
    result = Fraction(1)
    for factor in factors:
        result *= factor
    return result


def _polynomial(roots: tuple[Fraction, ...] | list[Fraction]) -> list[Fraction]:
    """The coefficients, constant first, of the product of (x - root)."""
    result = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *result], [*(-root * c for c in result), Fraction(0)]
        result = [a + b for a, b in zip(shifted, scaled, strict=True)]
    return result


def _floats(rows: list[list[Fraction]]) -> Matrix:
    return tuple(tuple(map(float, row)) for row in rows)
