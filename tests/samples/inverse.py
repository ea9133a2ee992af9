"""Inverse-14. Worked by hand; the loop eliminates in fractions, which are exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays, shapes
from tests.samples._elementwise import numbers, of_type
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.inverse import Inverse
from uncork.types import ElementType

A = np.array([[1, 2], [3, 4]], np.float32)
INVERSE = np.array([[-2, 1], [1.5, -0.5]], np.float32)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    side = draw(st.integers(0, 3))
    data, name = draw(arrays((*draw(shapes(max_rank=2, max_side=2)), side, side), FLOATS, -1, 1))
    # With a diagonal of 4 over rows of at most 3 no matrix is near a singular one.
    element_type = ElementType.parse(name)
    strong = storage.decode(data, element_type).astype(np.float64)
    strong[..., range(side), range(side)] = 4
    return Case([storage.encode(strong, element_type)], {"adjoint": draw(st.booleans())}, [name])


def inverted(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """Gauss and Jordan."""
    n = len(rows)
    table = [row + [Fraction(i == j) for j in range(n)] for i, row in enumerate(rows)]
    for c in range(n):
        pivot = next(r for r in range(c, n) if table[r][c])
        table[c], table[pivot] = table[pivot], table[c]
        table[c] = [v / table[c][c] for v in table[c]]
        for r in range(n):
            if r != c:
                table[r] = [v - table[r][c] * w for v, w in zip(table[r], table[c], strict=True)]
    return [row[n:] for row in table]


def loop(case: Case) -> list[np.ndarray]:
    data = numbers(case.inputs[0], case.types[0])
    n = data.shape[-1]
    values = []
    for place in np.ndindex(*data.shape[:-2]):
        result = inverted([[Fraction(data[(*place, i, j)]) for j in range(n)] for i in range(n)])
        turned = case.attributes.get("adjoint", False)
        values += [
            float(result[j][i] if turned else result[i][j]) for i in range(n) for j in range(n)
        ]
    return [of_type(values, data.shape, case.types[0])]


SAMPLES = [
    Samples(
        Inverse,
        [
            Sample("one matrix", [A], [INVERSE]),
            Sample("adjoint: transposed", [A], [INVERSE.T], {"adjoint": True}),
            Sample("a batch", [np.stack([A, 2 * A])], [np.stack([INVERSE, INVERSE / 2])]),
            Sample(
                "rows must be swapped",
                [np.array([[0, 1], [2, 0]], np.float32)],
                [np.array([[0, 0.5], [1, 0]], np.float32)],
            ),
            Sample(
                "f64",
                [A.astype(np.float64) / 3],
                [INVERSE.astype(np.float64) * 3],
                rtol=1e-14,
                atol=0,
            ),
            Sample("an empty batch", [A[None][:0]], [A[None][:0]]),
        ],
        [
            Refusal("no square", [A[:1]], r"'data': expected square matrices, got shape \[1,2\]"),
            Refusal(
                "one dimension", [A[0]], r"'data': expected at least 2 dimensions, got shape \[2\]"
            ),
            Refusal("singular", [np.ones((2, 2))], "input 'data': the matrix is singular"),
            Refusal(
                "singular in a batch",
                [np.stack([A, 0 * A])],
                r"input 'data': the matrix at \[1\] is singular",
            ),
            Refusal(
                "integers",
                [np.eye(2, dtype=np.int64)],
                r"'data' \(port 0\): expected a floating-point type .* got i64",
            ),
        ],
        cases(),
        loop,
        rtol=1e-4,
    )
]
