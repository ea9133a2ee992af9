"""Convolutions over blocks of channels: data stay in blocks from layer to layer, and are brought
into them at the borders only (`block_candidates`, `block_choice`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.blocks import (
    BlockedConvolution,
    BlockedPooling,
    FromBlocks,
    ToBlocks,
    blocked_shape,
    to_blocks,
)
from uncork.internal_ops.fused import product_of
from uncork.internal_ops.held import HALF
from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node, Source
from uncork.kernels.convolution.tiles import block_of
from uncork.kernels.runtime.target import Target
from uncork.ops.convert import Convert1
from uncork.ops.convolution import Convolution1
from uncork.passes.between_blocks import MOVES
from uncork.passes.block_candidates import Candidate, side_of, stored_filters_of
from uncork.passes.block_choice import chosen_of
from uncork.passes.rewrite import NewLayers
from uncork.storage import encode
from uncork.types import ElementType, TensorSpec

_SINGLE = ElementType.f32


def block_channels(model: Model, target: Target) -> Model:
    """The model with convolutions over blocks where that pays."""
    chosen, halves = chosen_of(model, target)
    return _rewritten(model, chosen, halves, target) if chosen else model


def _rewritten(
    model: Model, chosen: Mapping[int, Candidate], halves: set[int], target: Target
) -> Model:
    """The model with the chosen layers over blocks; tensors between those of `halves` are bf16, and
    all that is computed element by element is computed in f32 between two conversions.
    """
    layers = NewLayers(model)
    added, nodes = layers.add, layers.nodes
    names = {node.id: node.name for node in model.nodes}
    changed: dict[tuple[Source, bool], Source] = {}
    converted: dict[tuple[Source, ElementType], Source] = {}

    def held(source: Source, spec: TensorSpec, element_type: ElementType) -> Source:
        """A tensor of the spec's type as one of another type."""
        if spec.element_type is element_type:
            return source
        key = source, element_type
        if key not in converted:
            operation = Convert1(destination_type=element_type)
            made = replace(spec, element_type=element_type, value=None, elements=None)
            name = f"{names.get(source.node, 'blocks')}/{element_type}"
            converted[key] = added(name, operation, (source,), made)
        return converted[key]

    def lying(source: Source, block: int) -> TensorSpec:
        """The spec of a tensor that a chosen layer makes."""
        spec = model.spec(source)
        kind = HALF if source.node in halves else spec.element_type
        shape = blocked_shape(spec.shape, block)
        return replace(spec, element_type=kind, shape=shape, value=None, elements=None)

    def turned(
        source: Source, operation: ToBlocks | FromBlocks, spec: TensorSpec, there: Source
    ) -> Source:
        """A tensor, which lies `there` in f32, in the other layout, made where it is first read."""
        key = source, isinstance(operation, ToBlocks)
        if key not in changed:
            name = f"{model.by_id[source.node].name} ({'in' if key[1] else 'out of'} blocks)"
            value = model.spec(source).value
            if value is not None and isinstance(operation, ToBlocks):
                turned_value = to_blocks(np.asarray(value), operation.block)
                changed[key] = layers.constant(turned_value, spec.element_type, name)
            else:
                # Of one pixel the channels lie in their order in blocks as well.
                pixels = spec.shape.dims[2:-1] if key[1] else spec.shape.dims[2:]
                moves = any(dim.static_size != 1 for dim in pixels)
                how = operation if moves else View(spec.shape)
                changed[key] = added(name, how, (there,), spec)
        return changed[key]

    def given(node: Node, position: int) -> Source:
        source, candidate = node.inputs[position], chosen.get(node.id)
        if (
            candidate is not None
            and candidate.other is not None
            and position in candidate.other.constants
        ):
            return layers.constant(
                candidate.other.constants[position],
                model.spec(source).element_type,
                f"{node.name} (input {position} over blocks)",
            )
        spec, lies = model.spec(source), candidate is not None and candidate.lies[position]
        if not lies and source.node not in chosen:
            return source
        maker = chosen.get(source.node)
        if maker is None:
            deep = candidate is not None and candidate.deep
            few = candidate.few if candidate is not None and position == 0 else 0
            block = few or block_of(int(spec.shape[1]), target, deep=deep)
        else:
            block = maker.block
        if not lies:
            return turned(source, FromBlocks(), spec, held(source, lying(source, block), _SINGLE))
        # What is computed element by element is given f32.
        kind = HALF if node.id in halves and not _in_f32(candidate) else _SINGLE
        if source.node in chosen:
            return held(source, lying(source, block), kind)
        blocked = replace(spec, shape=blocked_shape(spec.shape, block))
        there = turned(source, ToBlocks(block), blocked, source)
        if kind is HALF and spec.value is not None:
            halves_ = encode(to_blocks(spec.value, block), HALF)
            return layers.constant(halves_, HALF, f"{names[source.node]} (bf16)")
        return held(there, blocked, kind)

    def with_zeros(node: Node, channels: int) -> Source:
        """The filters of a convolution for so many channels, the last of which are zeros."""
        filters = model.spec(node.inputs[1])
        assert filters.value is not None
        product = product_of(node.checked_operation)
        assert isinstance(product, Convolution1)
        axis = product.lead - 1
        around = [(0, 0)] * filters.value.ndim
        around[axis] = (0, channels - filters.value.shape[axis])
        name = f"{names[node.inputs[1].node]} (with zeros)"
        return layers.constant(np.pad(filters.value, around), filters.element_type, name)

    for node in model.nodes:
        inputs = tuple(given(node, position) for position in range(len(node.inputs)))
        candidate = chosen.get(node.id)
        if candidate is not None and candidate.few:
            inputs = (inputs[0], with_zeros(node, candidate.few), *inputs[2:])
        stored = None if candidate is None or candidate.other else stored_filters_of(model, node)
        if stored is not None and candidate is not None:
            name = f"{names[node.inputs[1].node]} (codes)"
            matrix = stored.matrix
            codes = layers.constant(matrix.codes, matrix.element_type, name)
            inputs = (inputs[0], codes, *inputs[2:])
            if not candidate.side and node.id not in halves:
                note = f"filters in {matrix.element_type}{' by f16' if matrix.half else ''}"
                node = replace(node, hints=replace(node.hints, note=note))
        if candidate is None:
            nodes.append(replace(node, inputs=inputs) if inputs != node.inputs else node)
            continue
        other = candidate.other
        half = node.id in halves
        blocked = (
            BlockedConvolution(
                node.checked_operation,
                candidate.lies,
                candidate.block,
                half,
                side_of(candidate.side, half, target),
                stored,
            )
            if other is None
            else other.operation
        )
        if half and isinstance(blocked, BlockedPooling):
            blocked = blocked.replace(half=True)
        results = [lying(Source(node.id, n), candidate.block) for n in range(len(node.outputs))]
        if half and _in_f32(candidate):
            made = replace(results[0], element_type=_SINGLE)
            wide = added(f"{node.name}/f32", blocked, inputs, made)
            inputs, blocked = (wide,), Convert1(destination_type=HALF)
        ports = tuple(
            replace(port, spec=spec) for port, spec in zip(node.outputs, results, strict=True)
        )
        nodes.append(replace(node, inputs=inputs, outputs=ports, operation=blocked))
    return replace(model, nodes=tuple(nodes))


def _in_f32(candidate: Candidate | None) -> bool:
    """Whether a layer over blocks of bf16 computes in f32, between two conversions: element by
    element, or a mean.
    """
    other = None if candidate is None else candidate.other
    return other is not None and not isinstance(other.operation, (BlockedPooling, *MOVES))
