"""Selection of the gather kernel: whole items along an axis, of any element type of at least a
byte. Constant places of short items in equal steps are a strided copy.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.kernels.extents import compute_nothing_of, extents, nanoseconds, product
from uncork.kernels.kernel_plan import (
    AtLeast,
    In,
    KernelCall,
    KernelPlan,
    Out,
    Scratch,
    Selection,
)
from uncork.kernels.kernel_spec import OPEN
from uncork.kernels.layer import Layer, one_call, shared_call
from uncork.kernels.movement.select_nd_copy import select_nd_copy
from uncork.kernels.movement.spec import LONG, LONG_BYTES, Gather
from uncork.ops.gather import Gather1, Gather7
from uncork.symbolic import Size, SizeLike

#: Items of up to this many bytes are better fetched by positions when several outer rows share the
#: indices.
_SMALL_ITEM = 16
#: Outputs of at least so many bytes are written past the caches: more than the last one holds
#: beside others. Smaller ones take up to 2.5 times as long so, and what follows reads them from it.
_LARGE = 16 << 20


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
    is_known = isinstance(item, int)
    size = item if isinstance(item, int) else 0
    by_columns = (
        0 < size <= _SMALL_ITEM and _is_above(outer, 1) and not _is_above(shape[along], 2**31 - 1)
    )
    if by_columns and indices.value is not None:
        strided = select_nd_copy(operation, layer.inputs, layer.outputs)
        if strided is not None:
            return strided
    total = batches * outer * count * item
    whole_lines = is_known and not by_columns and size % 64 == 0
    streaming = whole_lines and isinstance(total, int) and total >= _LARGE
    spec = Gather(
        OPEN if not is_known else LONG if size >= LONG_BYTES else size,
        indices.element_type.name,
        operation.counts_from_end,
        operation.strict,
        "columns" if by_columns else "rows",
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
        return spec(
            data=In(0, data_at),
            indices=In(1, indices_at),
            output=Out(0, output_at),
            batches=some[0],
            outer=some[1],
            size=shape[along],
            count=some[2],
            positions=Scratch() if by_columns else item,
        )

    cost = nanoseconds(batches * outer * count, max(2.0, size / 16))
    if not is_known:
        return one_call(part(0, whole[level]), nanoseconds(total, 1 / 16))
    if by_columns:
        return KernelPlan(spec.name, [part(0, whole[level])], scratch=4 * count, cost=cost)
    plan = shared_call(part, whole[level], cost)
    if not whole_lines or not isinstance(total, Size):
        return plan
    past_caches = replace(spec, streaming=True), plan.calls[0][1]
    when = [AtLeast(total, _LARGE, otherwise=True), AtLeast(total, _LARGE)]
    return replace(plan, calls=[*plan.calls, past_caches], when=when)


def _is_above(size: SizeLike, least: int) -> bool:
    """Whether the size is above a number; one that only the call knows is taken to be above 1, and
    below what 32 bits hold.
    """
    return size > least if isinstance(size, int) else least == 1
