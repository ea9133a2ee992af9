"""Selection of kernels that look rows up in quantized tables: bags, segments and Gather."""

from __future__ import annotations

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
from uncork.kernels.stored_types import laid_out, steps_of
from uncork.ops.gather import Gather


def rows_of(table: CompressedTable, target: Target) -> QuantizedRows:
    """The kind of rows that kernels of this table are specialised for."""
    stored = table.read_as.name
    if stored in ("u4", "i4") and not table.packed:
        stored = {"u4": "u8", "i4": "i8"}[stored]  # carriers: a byte each
    pairs = table.parameters
    per_row = pairs is not None and len(pairs) > 1
    columns = table.columns // table.groups
    steps = table.zero_point is not None, table.scale is not None, per_row, table.half
    permutes = stored in ("u4", "i4") and target.lanes == 16 and target.has("avx512f")
    long = table.numbers is not None and len(table.numbers) > 16
    numbers = () if table.numbers is None or long else tuple(table.numbers.tolist())
    later = steps_of(table.later)
    return QuantizedRows(
        stored,
        columns,
        *steps,
        target.lanes,
        permutes,
        table.groups,
        later,
        numbers,
        long,
        table.element_type.name if table.planes else "",
    )


def _quantized(table: CompressedTable, target: Target) -> LookupTable:
    rows = rows_of(table, target)
    given = {"table": table.codes, "parameters": table.parameters}
    for number, (step, spec) in enumerate(zip(table.later, rows.later, strict=True)):
        given[f"later{number}"] = laid_out(step.operand, spec.kind)
    if rows.long:
        given["numbers"] = table.numbers
    operands: dict[str, Operand] = {
        name: 0 if array is None else address_of(array) for name, array in given.items()
    }
    keep = [array for array in given.values() if array is not None]
    row_bytes = table.columns * table.element_type.bits / 8
    return LookupTable(rows, row_bytes, {**operands, "rows": table.shape[0]}, ids=0, keep=keep)


def select_lookup(layer: Layer) -> Selection:
    operation = layer.of(CompressedLookup)
    decline_if(not operation.table.columns, "rows without elements")
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
    assert isinstance(lookup, Gather)
    assert isinstance(table.rows, QuantizedRows)
    index, count = indices.element_type.name, product(layer.shape(0))
    spec = QuantizedGather(table.rows, index, lookup.counts_from_end, operation.strict)
    call = spec(**table.operands, indices=In(0), count=count, output=Out(0))
    return KernelPlan(spec.name, [call], keep=table.keep, cost=table.cost(count))
