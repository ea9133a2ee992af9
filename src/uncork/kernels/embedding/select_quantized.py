"""Selection of kernels that look rows up in quantized tables: bags, segments and Gather."""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.quantized_lookup import (
    CompressedBag,
    CompressedGather,
    CompressedLookup,
    CompressedPacked,
    CompressedTable,
)
from uncork.kernels.embedding.select_bags import (
    LookupTable,
    bags_by_offsets,
    bags_of_one_size,
    segments_of,
)
from uncork.kernels.embedding.spec_bags import QuantizedGather, QuantizedRows
from uncork.kernels.extents import decline_if, has_extents, product
from uncork.kernels.kernel_plan import In, KernelPlan, Operand, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import converts_halves
from uncork.ops.gather import Gather1, Gather7
from uncork.types import Array


def rows_of(table: CompressedTable, target: Target) -> QuantizedRows:
    """The kind of rows that kernels of this table are specialised for."""
    stored = table.element_type.name
    if stored in ("u4", "i4") and not table.packed:
        stored = {"u4": "u8", "i4": "i8"}[stored]  # carriers: a byte each
    pairs = _parameters(table, target)
    per_row = pairs is not None and len(pairs) > 1
    columns = table.columns // table.groups
    steps = table.zero_point is not None, table.scale is not None, per_row, table.half
    permutes = stored in ("u4", "i4") and target.lanes == 16 and target.has("avx512f")
    narrow = pairs is not None and pairs.dtype == np.float16
    numbers = () if table.numbers is None else tuple(table.numbers.tolist())
    return QuantizedRows(
        stored, columns, *steps, target.lanes, permutes, table.groups, narrow, numbers
    )


def _parameters(table: CompressedTable, target: Target) -> Array | None:
    """Zero points and scales in pairs of a type that the processor reads."""
    pairs = table.parameters
    if pairs is None or pairs.dtype == np.float32 or converts_halves(target):
        return pairs
    return pairs.astype(np.float32)


def _quantized(table: CompressedTable, target: Target) -> LookupTable:
    pairs = _parameters(table, target)
    keep = [table.codes] if pairs is None else [table.codes, pairs]
    addresses = [address_of(array) for array in keep]
    operands: dict[str, Operand] = {
        "table": addresses[0],
        "parameters": addresses[1] if len(keep) > 1 else 0,
        "rows": table.shape[0],
    }
    row_bytes = table.columns * table.element_type.bits / 8
    return LookupTable(rows_of(table, target), row_bytes, operands, ids=0, keep=keep)


def select_lookup(layer: Layer) -> Selection:
    operation = layer.of(CompressedLookup)
    decline_if(not operation.table.columns, "rows without elements")
    decline_if(
        operation.table.element_type.name.startswith("f8") and not converts_halves(layer.target),
        "no kernel for f16 on this machine",
    )
    table, lookup = _quantized(operation.table, layer.target), operation.lookup
    if isinstance(operation, CompressedBag):
        decline_if(not has_extents(layer.input(1)), "the number of bags is known at the call only")
        return bags_by_offsets(layer, table, lookup, operation.narrowed)
    if isinstance(operation, (CompressedPacked, CompressedGather)):
        decline_if(
            not has_extents(layer.input(0)), "the number of indices is known at the call only"
        )
        if isinstance(operation, CompressedPacked):
            return bags_of_one_size(layer, table, lookup, operation.narrowed)
        return _gather(layer, operation, table)
    return segments_of(layer, table, lookup, operation.narrowed)


def _gather(layer: Layer, operation: CompressedGather, table: LookupTable) -> KernelPlan:
    lookup, indices = operation.lookup, layer.input(0)
    assert isinstance(lookup, (Gather1, Gather7))
    assert isinstance(table.rows, QuantizedRows)
    index, count = indices.element_type.name, product(layer.shape(0))
    spec = QuantizedGather(table.rows, index, lookup.counts_from_end, operation.strict)
    call = spec(**table.operands, indices=In(0), count=count, output=Out(0))
    return KernelPlan(spec.name, [call], keep=table.keep, cost=table.cost(count))
