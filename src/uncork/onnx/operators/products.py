"""Matrix products and sums of products."""

from __future__ import annotations

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import lowering
from uncork.types import ElementType

T = ElementType


@lowering("Gemm")
def _gemm(g: Graph, call: Call, a: Source, b: Source, c: Source | None = None) -> Source:
    ta, tb = bool(call.integer("transA")), bool(call.integer("transB"))
    product = scaled(g, g.matmul(a, b, ta=ta, tb=tb), call.number("alpha", 1.0))
    beta = call.number("beta", 1.0)
    if c is None or beta == 0:
        return product
    return g.plus(product, scaled(g, c, beta))


def scaled(g: Graph, data: Source, factor: float) -> Source:
    """The data times a number; as they are when that is 1."""
    if factor == 1.0:
        return data
    kind = g.type(data)
    if kind.is_integer:
        wide = g.times(g.convert(data, T.f64), factor)
        return g.convert(wide, kind)
    return g.times(data, factor)


@lowering("Einsum")
def _einsum(g: Graph, call: Call) -> Source:
    equation = call.text("equation").replace(" ", "")
    if "->" not in equation:
        letters = equation.replace(",", "").replace("...", "")
        single = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        equation = f"{equation}->{'...' if '...' in equation else ''}{single}"
    return g.make("Einsum", *call.tensors, equation=equation)


@lowering("Det")
def _det(g: Graph, call: Call, data: Source) -> Source:
    rank = g.rank(data)
    size = g.sizes(data)[-1] if rank >= 2 else None
    if size is None or not 1 <= size <= 4 or g.sizes(data)[-2] != size:
        raise call.refuse(
            f"the determinant of matrices of shape {g.spec(data).shape}",
            "it is computed for squares of 1 to 4 rows",
        )
    cells = [
        [g.gather(g.gather(data, i, rank - 2), j, rank - 2) for j in range(size)]
        for i in range(size)
    ]
    return _expanded(g, cells)


def _expanded(g: Graph, cells: list[list[Source]]) -> Source:
    """The determinant, expanded along the first row."""
    first, *rest = cells
    if not rest:
        return first[0]
    total: Source | None = None
    for j, cell in enumerate(first):
        minor = _expanded(g, [row[:j] + row[j + 1 :] for row in rest])
        term = g.times(cell, minor)
        if total is None:
            total = term
        else:
            total = g.minus(total, term) if j % 2 else g.plus(total, term)
    if total is None:
        raise ValidationError("expected a matrix")
    return total
