"""Which kernels sum embedding rows: bags by offsets or of a fixed size, and segments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uncork.internal_ops.fused import NarrowedBag
from uncork.kernels.names import flags
from uncork.kernels.runtime.kernel_cache import STORE, lanes
from uncork.kernels.runtime.packed_weights import begins_a_line
from uncork.kernels.select import Choice, In, KernelCall, Length, Native, Operand, Out, Room, Stages, chooses, shares, takes_any_length
from uncork.ops import Operation
from uncork.ops.embedding_bag_offsets import EmbeddingBagOffsets15, EmbeddingBagOffsetsSum3
from uncork.ops.embedding_bag_packed import EmbeddingBagPacked15, EmbeddingBagPackedSum3
from uncork.ops.embedding_segments_sum import EmbeddingSegmentsSum3
from uncork.types import TensorSpec

#: Nanoseconds for a row of 64 bytes that is not in a cache: what the cost of a call is guessed from.
_ROW_COST = 5.0
#: Indices that a bag is taken to have where only the call knows.
_BAG = 20


@dataclass(frozen=True, slots=True)
class Bag:
    """What a bag kernel is specialised for. `columns` is the number of elements of a row.

    `index` is the ids' element type, or "narrowed": i64 that wrap to 32 bits.
    """

    table: str
    index: str
    columns: int
    lanes: int
    weighted: bool = False
    mean: bool = False
    #: "offsets": where each bag starts; "fixed": all bags have the same number of indices.
    bags: str = "offsets"
    strict: bool = False
    #: Rows begin and end at cache lines. It is not in the name: it changes nothing but what is prefetched.
    at_lines: bool = False

    @property
    def name(self) -> str:
        return f"bag_{self.bags}_{self.table}_{self.index}_{self.columns}" + flags(self, "weighted", "mean", "strict")

    @property
    def arguments(self) -> list[str]:
        """Addresses and counts; bags `first` to `last` - 1 are computed.

        `default` is the address of a number, or 0; `offsets` is the size of every bag when they are fixed.
        """
        return ["table", "rows", "indices", "count", "offsets", "bags", "default", "weights", "output", "first", "last"]


@dataclass(frozen=True, slots=True)
class Segments:
    """What the kernel that turns sorted segment ids into offsets is specialised for."""

    index: str

    @property
    def name(self) -> str:
        return f"segment_offsets_{self.index}"

    @property
    def arguments(self) -> list[str]:
        return ["ids", "count", "segments", "offsets"]


def _bag(spec: Bag) -> int:
    def make() -> str:
        from uncork.kernels.embedding.emit_bags import emit_bag

        return emit_bag(spec)

    return STORE.function(spec.name, repr(spec), make)


def _segment_offsets(spec: Segments) -> int:
    def make() -> str:
        from uncork.kernels.embedding.emit_bags import emit_segments

        return emit_segments(spec)

    return STORE.function(spec.name, repr(spec), make)


def _table(table: TensorSpec) -> tuple[int, int] | str:
    """(rows, columns), or why there is no kernel for this table."""
    if not table.shape.is_static:
        return "the table's shape is known at the call only"
    if table.element_type.bits < 8 or (table.element_type.bits == 8 and table.element_type.is_float):
        return f"no kernel for tables of {table.element_type}"
    rows, *rest = table.shape.static
    return rows, math.prod(rest)


def _at_lines(table: TensorSpec) -> bool:
    """A table that is known begins at a cache line, and so do its rows."""
    if table.value is None or not table.value.size:
        return False
    row_bytes = table.value[0].nbytes
    return row_bytes % 64 == 0 and begins_a_line(table.value) and table.value.flags.c_contiguous


def _padded(inputs: Sequence[TensorSpec | None], count: int) -> list[TensorSpec | None]:
    """The inputs with None for optional ones that were left out at the end."""
    return [*inputs, *[None] * (count - len(inputs))]


def cost_of_rows(indices: TensorSpec, bags: int, row_bytes: float) -> float:
    """What a kernel costs that reads a row for each index, in nanoseconds. `bags` counts where only the call knows how many there are."""
    count = indices.shape.size.size
    if count is None:
        count = _BAG * bags
    return count * _ROW_COST * max(1.0, row_bytes / 64)


def shared_bags(call: KernelCall, bags: int, threads: int) -> list[KernelCall]:
    """The call of a bag kernel as calls for some of the bags each: its last operands are the first bag and the end."""
    function, words = call
    *before, _, _ = words
    return [(function, [*before, first, first + count]) for first, count in shares(bags, threads)]


@chooses(EmbeddingBagOffsetsSum3, EmbeddingBagOffsets15, NarrowedBag)
def choose_bag(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    table, indices, offsets, default, weights = _padded(inputs, 5)
    assert table is not None and indices is not None and offsets is not None
    size = _table(table)
    if isinstance(size, str):
        return size
    if not offsets.shape.is_static:
        return "the number of bags is known at the call only"
    bag = operation.bag if isinstance(operation, NarrowedBag) else operation
    mean = isinstance(bag, EmbeddingBagOffsets15) and bag.takes_mean()
    index = indices.element_type.name if bag is operation else "narrowed"
    spec = Bag(table.element_type.name, index, size[1], lanes(), weights is not None, mean, "offsets", bag.strict, _at_lines(table))
    words: list[Operand] = [In(0), size[0], In(1), Length(1), In(2), offsets.shape.static[0]]
    words += [0 if default is None else In(3), 0 if weights is None else In(4), Out(0), 0, offsets.shape.static[0]]
    call = (_bag(spec), words)
    bags = offsets.shape.static[0]

    def split(threads: int) -> Stages:
        return Stages([shared_bags(call, bags, threads)], 0)

    return Native(spec.name, [call], cost=cost_of_rows(indices, bags, size[1] * table.element_type.dtype.itemsize), split=split)


takes_any_length((EmbeddingBagOffsetsSum3, EmbeddingBagOffsets15, NarrowedBag), (1, 4))


@chooses(EmbeddingBagPackedSum3, EmbeddingBagPacked15)
def choose_packed(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    table, indices, weights = _padded(inputs, 3)
    assert table is not None and indices is not None
    size = _table(table)
    if isinstance(size, str):
        return size
    if not indices.shape.is_static:
        return "the number of indices is known at the call only"
    bags, each = indices.shape.static
    mean = isinstance(operation, EmbeddingBagPacked15) and operation.takes_mean()
    spec = Bag(
        table.element_type.name, indices.element_type.name, size[1], lanes(), weights is not None, mean, "fixed", at_lines=_at_lines(table)
    )
    words: list[Operand] = [In(0), size[0], In(1), bags * each, each, bags, 0, 0 if weights is None else In(2), Out(0), 0, bags]
    call = (_bag(spec), words)

    def split(threads: int) -> Stages:
        return Stages([shared_bags(call, bags, threads)], 0)

    return Native(spec.name, [call], cost=cost_of_rows(indices, bags, size[1] * table.element_type.dtype.itemsize), split=split)


@chooses(EmbeddingSegmentsSum3)
def choose_segments(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    table, indices, ids, count, default, weights = _padded(inputs, 6)
    assert table is not None and indices is not None and ids is not None and count is not None
    size = _table(table)
    if isinstance(size, str):
        return size
    if count.value is None:
        return "the number of segments is known at the call only"
    segments = int(count.value)
    if not size[1]:
        return "rows without elements"
    # Sorted ids are turned into offsets; unsorted ones are refused by the kernel and summed by the reference.
    finder = Segments(ids.element_type.name)
    spec = Bag(table.element_type.name, indices.element_type.name, size[1], lanes(), weights is not None, at_lines=_at_lines(table))
    words: list[Operand] = [In(0), size[0], In(1), Length(1), Room(), segments]
    words += [0 if default is None else In(4), 0 if weights is None else In(5), Out(0), 0, segments]
    find: KernelCall = (_segment_offsets(finder), [In(2), Length(2), segments, Room()])
    call = (_bag(spec), words)

    def split(threads: int) -> Stages:
        return Stages([[find], shared_bags(call, segments, threads)], segments * 8)

    cost = cost_of_rows(indices, segments, size[1] * table.element_type.dtype.itemsize)
    return Native(spec.name, [find, call], room=segments * 8, cost=cost, split=split)


takes_any_length((EmbeddingSegmentsSum3,), (1, 2, 5))
