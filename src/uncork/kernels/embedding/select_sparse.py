"""Which kernel looks up a sparse matrix of ids: the entries of a row after each other, as feature columns give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uncork.internal_ops.sparse_lookup import SparseLookup
from uncork.kernels.names import flags
from uncork.kernels.runtime.kernel_cache import STORE, lanes
from uncork.kernels.select import Choice, In, Length, Native, Operand, Out, chooses, takes_any_length
from uncork.ops import Operation
from uncork.types import ElementType, TensorSpec

#: Wider tables are left to the layers one by one.
_WIDEST = 1024


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a kernel is specialised for: columns of the table, types of the ids and of their places."""

    columns: int
    values: str
    indices: str
    filtered: bool
    mean: bool
    lanes: int

    @property
    def name(self) -> str:
        return f"sparse_lookup_{self.columns}x{self.lanes}_{self.values}_{self.indices}" + flags(self, "filtered", "mean")


ARGUMENTS = ("table", "values", "indices", "dense_shape", "output", "count", "rows", "entries")


def _lookup(spec: Lookup) -> int:
    def make() -> str:
        from uncork.kernels.embedding.emit_sparse import emit_lookup

        return emit_lookup(spec)

    return STORE.function(spec.name, repr(spec), make)


@chooses(SparseLookup)
def choose_lookup(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    assert isinstance(operation, SparseLookup)
    table, values, indices, _ = inputs
    assert table is not None and values is not None and indices is not None
    if table.element_type is not ElementType.f32:
        return f"no kernel for {table.element_type}"
    if not outputs[0].shape.is_static or not table.shape.is_static:
        return "how many rows there are is known at the call only"
    rows, columns = outputs[0].shape.static
    if not rows or not columns or columns > _WIDEST:
        return "no kernel for empty and very wide results"
    if values.shape[0].is_static and indices.shape[0].is_static and values.shape[0] != indices.shape[0]:
        return "no kernel for more indices than values, or fewer"
    spec = Lookup(columns, values.element_type.name, indices.element_type.name, operation.pick is not None, operation.mean, lanes())
    words: list[Operand] = [*(In(i) for i in range(4)), Out(0), Length(1), rows, table.shape.static[0]]
    entries = values.shape.size.size if values.shape.size.is_static else rows
    return Native(spec.name, [(_lookup(spec), words)], cost=float((entries or 0) * (3 + columns / lanes())))


takes_any_length((SparseLookup,), (1, 2))
