"""Selection of kernels that look rows up in quantized tables: bags, segments and Gather."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from uncork.internal_ops.quantized_lookup import (
    CompressedBag,
    CompressedGather,
    CompressedLookup,
    CompressedPacked,
    CompressedSegments,
    CompressedTable,
)
from uncork.kernels.embedding.select_bags import cost_of_rows, padded, shared_bags
from uncork.kernels.embedding.spec_bags import Segments
from uncork.kernels.embedding.spec_quantized import QuantizedBag, QuantizedGather, Rows
from uncork.kernels.extents import extents, has_extents, product
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Selection,
    Stages,
)
from uncork.kernels.layer import Layer
from uncork.kernels.runtime.packed_weights import begins_a_line
from uncork.kernels.runtime.target import Target
from uncork.ops._common.embedding import ReducedEmbedding
from uncork.ops.gather import Gather1, Gather7
from uncork.symbolic import Size, SizeLike
from uncork.types import Array, TensorSpec


def rows_of(table: CompressedTable, target: Target) -> Rows:
    """The kind of rows that kernels of this table are specialised for."""
    stored = table.element_type.name
    if stored in ("u4", "i4") and not table.packed:
        stored = {"u4": "u8", "i4": "i8"}[stored]  # carriers: a byte each
    per_row = table.parameters is not None and len(table.parameters) > 1
    columns = table.columns // table.groups
    row_bits = columns * (table.element_type.bits if table.packed else table.codes.itemsize * 8)
    aligned = begins_a_line(table.codes) and row_bits % 512 == 0
    steps = table.zero_point is not None, table.scale is not None, per_row, table.half
    permutes = stored in ("u4", "i4") and target.lanes == 16 and target.has("avx512f")
    return Rows(stored, columns, *steps, aligned, target.lanes, permutes, table.groups)


def _start(table: CompressedTable) -> tuple[list[Operand], list[Array]]:
    """The first operands of every kernel of a table, and the arrays whose addresses are among
    them.
    """
    keep = [table.codes] if table.parameters is None else [table.codes, table.parameters]
    addresses: list[Operand] = [int(array.ctypes.data) for array in keep]
    return [*addresses, *[0] * (2 - len(keep)), table.shape[0]], keep


def _refused(table: CompressedTable) -> str:
    """Why there is no kernel for this table; empty when there is one."""
    return "" if table.columns else "rows without elements"


def _cost(indices: SizeLike, table: CompressedTable) -> float | Size:
    return cost_of_rows(indices, table.columns * table.element_type.bits / 8)


def _bag(
    operation: CompressedLookup, indices: TensorSpec, weighted: bool, target: Target
) -> QuantizedBag:
    lookup = operation.lookup
    mean = isinstance(lookup, ReducedEmbedding) and lookup.takes_mean()
    index = "narrowed" if operation.narrowed else indices.element_type.name
    return QuantizedBag(rows_of(operation.table, target), index, weighted, mean)


def _native(
    spec: QuantizedBag,
    operands: list[Operand],
    keep: list[Array],
    cost: float | Size,
    bags: SizeLike,
    find: KernelCall | None = None,
) -> KernelPlan:
    """The plan of a bag kernel's call, after the call that finds its offsets if there is one;
    threads share the bags.
    """
    call = (spec, operands)
    before = [] if find is None else [find]
    scratch: SizeLike = 8 * bags if before else 0

    def split(threads: int) -> Stages:
        return Stages([*([one] for one in before), shared_bags(call, bags, threads)], scratch)

    return KernelPlan(
        spec.name, [*before, call], scratch=scratch, keep=keep, cost=cost, split=split
    )


def _bags(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(CompressedBag), layer.inputs, layer.target
    indices, offsets, default, weights = padded(inputs, 4)
    assert indices is not None and offsets is not None
    if reason := _refused(operation.table):
        return reason
    if not has_extents(offsets):
        return "the number of bags is known at the call only"
    spec = replace(_bag(operation, indices, weights is not None, target), strict=operation.strict)
    operands, keep = _start(operation.table)
    (bags,), (entries,) = extents(offsets), extents(indices)
    operands += [In(0), entries, In(1), bags]
    operands += [0 if default is None else In(2), 0 if weights is None else In(3), Out(0), 0, bags]
    return _native(spec, operands, keep, _cost(entries, operation.table), bags)


def _packed(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(CompressedPacked), layer.inputs, layer.target
    indices, weights = padded(inputs, 2)
    assert indices is not None
    if reason := _refused(operation.table):
        return reason
    if not has_extents(indices):
        return "the number of indices is known at the call only"
    bags, each = extents(indices)
    spec = replace(_bag(operation, indices, weights is not None, target), bags="fixed")
    operands, keep = _start(operation.table)
    operands += [
        In(0),
        bags * each,
        each,
        bags,
        0,
        0 if weights is None else In(1),
        Out(0),
        0,
        bags,
    ]
    return _native(spec, operands, keep, _cost(bags * each, operation.table), bags)


def _segments(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(CompressedSegments), layer.inputs, layer.target
    indices, ids, count, default, weights = padded(inputs, 5)
    assert indices is not None and ids is not None and count is not None
    if reason := _refused(operation.table):
        return reason
    found = count.sizes()
    if not found or found[0] is None:
        return "the number of segments is known at the call only"
    segments: SizeLike = found[0]
    # Sorted ids are turned into offsets; unsorted ones are refused by the kernel and summed by the
    # reference.
    finder = Segments(ids.element_type.name)
    spec = _bag(operation, indices, weights is not None, target)
    operands, keep = _start(operation.table)
    (entries,), (owners,) = extents(indices), extents(ids)
    operands += [In(0), entries, Scratch(), segments]
    operands += [
        0 if default is None else In(3),
        0 if weights is None else In(4),
        Out(0),
        0,
        segments,
    ]
    finder_words: list[Operand] = [In(1), owners, segments, Scratch()]
    find: KernelCall = finder, finder_words
    return _native(spec, operands, keep, _cost(entries, operation.table), segments, find)


def _gather(layer: Layer) -> Selection:
    operation, target = layer.of(CompressedGather), layer.target
    assert isinstance(operation.lookup, (Gather1, Gather7))
    indices = layer.input(0)
    if reason := _refused(operation.table):
        return reason
    if not has_extents(indices):
        return "the number of indices is known at the call only"
    spec = QuantizedGather(
        rows_of(operation.table, target),
        indices.element_type.name,
        operation.lookup.counts_from_end,
        operation.strict,
    )
    count = product(extents(indices))
    operands, keep = _start(operation.table)
    operands += [In(0), count, Out(0)]
    return KernelPlan(spec.name, [(spec, operands)], keep=keep, cost=_cost(count, operation.table))


_OF_LOOKUP: dict[type[CompressedLookup], Callable[[Layer], Selection]] = {
    CompressedBag: _bags,
    CompressedPacked: _packed,
    CompressedSegments: _segments,
    CompressedGather: _gather,
}


def select_lookup(layer: Layer) -> Selection:
    return _OF_LOOKUP[type(layer.of(CompressedLookup))](layer)
