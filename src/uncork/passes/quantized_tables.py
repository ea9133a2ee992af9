"""Look-ups read constant tables as they are stored: the f32 table is never made.

What is recognised says `stored_values`: zero points and scales are one for all, for each row, or
for each group of numbers of a row that follow each other. Tables of up to `FOLD_LIMIT` elements are
constants already.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.codes import Codes
from uncork.internal_ops.decompression import Step
from uncork.internal_ops.fused import NarrowedBag
from uncork.internal_ops.packed_const import PackedConst
from uncork.internal_ops.quantized_lookup import (
    CompressedBag,
    CompressedGather,
    CompressedLookup,
    CompressedPacked,
    CompressedSegments,
    CompressedTable,
)
from uncork.ir.model import Model, Node, Source
from uncork.kernels.runtime.target import Target
from uncork.ops import Operation
from uncork.ops.embedding_bag_offsets import EmbeddingBagOffsets15, EmbeddingBagOffsetsSum3
from uncork.ops.embedding_bag_packed import EmbeddingBagPacked15, EmbeddingBagPackedSum3
from uncork.ops.embedding_segments_sum import EmbeddingSegmentsSum3
from uncork.ops.gather import Gather, Gather1, Gather7, Gather8
from uncork.ops.matmul import MatMul
from uncork.ops.parameter import Const
from uncork.passes.absorb_index_converts import absorb_index_converts
from uncork.passes.compressed_products import chosen_matrices
from uncork.passes.match_parts import gathered_axis
from uncork.passes.rewrite import replaced
from uncork.passes.stored_values import steps_from_constant, stored_values
from uncork.types import Array, ElementType

#: Layers that look up rows of their first input, and what they become.
LOOKUPS: dict[type[Operation], type[CompressedLookup]] = {
    EmbeddingBagOffsetsSum3: CompressedBag,
    EmbeddingBagOffsets15: CompressedBag,
    EmbeddingBagPackedSum3: CompressedPacked,
    EmbeddingBagPacked15: CompressedPacked,
    EmbeddingSegmentsSum3: CompressedSegments,
    Gather1: CompressedGather,
    Gather7: CompressedGather,
    Gather8: CompressedGather,
}
_FOUR_BITS = frozenset({ElementType.u4, ElementType.i4})
#: Numbers of a row that kernels have room for on their stacks.
_LONGEST = 1 << 15


def compressed_tables(model: Model, target: Target | None) -> Model:
    """The model with such look-ups holding their tables as they are stored, for a processor with
    kernels or without.

    Layers that only made a table are gone.
    """
    multiplied = {
        chosen[0].id
        for node in model.nodes
        if isinstance(node.operation, MatMul)
        and (chosen := chosen_matrices(model, node.inputs[1])) is not None
    }
    lookups = [
        node
        for node in model.nodes
        if type(node.operation) in LOOKUPS
        and is_by_rows(model, node)
        # products read them as they are stored
        and (target is None or node.id not in multiplied)
    ]
    # Sums of rows read them where they lie.
    summed = {node.inputs[0] for node in lookups if not isinstance(node.operation, Gather)}
    tables = {
        source: _table(model, source, source not in summed)
        for source in {node.inputs[0] for node in lookups}
    }
    if not any(tables.values()):
        return model
    # where ids are converted first, they are taken as they come
    ids_fused = absorb_index_converts(model).by_id
    new: dict[int, Node] = {}
    for node in lookups:
        table = tables[node.inputs[0]]
        if table is not None and node.operation is not None:
            fused = ids_fused[node.id]
            narrowed = isinstance(fused.operation, NarrowedBag)
            operation = LOOKUPS[type(node.operation)](node.operation, table, narrowed)
            new[node.id] = replace(node, inputs=fused.inputs[1:], operation=operation)
    return replaced(model, new)


def packed_tables(model: Model) -> Model:
    """The model with such tables of 4-bit values as bytes of two values each, which is half of what
    arrays of them take.
    """
    lookups = [
        node for node in model.nodes if type(node.operation) in LOOKUPS and is_by_rows(model, node)
    ]
    new: dict[int, Node] = {}
    for source in {node.inputs[0] for node in lookups}:
        path = steps_from_constant(model, source) if _is_made(model, source) else None
        node = None if path is None else path[-1]
        constant = None if node is None else node.operation
        if (
            node is not None
            and isinstance(constant, Const)
            and constant.element_type in _FOUR_BITS
            and not isinstance(constant, PackedConst)
        ):
            packed = Codes.of(constant).laid([constant.count]).array
            held = PackedConst.of(constant.element_type, constant.shape.static, packed)
            port = replace(node.outputs[0], spec=held.infer())
            new[node.id] = replace(node, operation=held, outputs=(port,))
    return replaced(model, new)


def is_by_rows(model: Model, node: Node) -> bool:
    """Whether the node looks up whole rows of its first input: every bag does, and Gather along the
    first axis without batches.
    """
    if isinstance(node.operation, Gather):
        return gathered_axis(model, node) == 0
    return type(node.operation) in LOOKUPS


def _is_made(model: Model, source: Source) -> bool:
    """Whether layers compute a table of f32 that is not a constant already."""
    spec = model.spec(source)
    static = spec.shape.is_static and bool(spec.shape.rank)
    return static and spec.value is None and spec.element_type is ElementType.f32


def _table(model: Model, source: Source, planes: bool) -> CompressedTable | None:
    """The table that layers make of small numbers, as those are stored, perhaps in bit planes; None
    where it is not.
    """
    stored = stored_values(model, source) if _is_made(model, source) else None
    if stored is None:
        return None
    shape = model.spec(source).shape.static
    found = stored.table(planes and math.prod(shape[1:]) <= _LONGEST)
    if found is None:
        return None
    groups, later = found.shape[1], found.later
    zero_points, scales = found.zero_points, found.scales
    if groups > 1:  # all operands stay where they lie
        first = [(zero_points, True), (scales, False)]
        given = [(array, subtracts) for array, subtracts in first if array is not None]
        later = (*(Step(array, subtracts, found.half) for array, subtracts in given), *later)
        zero_points, scales = None, None
    zero_point, scale = (
        None if p is None else p.reshape(-1) if p.size == 1 else _of_each(p, found.shape[0])
        for p in (zero_points, scales)
    )
    return CompressedTable(
        found.element_type,
        shape,
        found.codes,
        zero_point,
        scale,
        found.half,
        found.packed is not None,
        groups,
        found.numbers,
        later,
        found.planes,
    )


def _of_each(parameter: Array, rows: int) -> Array:
    """Zero points or scales of every row."""
    return np.ascontiguousarray(np.broadcast_to(parameter, (rows, 1))).reshape(-1)
