"""Look-ups read constant tables as they are stored: the f32 table is never made.

Recognised, as converters, NNCF and `uncork shrink` write it, for a table [rows, d...] in f32:

    Const (u8, i8, u4, i4, f16, bf16) -> Convert (f32)
        -> Subtract (zero points) -> Multiply (scales) -> Reshape

every step may be missing; zero points and scales are one for all, one for each row, or one for each
group of numbers of a row that follow each other, constants or converted constants. Groups are a
dimension of their own of the constant, which the Reshape joins with the numbers in a group. The
arithmetic may also be in f16 with a Convert to f32 at the end. Tables of up to `FOLD_LIMIT`
elements are constants already.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork import storage
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
from uncork.ops.arithmetic import Multiply, Subtract
from uncork.ops.convert import Convert1
from uncork.ops.embedding_bag_offsets import EmbeddingBagOffsets15, EmbeddingBagOffsetsSum3
from uncork.ops.embedding_bag_packed import EmbeddingBagPacked15, EmbeddingBagPackedSum3
from uncork.ops.embedding_segments_sum import EmbeddingSegmentsSum3
from uncork.ops.gather import Gather1, Gather7, Gather8
from uncork.ops.matmul import MatMul
from uncork.ops.parameter import Const
from uncork.ops.reshape import Reshape1
from uncork.passes.absorb_index_converts import absorb_index_converts
from uncork.passes.compressed_products import chosen_matrices
from uncork.passes.rewrite import constant_of_floats, replaced
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
_STORED = _FOUR_BITS | {ElementType.u8, ElementType.i8, ElementType.f16, ElementType.bf16}
#: Values that are packed at a time; even, so that parts end where bytes do.
_PART = 1 << 20
_LINE = 64


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
    chains = {source: _chain(model, source) for source in {node.inputs[0] for node in lookups}}
    tables = {source: chain.table() for source, chain in chains.items() if chain is not None}
    if not tables:
        return model
    # where ids are converted first, they are taken as they come
    ids_fused = absorb_index_converts(model).by_id
    new: dict[int, Node] = {}
    for node in lookups:
        if node.inputs[0] in tables and node.operation is not None:
            fused = ids_fused[node.id]
            narrowed = isinstance(fused.operation, NarrowedBag)
            operation = LOOKUPS[type(node.operation)](
                node.operation, tables[node.inputs[0]], narrowed
            )
            new[node.id] = replace(node, inputs=fused.inputs[1:], operation=operation)
    return replaced(model, new)


def packed_tables(model: Model) -> Model:
    """The model with such tables of 4-bit values as bytes of two values each, which is half of what
    arrays of them take.
    """
    lookups = [
        node for node in model.nodes if type(node.operation) in LOOKUPS and is_by_rows(model, node)
    ]
    chains = [_chain(model, source) for source in {node.inputs[0] for node in lookups}]
    new: dict[int, Node] = {}
    for chain in chains:
        if (
            chain is not None
            and chain.constant.element_type in _FOUR_BITS
            and not isinstance(chain.constant, PackedConst)
        ):
            constant = PackedConst.of(
                chain.constant.element_type, chain.constant.shape.static, _packed(chain.constant)
            )
            node = model.by_id[chain.node]
            new[node.id] = replace(
                node, operation=constant, outputs=(replace(node.outputs[0], spec=constant.infer()),)
            )
    return replaced(model, new) if new else model


def is_by_rows(model: Model, node: Node) -> bool:
    """Whether the node looks up whole rows of its first input: every bag does, and Gather along the
    first axis without batches.
    """
    if not isinstance(node.operation, (Gather1, Gather7)):
        return type(node.operation) in LOOKUPS
    data, indices, axis = (model.spec(source) for source in node.inputs)
    if axis.value is None or data.rank is None or indices.rank is None:
        return False
    return (
        int(axis.value.reshape(-1)[0]) in (0, -data.rank)
        and node.operation.batch_count(indices.rank) == 0
    )


class _Chain(Struct, frozen=True):
    """The layers that make a table, from the constant `node` on."""

    node: int
    constant: Const
    zero_point: Array | None
    scale: Array | None
    half: bool
    shape: tuple[int, ...]
    groups: int

    def table(self) -> CompressedTable:
        constant = self.constant
        packed = isinstance(constant, PackedConst)
        codes = (
            constant.packed
            if isinstance(constant, PackedConst)
            else np.ascontiguousarray(constant.value)
        )
        return CompressedTable(
            constant.element_type,
            self.shape,
            codes,
            self.zero_point,
            self.scale,
            self.half,
            packed,
            self.groups,
        )


def _packed(constant: Const) -> Array:
    """The bytes of a constant, made in parts: packing takes several times the room of what it
    packs.

    They begin at a cache line, as they would in a file: a row in two lines costs twice.
    """
    values = np.ascontiguousarray(constant.value).reshape(-1)
    memory = np.empty(storage.packed_size(constant.element_type, len(values)) + _LINE, np.uint8)
    packed = memory[-memory.ctypes.data % _LINE :][: len(memory) - _LINE]
    for start in range(0, len(values), _PART):
        part = np.frombuffer(
            storage.pack(values[start : start + _PART], constant.element_type), np.uint8
        )
        packed[start // 2 : start // 2 + len(part)] = part
    return packed


def _chain(model: Model, source: Source) -> _Chain | None:
    """The layers that make this output, when it is a table as above and not computed already."""
    spec = model.spec(source)
    if (
        spec.value is not None
        or spec.element_type is not ElementType.f32
        or not spec.shape.is_static
        or not spec.shape.rank
    ):
        return None
    shape = spec.shape.static
    node = model.by_id[source.node]
    scale = zero_point = None
    half = False
    if (
        _converts(node)
        and model.spec(node.inputs[0]).element_type is ElementType.f16
        and not _is_constant(model, node.inputs[0])
    ):
        half = True
        node = model.by_id[node.inputs[0].node]
    if isinstance(node.operation, Reshape1):
        before = model.spec(node.inputs[0]).shape
        if not before.is_static or not before.rank or before.static[0] != shape[0]:
            return None
        node = model.by_id[node.inputs[0].node]
    wide = node.outputs[0].spec.shape
    stored = wide.static
    if isinstance(node.operation, Multiply):
        for this, other in (node.inputs, node.inputs[::-1]):
            scale = _parameter(model, other, stored)
            if scale is not None and model.spec(this).shape == wide:
                node = model.by_id[this.node]
                break
        else:
            return None
    if isinstance(node.operation, Subtract):
        zero_point = _parameter(model, node.inputs[1], stored)
        if zero_point is None or model.spec(node.inputs[0]).shape != wide:
            return None
        node = model.by_id[node.inputs[0].node]
    if not _converts(node):
        return None
    node_id = node.inputs[0].node
    constant = model.by_id[node_id].operation
    if (
        not isinstance(constant, Const)
        or constant.element_type not in _STORED
        or constant.shape != wide
    ):
        return None
    if half and constant.element_type is ElementType.bf16:  # which the first Convert would round
        return None
    places = max([shape[0], *(len(p) for p in (zero_point, scale) if p is not None)])
    groups = places // shape[0] if shape[0] else 1
    zero_point, scale = (_for_each(p, places) for p in (zero_point, scale))
    return _Chain(node_id, constant, zero_point, scale, half, shape, groups)


def _for_each(parameter: Array | None, places: int) -> Array | None:
    """Zero points or scales of so many places; one for all stays one."""
    if parameter is None or len(parameter) in (0, 1, places):
        return parameter
    return np.repeat(parameter, places // len(parameter))


def _converts(node: Node) -> bool:
    return isinstance(node.operation, Convert1)


def _is_constant(model: Model, source: Source) -> bool:
    return isinstance(model.by_id[source.node].operation, Const)


def _parameter(model: Model, source: Source, stored: tuple[int, ...]) -> Array | None:
    """Zero points or scales as f32 [rows * groups], [rows] or [1].

    None when they are not constants, or are not one for each group, for each row or for all.
    """
    shape = model.spec(source).shape
    if not shape.is_static:
        return None
    sizes = shape.static
    count = math.prod(sizes)
    if count != 1:
        if len(sizes) != len(stored):
            return None
        # one for each place along the first axes, which are rows and then groups of a row
        lead = next(
            (i for i, (a, b) in enumerate(zip(sizes, stored, strict=True)) if a != b), len(stored)
        )
        if not lead or any(size != 1 for size in sizes[lead:]):
            return None
        if count > stored[0] and count == math.prod(stored):  # more than the numbers themselves
            return None
    value = constant_of_floats(model, source)
    return None if value is None else value.astype(np.float32, copy=False).reshape(-1)
