"""Matrix products and sums of products."""

from __future__ import annotations

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import lowering
from uncork.types import ElementType

T = ElementType


@lowering("MatMul")
def _matmul(call: Call) -> Source:
    return call.graph.matmul(call[0], call[1])


@lowering("Gemm")
def _gemm(call: Call) -> Source:
    graph = call.graph
    ta, tb = bool(call.integer("transA")), bool(call.integer("transB"))
    product = scaled(graph, graph.matmul(call[0], call[1], ta=ta, tb=tb), call.number("alpha", 1.0))
    beta = call.number("beta", 1.0)
    if not call.has(2) or beta == 0:
        return product
    return graph.plus(product, scaled(graph, call[2], beta))


def scaled(graph: Graph, data: Source, factor: float) -> Source:
    """The data times a number; as they are when that is 1."""
    if factor == 1.0:
        return data
    kind = graph.type(data)
    if kind.is_integer:
        wide = graph.times(graph.convert(data, T.f64), factor)
        return graph.convert(wide, kind)
    return graph.times(data, factor)


@lowering("Einsum")
def _einsum(call: Call) -> Source:
    equation = call.text("equation").replace(" ", "")
    if "->" not in equation:
        letters = equation.replace(",", "").replace("...", "")
        single = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        equation = f"{equation}->{'...' if '...' in equation else ''}{single}"
    return call.graph.make("Einsum", *call.tensors, equation=equation)


@lowering("Det")
def _det(call: Call) -> Source:
    graph, data = call.graph, call[0]
    rank = graph.rank(data)
    size = graph.sizes(data)[-1] if rank >= 2 else None
    if size is None or not 1 <= size <= 4 or graph.sizes(data)[-2] != size:
        raise call.refuse(
            f"the determinant of matrices of shape {graph.spec(data).shape}",
            "it is computed for squares of 1 to 4 rows",
        )
    cells = [
        [graph.gather(graph.gather(data, i, rank - 2), j, rank - 2) for j in range(size)]
        for i in range(size)
    ]
    return _expanded(graph, cells)


def _expanded(graph: Graph, cells: list[list[Source]]) -> Source:
    """The determinant, expanded along the first row."""
    first, *rest = cells
    if not rest:
        return first[0]
    total: Source | None = None
    for j, cell in enumerate(first):
        minor = _expanded(graph, [row[:j] + row[j + 1 :] for row in rest])
        term = graph.times(cell, minor)
        if total is None:
            total = term
        else:
            total = graph.minus(total, term) if j % 2 else graph.plus(total, term)
    if total is None:
        raise ValidationError("expected a matrix")
    return total
