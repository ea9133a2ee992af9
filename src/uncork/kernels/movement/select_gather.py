"""Which kernel gathers: whole items along an axis, of any element type of at least a byte."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uncork.kernels.names import flags
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.select import Choice, In, KernelCall, Native, Operand, Out, Room, Stages, chooses, shares
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.ops.gather import Gather1, Gather7, Gather8
from uncork.types import ElementType, TensorSpec

#: Items of up to this many bytes are better fetched by positions when several outer rows share the indices.
_SMALL_ITEM = 16
#: Outputs of at least so many bytes are written past the caches.
_LARGE = 2 << 20


@dataclass(frozen=True, slots=True)
class Gather:
    """What a gather kernel is specialised for."""

    item: int
    index: str
    #: A negative index counts from the end of the axis.
    wraps: bool
    strict: bool = False
    way: str = "rows"
    #: Stores that pass the caches by, for outputs that are large; items must be multiples of 64 bytes.
    streaming: bool = False

    @property
    def name(self) -> str:
        return f"gather_{self.way}_{self.item}_{self.index}" + flags(self, "wraps", "strict", "streaming")

    @property
    def arguments(self) -> list[str]:
        """`count` indices for each of `batches`; `positions` is room for `count` 32-bit numbers ("columns" only)."""
        return ["data", "indices", "output", "batches", "outer", "size", "count", "positions"]


def _gather(spec: Gather) -> int:
    def make() -> str:
        from uncork.kernels.movement.emit_gather import emit_gather

        return emit_gather(spec)

    return STORE.function(spec.name, repr(spec), make)


@chooses(Gather1, Gather7, Gather8)
def choose_gather(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    data, indices, axis = inputs
    assert data is not None and indices is not None and axis is not None and isinstance(operation, Gather1 | Gather7)
    if data.element_type is ElementType.string:
        return "no kernel for strings"
    if axis.value is None or not data.shape.is_static or not indices.shape.is_static:
        return "axis or shapes are known at the call only"
    shape, places = data.shape.static, indices.shape.static
    along = normalised_axis(operation, int(axis.value.reshape(-1)[0]), len(shape))
    batch = operation.batch_count(len(places))
    item = math.prod(shape[along + 1 :]) * data.element_type.dtype.itemsize
    batches, outer, count = math.prod(shape[:batch]), math.prod(shape[batch:along]), math.prod(places[batch:])
    if not item or not count:
        return Native("gather_nothing", [])
    by_columns = outer > 1 and item <= _SMALL_ITEM and shape[along] < 2**31
    streaming = not by_columns and item % 64 == 0 and batches * outer * count * item >= _LARGE
    way = "columns" if by_columns else "rows"
    spec = Gather(item, indices.element_type.name, operation.counts_from_end, operation.strict, way, streaming)
    function = _gather(spec)
    index_bytes = indices.element_type.dtype.itemsize

    slab = shape[along] * item
    # Threads share the batches, else the outer rows of the only batch, else the indices of the only row: how many there are, and how
    # many bytes lie from one to the next in data, indices and output.
    whole = [batches, outer, count]
    level = 0 if batches > 1 else 1 if outer > 1 else 2
    steps = ((outer * slab, count * index_bytes, outer * count * item), (slab, 0, count * item), (0, index_bytes, item))[level]

    def part(first: int, number: int) -> KernelCall:
        data_at, indices_at, output_at = (first * step for step in steps)
        some = [*whole[:level], number, *whole[level + 1 :]]
        return function, [In(0, data_at), In(1, indices_at), Out(0, output_at), some[0], some[1], shape[along], some[2], 0]

    def split(threads: int) -> Stages:
        return Stages([[part(first, number) for first, number in shares(whole[level], threads)]], 0)

    words: list[Operand] = [In(0), In(1), Out(0), batches, outer, shape[along], count, Room()]
    cost = batches * outer * count * max(2.0, item / 16)
    return Native(spec.name, [(function, words)], room=4 * count if by_columns else 0, cost=cost, split=None if by_columns else split)
