"""Which kernel picks the largest or smallest elements of rows: TopK."""

from __future__ import annotations

from functools import partial

from msgspec import Struct
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
from uncork.kernels.kernel_spec import KernelSpec
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
    rows, index, element = product(shape[:axis]), outputs[1].element_type, data.element_type
    given = element.name, index.name, largest
    of = _RankedRows(shape[axis], inner, count, element.dtype.itemsize, index.dtype.itemsize)
    is_few = isinstance(count, int) and 0 < count <= _MOST_BEST
    if element is ElementType.f32 and is_few and certainly(inner, 1) and not by_index:
        best = BestOfRows(largest, index.name, target.lanes)
        return shared_call(partial(of.part, best), rows, nanoseconds(product(shape), 1 / 4))
    if not by_index and _worth_sorting(shape[axis], count, of.item):
        whole_row, room = Sorted(*given), Workspace()
        room.sorts(of.size)
        cost = nanoseconds(product(shape), 10.0)
        return shared_call(partial(of.part, whole_row), rows, cost, own=room.bytes)
    width = target.lanes * 4 // max(4, of.item)
    lanes = max(1, width) if certainly(inner, 1) else 1
    ranked: Ranked | BestOfColumns = Ranked(*given, by_index, lanes)
    columns = BestOfColumns(*given, width)
    are_few = isinstance(count, int) and count <= _FEW and not by_index and width > 1
    if are_few and isinstance(inner, int) and inner >= width:
        ranked = columns
    cost = nanoseconds(product(shape), 1.0 if lanes > 1 else 4.0)
    if are_few and isinstance(inner, Size):
        whole = [of.part(spec, 0, rows) for spec in (columns, ranked)]
        when = [AtLeast(inner, width), AtLeast(inner, width, otherwise=True)]
        return KernelPlan(columns.name, whole, cost=cost, when=when)
    plan = shared_call(partial(of.part, ranked), rows, cost)
    return replace(plan, split=None) if certainly(rows, 1) else plan


class _RankedRows(Struct, frozen=True):
    """Rows of so many elements, beside each other in columns, of which so many are wanted; and the
    bytes of an element and of its number.
    """

    size: SizeLike
    inner: SizeLike
    count: SizeLike
    item: int
    number: int

    def part(
        self, spec: KernelSpec, first: SizeLike, some: SizeLike, memory: Scratch | None = None
    ) -> KernelCall:
        """The call of a kernel for some of the rows, which are sorted in `memory`."""
        made = first * self.count * self.inner
        operands: dict[str, Operand] = {
            "data": In(0, first * self.size * self.inner * self.item),
            "values": Out(0, made * self.item),
            "numbers": Out(1, made * self.number),
            "outer": some,
            "count": self.size,
            "inner": self.inner,
            "best": self.count,
        }
        if memory is not None:
            operands |= Workspace(memory.offset).sorts(self.size)
        return spec, [operands[name] for name in spec.arguments]


def _worth_sorting(size: SizeLike, count: SizeLike, item: int) -> bool:
    """Whether a whole row is sorted quicker than its first elements are found."""
    sorts = 1 if item <= 4 else 2
    if isinstance(size, int) and isinstance(count, int):
        return size >= _SHORT * sorts and count * _SHARE >= size * sorts
    return same(size, count)
