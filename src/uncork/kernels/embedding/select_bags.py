"""Selection of kernels that sum embedding rows: bags by offsets or of one size, and segments."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.internal_ops.fused import NarrowedBag
from uncork.kernels.embedding.spec_bags import Bag, Segments
from uncork.kernels.extents import extents, nanoseconds, product
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Selection,
    Stages,
    shares,
)
from uncork.kernels.layer import Layer
from uncork.kernels.runtime.packed_weights import begins_a_line
from uncork.ops.embedding_bag_offsets import EmbeddingBagOffsets15
from uncork.ops.embedding_bag_packed import EmbeddingBagPacked15
from uncork.symbolic import Size, SizeLike
from uncork.types import TensorSpec

#: Nanoseconds for a row of 64 bytes that is not in a cache: what the cost of a call is guessed
#: from.
_ROW_COST = 5.0


def _table(table: TensorSpec) -> tuple[SizeLike, int] | str:
    """The number of rows and the number of columns of a table, or why there is no kernel for it."""
    if table.element_type.bits < 8 or (
        table.element_type.bits == 8 and table.element_type.is_float
    ):
        return f"no kernel for tables of {table.element_type}"
    rows, *rest = extents(table)
    columns = product(rest)
    return (
        (rows, columns)
        if isinstance(columns, int)
        else "the length of a table's rows is known at the call only"
    )


def _at_lines(table: TensorSpec) -> bool:
    """Whether a table is known to begin at a cache line, and so do its rows."""
    if table.value is None or not table.value.size:
        return False
    row_bytes = table.value[0].nbytes
    return row_bytes % 64 == 0 and begins_a_line(table.value) and table.value.flags.c_contiguous


def padded(inputs: Sequence[TensorSpec | None], count: int) -> list[TensorSpec | None]:
    """The inputs with None for optional ones that were left out at the end."""
    return [*inputs, *[None] * (count - len(inputs))]


def cost_of_rows(indices: SizeLike, row_bytes: float) -> float | Size:
    """What a kernel costs that reads a row for each index, in nanoseconds."""
    return nanoseconds(indices, _ROW_COST * max(1.0, row_bytes / 64))


def shared_bags(call: KernelCall, bags: SizeLike, threads: int) -> list[KernelCall]:
    """The calls that share the bags of a call of a bag kernel, whose last operands are the first
    bag and the end.
    """
    function, operands = call
    *before, _, _ = operands
    return [(function, [*before, first, first + count]) for first, count in shares(bags, threads)]


def select_bag(layer: Layer) -> Selection:
    operation, inputs, target = layer.operation, layer.inputs, layer.target
    table, indices, offsets, default, weights = padded(inputs, 5)
    assert table is not None and indices is not None and offsets is not None
    size = _table(table)
    if isinstance(size, str):
        return size
    (bags,) = extents(offsets)
    bag = operation.bag if isinstance(operation, NarrowedBag) else operation
    mean = isinstance(bag, EmbeddingBagOffsets15) and bag.takes_mean()
    index = indices.element_type.name if bag is operation else "narrowed"
    spec = Bag(
        table.element_type.name,
        index,
        size[1],
        target.lanes,
        weights is not None,
        mean,
        "offsets",
        bag.strict,
        _at_lines(table),
    )
    (count,) = extents(indices)
    operands: list[Operand] = [In(0), size[0], In(1), count, In(2), bags]
    operands += [0 if default is None else In(3), 0 if weights is None else In(4), Out(0), 0, bags]
    call = (spec, operands)

    def split(threads: int) -> Stages:
        return Stages([shared_bags(call, bags, threads)], 0)

    return KernelPlan(
        spec.name,
        [call],
        cost=cost_of_rows(count, size[1] * table.element_type.dtype.itemsize),
        split=split,
    )


def select_packed(layer: Layer) -> Selection:
    operation, inputs, target = layer.operation, layer.inputs, layer.target
    table, indices, weights = padded(inputs, 3)
    assert table is not None and indices is not None
    size = _table(table)
    if isinstance(size, str):
        return size
    bags, each = extents(indices)
    mean = isinstance(operation, EmbeddingBagPacked15) and operation.takes_mean()
    spec = Bag(
        table.element_type.name,
        indices.element_type.name,
        size[1],
        target.lanes,
        weights is not None,
        mean,
        "fixed",
        at_lines=_at_lines(table),
    )
    operands: list[Operand] = [
        In(0),
        size[0],
        In(1),
        bags * each,
        each,
        bags,
        0,
        0 if weights is None else In(2),
        Out(0),
        0,
        bags,
    ]
    call = (spec, operands)

    def split(threads: int) -> Stages:
        return Stages([shared_bags(call, bags, threads)], 0)

    return KernelPlan(
        spec.name,
        [call],
        cost=cost_of_rows(bags * each, size[1] * table.element_type.dtype.itemsize),
        split=split,
    )


def select_segments(layer: Layer) -> Selection:
    inputs, target = layer.inputs, layer.target
    table, indices, ids, count, default, weights = padded(inputs, 6)
    assert table is not None and indices is not None and ids is not None and count is not None
    size = _table(table)
    if isinstance(size, str):
        return size
    found = count.sizes()
    if not found or found[0] is None:
        return "the number of segments is known at the call only"
    segments: SizeLike = found[0]
    if not size[1]:
        return "rows without elements"
    # Sorted ids are turned into offsets; unsorted ones are refused by the kernel and summed by the
    # reference.
    finder = Segments(ids.element_type.name)
    spec = Bag(
        table.element_type.name,
        indices.element_type.name,
        size[1],
        target.lanes,
        weights is not None,
        at_lines=_at_lines(table),
    )
    (entries,), (owners,) = extents(indices), extents(ids)
    operands: list[Operand] = [In(0), size[0], In(1), entries, Scratch(), segments]
    operands += [
        0 if default is None else In(4),
        0 if weights is None else In(5),
        Out(0),
        0,
        segments,
    ]
    find: KernelCall = (finder, [In(2), owners, segments, Scratch()])
    call = (spec, operands)

    def split(threads: int) -> Stages:
        return Stages([[find], shared_bags(call, segments, threads)], segments * 8)

    cost = cost_of_rows(entries, size[1] * table.element_type.dtype.itemsize)
    return KernelPlan(spec.name, [find, call], scratch=segments * 8, cost=cost, split=split)
