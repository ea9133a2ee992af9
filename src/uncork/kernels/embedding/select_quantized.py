"""Which kernels look rows up in compressed tables: bags, segments and Gather, with the rows computed in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from uncork.internal_ops.quantized_lookup import (
    CompressedBag,
    CompressedGather,
    CompressedLookup,
    CompressedPacked,
    CompressedSegments,
    CompressedTable,
)
from uncork.kernels.embedding.select_bags import Segments, cost_of_rows, shared_bags
from uncork.kernels.names import flags
from uncork.kernels.runtime.kernel_cache import STORE, has_feature, lanes
from uncork.kernels.runtime.packed_weights import begins_a_line
from uncork.kernels.select import Choice, In, KernelCall, Length, Native, Operand, Out, Room, Stages, chooses, takes_any_length
from uncork.ops import Operation
from uncork.ops._common.embedding import ReducedEmbedding
from uncork.ops.gather import Gather1, Gather7
from uncork.types import Array, TensorSpec


@dataclass(frozen=True, slots=True)
class Rows:
    """How a row becomes f32: what is stored, which steps the chain has, and how wide the vectors are.

    `stored` is the element type of the codes; "u4" and "i4" are two a byte. `per_row`: each row has a pair of parameters of its own.
    `aligned`: every row begins at a cache line. `permutes`: the machine looks 16 numbers up in a register (AVX-512), so 4-bit codes
    are looked up among the 16 values of their row.
    """

    stored: str
    columns: int
    zero_point: bool
    scale: bool
    per_row: bool
    half: bool
    aligned: bool
    lanes: int
    permutes: bool

    @property
    def name(self) -> str:
        return f"{self.stored}_{self.columns}" + flags(self, "zero_point", "scale", "per_row", "half", "aligned")


@dataclass(frozen=True, slots=True)
class QuantisedBag:
    """What a bag kernel is specialised for; `index` and `bags` as `embedding.Bag` has them."""

    rows: Rows
    index: str
    weighted: bool = False
    mean: bool = False
    bags: str = "offsets"
    strict: bool = False

    @property
    def name(self) -> str:
        return f"bag_{self.bags}_{self.rows.name}_{self.index}" + flags(self, "weighted", "mean", "strict")

    @property
    def arguments(self) -> list[str]:
        """As `embedding.Bag` has them, and the address of the zero points and scales, in pairs."""
        return ["table", "parameters", "rows", "indices", "count", "offsets", "bags", "default", "weights", "output", "first", "last"]


@dataclass(frozen=True, slots=True)
class QuantisedGather:
    """What a gather kernel is specialised for; `wraps`: a negative index counts from the end."""

    rows: Rows
    index: str
    wraps: bool
    strict: bool = False

    @property
    def name(self) -> str:
        return f"gather_{self.rows.name}_{self.index}" + flags(self, "wraps", "strict")

    @property
    def arguments(self) -> list[str]:
        return ["table", "parameters", "rows", "indices", "count", "output"]


def rows_of(table: CompressedTable) -> Rows:
    """What kernels are specialised for by this table."""
    stored = table.element_type.name
    if stored in ("u4", "i4") and not table.packed:
        stored = {"u4": "u8", "i4": "i8"}[stored]  # carriers: a byte each
    per_row = table.parameters is not None and len(table.parameters) > 1
    row_bits = table.columns * (table.element_type.bits if table.packed else table.codes.itemsize * 8)
    aligned = begins_a_line(table.codes) and row_bits % 512 == 0
    steps = table.zero_point is not None, table.scale is not None, per_row, table.half
    permutes = stored in ("u4", "i4") and lanes() == 16 and has_feature("avx512f")
    return Rows(stored, table.columns, *steps, aligned, lanes(), permutes)


def _function(spec: QuantisedBag | QuantisedGather) -> int:
    def make() -> str:
        from uncork.kernels.embedding import emit_quantized as quantised_code

        return quantised_code.emit_bag(spec) if isinstance(spec, QuantisedBag) else quantised_code.emit_gather(spec)

    return STORE.function(spec.name, repr(spec), make)


def _segment_offsets(spec: Segments) -> int:
    def make() -> str:
        from uncork.kernels.embedding.emit_bags import emit_segments

        return emit_segments(spec)

    return STORE.function(spec.name, repr(spec), make)


def _start(table: CompressedTable) -> tuple[list[Operand], list[Array]]:
    """The operands that every kernel begins with, and the arrays that they are addresses in."""
    keep = [table.codes] if table.parameters is None else [table.codes, table.parameters]
    addresses: list[Operand] = [int(array.ctypes.data) for array in keep]
    return [*addresses, *[0] * (2 - len(keep)), table.shape[0]], keep


def _refused(table: CompressedTable) -> str:
    """Why there is no kernel for this table, or nothing."""
    return "" if table.columns else "rows without elements"


def _padded(inputs: Sequence[TensorSpec | None], count: int) -> list[TensorSpec | None]:
    """The inputs with None for optional ones that were left out at the end."""
    return [*inputs, *[None] * (count - len(inputs))]


def _cost(indices: TensorSpec, bags: int, table: CompressedTable) -> float:
    return cost_of_rows(indices, bags, table.columns * table.element_type.bits / 8)


def _bag(operation: CompressedLookup, indices: TensorSpec, weighted: bool) -> QuantisedBag:
    lookup = operation.lookup
    mean = isinstance(lookup, ReducedEmbedding) and lookup.takes_mean()
    index = "narrowed" if operation.narrowed else indices.element_type.name
    return QuantisedBag(rows_of(operation.table), index, weighted, mean)


def _native(spec: QuantisedBag, words: list[Operand], keep: list[Array], cost: float, bags: int, find: KernelCall | None = None) -> Native:
    """The call of a bag kernel, behind that which finds its offsets if there is one; threads share the bags."""
    call = (_function(spec), words)
    before = [] if find is None else [find]
    room = 8 * bags if before else 0

    def split(threads: int) -> Stages:
        return Stages([*([one] for one in before), shared_bags(call, bags, threads)], room)

    return Native(spec.name, [*before, call], room=room, keep=keep, cost=cost, split=split)


@chooses(CompressedBag)
def choose_bag(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    assert isinstance(operation, CompressedBag)
    indices, offsets, default, weights = _padded(inputs, 4)
    assert indices is not None and offsets is not None
    if reason := _refused(operation.table):
        return reason
    if not offsets.shape.is_static:
        return "the number of bags is known at the call only"
    spec = replace(_bag(operation, indices, weights is not None), strict=operation.strict)
    words, keep = _start(operation.table)
    bags = offsets.shape.static[0]
    words += [In(0), Length(0), In(1), bags]
    words += [0 if default is None else In(2), 0 if weights is None else In(3), Out(0), 0, bags]
    return _native(spec, words, keep, _cost(indices, bags, operation.table), bags)


takes_any_length((CompressedBag,), (0, 3))


@chooses(CompressedPacked)
def choose_packed(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    assert isinstance(operation, CompressedPacked)
    indices, weights = _padded(inputs, 2)
    assert indices is not None
    if reason := _refused(operation.table):
        return reason
    if not indices.shape.is_static:
        return "the number of indices is known at the call only"
    bags, each = indices.shape.static
    spec = replace(_bag(operation, indices, weights is not None), bags="fixed")
    words, keep = _start(operation.table)
    words += [In(0), bags * each, each, bags, 0, 0 if weights is None else In(1), Out(0), 0, bags]
    return _native(spec, words, keep, _cost(indices, bags, operation.table), bags)


@chooses(CompressedSegments)
def choose_segments(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    assert isinstance(operation, CompressedSegments)
    indices, ids, count, default, weights = _padded(inputs, 5)
    assert indices is not None and ids is not None and count is not None
    if reason := _refused(operation.table):
        return reason
    if count.value is None:
        return "the number of segments is known at the call only"
    segments = int(count.value)
    # Sorted ids are turned into offsets; unsorted ones are refused by the kernel and summed by the reference.
    finder = Segments(ids.element_type.name)
    spec = _bag(operation, indices, weights is not None)
    words, keep = _start(operation.table)
    words += [In(0), Length(0), Room(), segments]
    words += [0 if default is None else In(3), 0 if weights is None else In(4), Out(0), 0, segments]
    find: KernelCall = (_segment_offsets(finder), [In(1), Length(1), segments, Room()])
    return _native(spec, words, keep, _cost(indices, segments, operation.table), segments, find)


takes_any_length((CompressedSegments,), (0, 1, 4))


@chooses(CompressedGather)
def choose_gather(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    assert isinstance(operation, CompressedGather) and isinstance(operation.lookup, (Gather1, Gather7))
    indices = inputs[0]
    assert indices is not None
    if reason := _refused(operation.table):
        return reason
    if not indices.shape.is_static:
        return "the number of indices is known at the call only"
    spec = QuantisedGather(rows_of(operation.table), indices.element_type.name, operation.lookup.counts_from_end, operation.strict)
    count = math.prod(indices.shape.static)
    words, keep = _start(operation.table)
    words += [In(0), count, Out(0)]
    return Native(spec.name, [(_function(spec), words)], keep=keep, cost=_cost(indices, 0, operation.table))
