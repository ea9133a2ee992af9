"""Convolutions over blocks of channels: data stay in blocks from layer to layer, and are brought
into them at the borders only (`block_candidates`, `block_choice`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.blocks import (
    BlockedConvolution,
    BlockedNormalization,
    BlockedPooling,
    ChannelLayout,
    FromBlocks,
    ToBlocks,
)
from uncork.internal_ops.held import HALF
from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node, Source
from uncork.kernels.runtime.target import Target
from uncork.ops import Operation
from uncork.ops.convert import Convert1
from uncork.ops.interpolate import InterpolateByInputs
from uncork.ops.mvn import MVN6
from uncork.passes.between_blocks import MOVES
from uncork.passes.block_candidates import Candidate, side_of, stored_filters_of
from uncork.passes.block_choice import chosen_of
from uncork.passes.rewrite import NewLayers
from uncork.passes.zero_channels import filled, kept_channels, stored_filled, with_kept
from uncork.storage import encode
from uncork.types import ElementType, TensorSpec

_SINGLE = ElementType.f32
#: What reads tensors of bf16, where these lie so, and rounds its result.
_READ_HALVES = BlockedPooling, BlockedNormalization


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
    changed: dict[tuple[Source, bool, ChannelLayout], Source] = {}
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

    def lying(source: Source) -> TensorSpec:
        """The spec of a tensor that a chosen layer makes."""
        spec = model.spec(source)
        kind = HALF if source.node in halves else spec.element_type
        shape = chosen[source.node].made[source.output].shape(spec.shape)
        return replace(spec, element_type=kind, shape=shape, value=None, elements=None)

    def turned(
        source: Source, operation: ToBlocks | FromBlocks, spec: TensorSpec, there: Source
    ) -> Source:
        """A tensor, which lies `there` in f32, in the other layout, made where it is first read."""
        into, layout = isinstance(operation, ToBlocks), operation.layout
        key = source, into, layout
        if key not in changed:
            name = f"{model.by_id[source.node].name} ({'in' if into else 'out of'} blocks)"
            value = model.spec(source).value
            if value is not None and into:
                laid = layout.laid(np.asarray(value))
                changed[key] = layers.constant(laid, spec.element_type, name)
            else:
                # Of one pixel the channels lie in their order in full blocks as well.
                pixels = spec.shape.dims[2:-1] if into else spec.shape.dims[2:]
                moves = any(dim.static_size != 1 for dim in pixels) or not layout.is_full
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
        spec = model.spec(source)
        layout = None if candidate is None else candidate.given[position]
        if layout is None:
            if source.node not in chosen:
                return source
            there = held(source, lying(source), _SINGLE)
            own = chosen[source.node].made[source.output]
            return turned(source, FromBlocks(layout=own), spec, there)
        # What is computed element by element is given f32.
        kind = HALF if node.id in halves and not _in_f32(candidate) else _SINGLE
        if source.node in chosen:
            return held(source, lying(source), kind)
        blocked = replace(spec, shape=layout.shape(spec.shape))
        there = turned(source, ToBlocks(layout=layout), blocked, source)
        if kind is HALF and spec.value is not None:
            halves_ = encode(layout.laid(spec.value), HALF)
            return layers.constant(halves_, HALF, f"{names[source.node]} (bf16)")
        return held(there, blocked, kind)

    def with_zeros(node: Node, candidate: Candidate, position: int, source: Source) -> Source:
        """An input of a convolution, with zeros for channels that are zeros."""
        value = model.spec(node.inputs[position]).value
        if value is None or candidate.lies[position]:
            return source
        made = filled(node, candidate, position, value)
        if made is value:
            return source
        kind = model.spec(node.inputs[position]).element_type
        return layers.constant(made, kind, f"{names[node.inputs[position].node]} (with zeros)")

    for node in model.nodes:
        inputs = tuple(given(node, position) for position in range(len(node.inputs)))
        candidate = chosen.get(node.id)
        if candidate is not None and candidate.other is None:
            inputs = tuple(
                with_zeros(node, candidate, position, source)
                for position, source in enumerate(inputs)
            )
        stored = None if candidate is None or candidate.other else stored_filters_of(model, node)
        if stored is not None and candidate is not None:
            stored = stored_filled(node, candidate, stored)
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
        operation, lies = node.checked_operation, candidate.lies
        if other is None and not candidate.made[0].is_full:
            kept = kept_channels(node, candidate)
            inputs = (*inputs, layers.constant(kept, _SINGLE, f"{node.name} (kept channels)"))
            operation, lies = with_kept(operation, len(lies)), (*lies, False)
        blocked = (
            BlockedConvolution(
                operation,
                lies,
                candidate.made[0].block,
                half,
                side_of(candidate.side, half, target),
                stored,
            )
            if other is None
            else other.operation
        )
        if half and _by_deviation(blocked):
            blocked = BlockedNormalization(blocked, lies, candidate.made[0].block)
        if half and isinstance(blocked, _READ_HALVES):
            blocked = blocked.replace(half=True)
        results = [lying(Source(node.id, n)) for n in range(len(node.outputs))]
        if half and _in_f32(candidate):
            made = replace(results[0], element_type=_SINGLE)
            wide = added(f"{node.name}/f32", blocked, inputs, made)
            inputs, blocked = (wide,), Convert1(destination_type=HALF)
        ports = node.ports(results)
        nodes.append(replace(node, inputs=inputs, outputs=ports, operation=blocked))
    return replace(model, nodes=tuple(nodes))


def _in_f32(candidate: Candidate | None) -> bool:
    """Whether a layer over blocks of bf16 computes in f32, between two conversions: element by
    element, or a mean.
    """
    other = None if candidate is None else candidate.other
    if other is None or _by_deviation(other.operation):
        return False
    return not isinstance(other.operation, (*_READ_HALVES, *MOVES, InterpolateByInputs))


def _by_deviation(operation: Operation) -> bool:
    """Whether it normalises the pixels of each channel as group normalisation does: of bf16 its
    kernel does so, too; of f32 that of MVN is faster.
    """
    return (
        isinstance(operation, MVN6)
        and operation.normalize_variance
        and operation.eps_mode == "inside_sqrt"
    )
