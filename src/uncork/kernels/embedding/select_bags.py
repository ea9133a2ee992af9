"""Selection of kernels that sum embedding rows: bags by offsets or of one size, and segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.fused import NarrowedBag
from uncork.kernels.embedding.spec_bags import Bag, DenseRows, QuantizedRows, Segments
from uncork.kernels.extents import as_number, decline_if, nanoseconds, product
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
from uncork.kernels.layer import Layer, staged
from uncork.ops import Operation
from uncork.ops._common.embedding import Embedding
from uncork.symbolic import Size, SizeLike

#: Nanoseconds for a row of 64 bytes that is not in a cache (an estimate).
_ROW_COST = 5.0


class LookupTable(Struct, frozen=True):
    """A table as kernels look its rows up: what they are, how many bytes of memory one takes, the
    operands that say where the table is, and which input of the layer has the ids: what else a
    look-up takes follows it.
    """

    rows: Union[DenseRows, QuantizedRows]
    row_bytes: float
    operands: Mapping[str, Operand]
    ids: int
    keep: Sequence[object] = ()

    def cost(self, indices: SizeLike) -> float | Size:
        """What a kernel costs that reads a row for each index."""
        return nanoseconds(indices, _ROW_COST * max(1.0, self.row_bytes / 64))


def select_bag(layer: Layer) -> Selection:
    bag, table = layer.operation, _dense(layer)
    if isinstance(bag, NarrowedBag):
        return bags_by_offsets(layer, table, bag.bag, narrowed=True)
    return bags_by_offsets(layer, table, bag, narrowed=False)


def select_packed(layer: Layer) -> Selection:
    return bags_of_one_size(layer, _dense(layer), layer.operation)


def select_segments(layer: Layer) -> Selection:
    return segments_of(layer, _dense(layer), layer.operation)


def _dense(layer: Layer) -> LookupTable:
    """The first input as a table whose rows are summed as they are stored."""
    table = layer.input(0)
    decline_if(
        table.element_type.bits < 8
        or (table.element_type.bits == 8 and table.element_type.is_float),
        f"no kernel for tables of {table.element_type}",
    )
    count, *rest = layer.shape(0)
    columns = as_number(product(rest), "the length of a table's rows is known at the call only")
    rows = DenseRows(table.element_type.name, columns, layer.target.lanes)
    operands: dict[str, Operand] = {"table": In(0), "parameters": 0, "rows": count}
    return LookupTable(rows, columns * table.element_type.dtype.itemsize, operands, ids=1)


def bags_by_offsets(layer: Layer, table: LookupTable, bag: Operation, narrowed: bool) -> KernelPlan:
    """Inputs are indices, offsets, the default index and weights; narrowed ones wrap to 32 bits."""
    (bags,), (count,) = layer.shape(table.ids + 1), layer.shape(table.ids)
    spec = _spec(layer, table, bag, "offsets", table.ids + 3, narrowed)
    return _plan(
        table,
        replace(spec, strict=bag.strict),
        bags,
        count,
        offsets=In(table.ids + 1),
        default=_address(layer, table.ids + 2),
        weights=_address(layer, table.ids + 3),
    )


def bags_of_one_size(
    layer: Layer, table: LookupTable, bag: Operation, narrowed: bool = False
) -> KernelPlan:
    """Inputs are indices and weights."""
    bags, each = layer.shape(table.ids)
    spec = _spec(layer, table, bag, "fixed", table.ids + 1, narrowed)
    weights = _address(layer, table.ids + 1)
    return _plan(table, spec, bags, bags * each, offsets=each, default=0, weights=weights)


def segments_of(
    layer: Layer, table: LookupTable, segment: Operation, narrowed: bool = False
) -> Selection:
    """Inputs are indices, ids of segments, their number, the default index and weights.

    Ids of segments are turned into offsets; where they are not sorted, indices and weights are
    copied in the order of their segments.
    """
    segments = layer.number(table.ids + 2, "the number of segments is")
    decline_if(not table.rows.columns, "rows without elements")
    spec = _spec(layer, table, segment, "offsets", table.ids + 4, narrowed)
    (count,), (owners,) = layer.shape(table.ids), layer.shape(table.ids + 1)
    size, weight = (
        layer.input(position).element_type.dtype.itemsize if layer.has(position) else 0
        for position in (table.ids, table.ids + 4)
    )
    finder = Segments(layer.input(table.ids + 1).element_type.name, size, weight, segment.strict)
    placed = Scratch(8 * segments)
    find = finder(
        ids=In(table.ids + 1),
        count=owners,
        segments=segments,
        offsets=Scratch(),
        indices=In(table.ids),
        weights=_address(layer, table.ids + 4),
        placed=placed,
    )
    return _plan(
        table,
        replace(spec, placed=True),
        segments,
        count,
        find,
        16 + count * (size + weight),
        indices=placed,
        offsets=Scratch(),
        default=_address(layer, table.ids + 3),
        weights=0,
    )


def _address(layer: Layer, position: int) -> Operand:
    return In(position) if layer.has(position) else 0


def _spec(
    layer: Layer, table: LookupTable, bag: Operation, bags: str, weights: int, narrowed: bool
) -> Bag:
    index = "narrowed" if narrowed else layer.input(table.ids).element_type.name
    mean = isinstance(bag, Embedding) and bag.takes_mean()
    return Bag(bags, table.rows, index, layer.has(weights), mean)


def _plan(
    table: LookupTable,
    spec: Bag,
    bags: SizeLike,
    count: SizeLike,
    find: KernelCall | None = None,
    copies: SizeLike = 0,
    **operands: Operand,
) -> KernelPlan:
    """The plan of a kernel's call for so many bags and indices, after the call that finds its
    offsets if there is one, and makes copies of so many bytes behind them; threads share the bags.
    """
    before = [] if find is None else [find]
    scratch: SizeLike = 8 * bags + copies if before else 0
    given = {
        **table.operands,
        "indices": In(table.ids),
        "count": count,
        "bags": bags,
        "output": Out(0),
        **operands,
    }

    def split(threads: int) -> Stages:
        calls = [
            spec(**given, first=first, last=first + some) for first, some in shares(bags, threads)
        ]
        return Stages([*([one] for one in before), calls], scratch)

    return staged(split, table.cost(count), table.keep)
