"""Selection of the kernel that looks up a sparse matrix of ids, as feature columns give them."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.internal_ops.sparse_lookup import SparseLookup
from uncork.kernels.embedding.spec_sparse import Lookup
from uncork.kernels.extents import (
    extents,
    has_extents,
    is_empty,
    largest,
    nanoseconds,
    product,
    same,
)
from uncork.kernels.kernel_plan import In, KernelPlan, Operand, Out, Selection
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import selects
from uncork.ops import Operation
from uncork.symbolic import SizeLike
from uncork.types import ElementType, TensorSpec

#: Wider tables are left to the layers one by one.
_WIDEST = 1024


@selects(SparseLookup)
def select_lookup(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec],
    target: Target,
) -> Selection:
    assert isinstance(operation, SparseLookup)
    table, values, indices, _ = inputs
    assert table is not None and values is not None and indices is not None
    if table.element_type is not ElementType.f32:
        return f"no kernel for {table.element_type}"
    if not has_extents(outputs[0]) or not has_extents(table):
        return "how many rows there are is known at the call only"
    rows, columns = extents(outputs[0])
    if not isinstance(columns, int) or is_empty((rows, columns)) or columns > _WIDEST:
        return "no kernel for empty and very wide results"
    if (
        values.shape[0].is_static
        and indices.shape[0].is_static
        and values.shape[0] != indices.shape[0]
    ):
        return "no kernel for more indices than values, or fewer"
    spec = Lookup(
        columns,
        values.element_type.name,
        indices.element_type.name,
        operation.pick is not None,
        operation.mean,
        target.lanes,
    )
    operands: list[Operand] = [
        *(In(i) for i in range(4)),
        Out(0),
        extents(values)[0],
        _with_places(rows, values, indices),
        extents(table)[0],
    ]
    return KernelPlan(
        spec.name,
        [(spec, operands)],
        cost=nanoseconds(product(extents(values)), 3 + columns / target.lanes),
    )


def _with_places(rows: SizeLike, values: TensorSpec, indices: TensorSpec) -> SizeLike:
    """The number of rows; where the call has fewer places than values another one, which makes the
    kernel give up.
    """
    many, places = extents(values)[0], extents(indices)[0]
    if same(many, places):
        return rows
    return rows - largest(0, many - places)
