"""Selection of the gather kernel: whole items along an axis, of any element type of at least a
byte.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from uncork.kernels.extents import compute_nothing_of, extents, nanoseconds, product
from uncork.kernels.kernel_plan import (
    AtLeast,
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
from uncork.kernels.kernel_spec import OPEN
from uncork.kernels.layer import Layer
from uncork.kernels.movement.spec import LONG, LONG_BYTES, Gather
from uncork.ops.gather import Gather1, Gather7
from uncork.symbolic import Size, SizeLike

#: Items of up to this many bytes are better fetched by positions when several outer rows share the
#: indices.
_SMALL_ITEM = 16
#: Outputs of at least so many bytes are written past the caches.
_LARGE = 2 << 20


def select_gather(layer: Layer) -> Selection:
    operation, data, indices = layer.operation, layer.input(0), layer.input(1)
    assert isinstance(operation, Gather1 | Gather7)
    layer.require_numbers(0)
    shape, places = extents(data), extents(indices)
    along = layer.axis(2, len(shape))
    batch = operation.batch_count(len(places))
    item = product(shape[along + 1 :]) * data.element_type.dtype.itemsize
    batches, outer, count = (
        product(shape[:batch]),
        product(shape[batch:along]),
        product(places[batch:]),
    )
    compute_nothing_of((item, count), "gather")
    if not isinstance(item, int):
        return _select_open_items(layer, item, (batches, outer, count), shape[along])
    by_columns = (
        item <= _SMALL_ITEM and _is_above(outer, 1) and not _is_above(shape[along], 2**31 - 1)
    )
    total = batches * outer * count * item
    streaming = not by_columns and item % 64 == 0 and isinstance(total, int) and total >= _LARGE
    layout = "columns" if by_columns else "rows"
    long = not by_columns and item >= LONG_BYTES
    spec = Gather(
        LONG if long else item,
        indices.element_type.name,
        operation.counts_from_end,
        operation.strict,
        layout,
        streaming,
    )
    index_bytes = indices.element_type.dtype.itemsize

    slab = shape[along] * item
    # Threads share the batches, else the outer rows of the only batch, else the indices of the only
    # row: how many there are, and how many bytes lie from one to the next in data, indices and
    # output.
    whole = [batches, outer, count]
    level = 0 if _is_above(batches, 1) else 1 if _is_above(outer, 1) else 2
    steps = (
        (outer * slab, count * index_bytes, outer * count * item),
        (slab, 0, count * item),
        (0, index_bytes, item),
    )[level]

    def part(first: SizeLike, number: SizeLike) -> KernelCall:
        data_at, indices_at, output_at = (first * step for step in steps)
        some = [*whole[:level], number, *whole[level + 1 :]]
        return spec, [
            In(0, data_at),
            In(1, indices_at),
            Out(0, output_at),
            some[0],
            some[1],
            shape[along],
            some[2],
            item,
        ]

    def split(threads: int) -> Stages:
        return Stages([[part(first, number) for first, number in shares(whole[level], threads)]], 0)

    room: Operand = item if long else Scratch()
    operands: list[Operand] = [In(0), In(1), Out(0), batches, outer, shape[along], count, room]
    calls: list[KernelCall] = [(spec, operands)]
    when: list[AtLeast] = []
    if isinstance(total, Size) and not by_columns and item % 64 == 0:
        past_caches = replace(spec, streaming=True)
        calls.append((past_caches, operands))
        when = [AtLeast(total, _LARGE, otherwise=True), AtLeast(total, _LARGE)]
    cost = nanoseconds(batches * outer * count, max(2.0, item / 16))
    scratch = 4 * count if by_columns else 0
    return KernelPlan(
        spec.name, calls, scratch=scratch, cost=cost, when=when, split=None if by_columns else split
    )


def _is_above(size: SizeLike, least: int) -> bool:
    """Whether the size is above a number; one that only the call knows is taken to be above 1, and
    below what 32 bits hold.
    """
    return size > least if isinstance(size, int) else least == 1


def _select_open_items(
    layer: Layer, item: SizeLike, counts: Sequence[SizeLike], size: SizeLike
) -> Selection:
    """Select the gather kernel for items of a length that only the call knows."""
    operation = layer.operation
    assert isinstance(operation, Gather1 | Gather7)
    spec = Gather(
        OPEN, layer.input(1).element_type.name, operation.counts_from_end, operation.strict
    )
    batches, outer, count = counts
    operands: list[Operand] = [In(0), In(1), Out(0), batches, outer, size, count, item]
    return KernelPlan(
        spec.name, [(spec, operands)], cost=nanoseconds(batches * outer * count * item, 1 / 16)
    )
