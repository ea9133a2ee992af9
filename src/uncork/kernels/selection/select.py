"""Which kernel picks the largest or smallest elements of rows: TopK."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from uncork.internal_ops.leading_best import LeadingBest
from uncork.kernels.extents import certainly, decline_if, extents, nanoseconds, product, same
from uncork.kernels.kernel_plan import (
    AtLeast,
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Selection,
    Workspace,
)
from uncork.kernels.layer import Layer, shared_call
from uncork.kernels.selection.spec import BestOfColumns, BestOfRows, Ranked, Sorted
from uncork.symbolic import Size, SizeLike
from uncork.types import ElementType

#: With more of a row than this a heap of the best is faster than keeping them in order.
_MOST_BEST = 64
#: Rows that are shorter are not sorted, nor are those of which less than such a share is wanted.
_SHORT, _SHARE = 80, 8
#: So few of columns are kept in order, a vector of columns at once.
_FEW = 16


def select_best(layer: Layer) -> Selection:
    operation, outputs, target = layer.operation, layer.outputs, layer.target
    data, k = layer.input(0), layer.input(1)
    decline_if(
        None in (k.sizes() or [None]), "how many are wanted is known at the call only"
    )  # and may be more than there are
    shape = extents(data)
    topk = operation.topk if isinstance(operation, LeadingBest) else operation
    axis: int = getattr(topk, "axis", 0) % len(shape)
    count, inner = extents(outputs[0])[axis], product(shape[axis + 1 :])
    largest, by_index = (
        getattr(topk, "mode", "") == "max",
        getattr(topk, "sort", "") == "index",
    )
    rows, index = product(shape[:axis]), outputs[1].element_type
    is_few = isinstance(count, int) and 0 < count <= _MOST_BEST
    if data.element_type is ElementType.f32 and is_few and certainly(inner, 1) and not by_index:
        best, width = BestOfRows(largest, index.name, target.lanes), index.dtype.itemsize

        def some_rows(first: SizeLike, some: SizeLike) -> KernelCall:
            made = first * count
            places: list[Operand] = [
                In(0, first * shape[axis] * 4),
                Out(0, made * 4),
                Out(1, made * width),
            ]
            return best, [*places, some, shape[axis], count]

        return shared_call(some_rows, rows, nanoseconds(product(shape), 1 / 4))
    item = data.element_type.dtype.itemsize
    if not by_index and _worth_sorting(shape[axis], count, item):
        whole_row = Sorted(data.element_type.name, index.name, largest)
        return _sorted(whole_row, (rows, shape[axis], inner, count), item, index.dtype.itemsize)
    lanes = max(1, target.lanes * 4 // max(4, item)) if certainly(inner, 1) else 1
    ranked: Ranked | BestOfColumns = Ranked(
        data.element_type.name, index.name, largest, by_index, lanes
    )
    width = target.lanes * 4 // max(4, item)
    columns = BestOfColumns(data.element_type.name, index.name, largest, width)
    are_few = isinstance(count, int) and count <= _FEW and not by_index and width > 1
    if are_few and isinstance(inner, int) and inner >= width:
        ranked = columns

    def part(first: SizeLike, some: SizeLike) -> KernelCall:
        made = first * count * inner
        there = In(0, first * shape[axis] * inner * item)
        return ranked, [
            there,
            Out(0, made * item),
            Out(1, made * index.dtype.itemsize),
            some,
            shape[axis],
            inner,
            count,
        ]

    cost = nanoseconds(product(shape), 1.0 if lanes > 1 else 4.0)
    if are_few and isinstance(inner, Size):
        whole = part(0, rows)
        when = [AtLeast(inner, width), AtLeast(inner, width, otherwise=True)]
        return KernelPlan(columns.name, [(columns, whole[1]), whole], cost=cost, when=when)
    plan = shared_call(part, rows, cost)
    return replace(plan, split=None) if certainly(rows, 1) else plan


def _worth_sorting(size: SizeLike, count: SizeLike, item: int) -> bool:
    """Whether a whole row is sorted quicker than its first elements are found."""
    sorts = 1 if item <= 4 else 2
    if isinstance(size, int) and isinstance(count, int):
        return size >= _SHORT * sorts and count * _SHARE >= size * sorts
    return same(size, count)


def _sorted(spec: Sorted, sizes: Sequence[SizeLike], item: int, width: int) -> Selection:
    """The plan of rows in order: `sizes` are (rows, elements, columns beside each other, how many
    are wanted).
    """
    rows, size, inner, count = sizes

    def part(first: SizeLike, some: SizeLike, memory: Scratch) -> KernelCall:
        made = first * count * inner
        there = In(0, first * size * inner * item)
        outs: list[Operand] = [Out(0, made * item), Out(1, made * width)]
        rooms = Workspace(memory.offset).sorts(size).values()
        return spec, [there, *outs, some, size, inner, count, *rooms]

    room = Workspace()
    room.sorts(size)
    return shared_call(part, rows, nanoseconds(rows * size * inner, 10.0), own=room.bytes)
