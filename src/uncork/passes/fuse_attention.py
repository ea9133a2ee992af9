"""Attention becomes one step: MatMuls around a Softmax, or ScaledDotProductAttention, with the
layers that only move queries, keys, values and the result.

    SoftMax(MatMul(query, key) [* factor ..] [Tanh [* number]] [+ mask ..]) MatMul value

What is done to scores before masks is in `match_scores`. A mask may also select scores, and a
number elsewhere. Of several masks one is made (`match_masks`).

Heads that are moved beside each other, keys and values that are repeated for groups of heads, and
parts of one tensor are read where they lie; so are those in the storage of a variable, also where
rows lie there in fewer bits. A layer is part of it by what it does to shapes, whoever wrote it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.appended_state import StateValue
from uncork.internal_ops.attention import FusedAttention, Move, Scoring, Transposed
from uncork.internal_ops.coded_rows import RowCoding, coding_of
from uncork.ir.model import Model, Node, Source
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import is_view, select_kernel
from uncork.ops import Operation
from uncork.ops.attention import ScaledDotProductAttention
from uncork.ops.matmul import MatMul
from uncork.passes.match_masks import (
    Masks,
    additions_before,
    one_mask,
    one_selection,
    selections_before,
)
from uncork.passes.match_moves import moves_to, sizes_of, transpose_order
from uncork.passes.match_scores import scaled_query, scores_before
from uncork.passes.rewrite import NewLayers, only_before, only_reader, readers, replaced
from uncork.types import ElementType


class _Match(Struct, frozen=True):
    """Attention in a model: the layer that has its result, its inputs as the operation takes them,
    moves of query, key and value.
    """

    last: Node
    inputs: tuple[Source, ...]
    attention: Operation
    moves: tuple[tuple[Move, ...], ...] = ((), (), ())
    order: tuple[int, ...] = ()
    scoring: Scoring | None = None
    #: Of keys and values that lie in the storage of a variable: their axis, and how many there are.
    counted: tuple[tuple[int, Source] | None, tuple[int, Source] | None] = (None, None)
    #: How the rows of keys and values lie, where these are in fewer bits.
    coding: RowCoding | None = None
    #: Layers before the attention: one mask of several, queries times the factors of rows, tensors
    #: that are turned.
    made: tuple[Node, ...] = ()
    masks: Masks | None = None


def fuse_attention(model: Model, target: Target) -> Model:
    """The model, which has sizes, with a `FusedAttention` wherever there is a kernel for it."""
    read_by = readers(model)
    new: dict[int, Node | Sequence[Node]] = {}
    number = model.next_id
    for node in model.nodes:
        if isinstance(node.operation, ScaledDotProductAttention):
            found: _Match | None = _Match(node, node.inputs, node.operation)
        else:
            found = _spelled(model, read_by, node, number)
        if found is None:
            continue
        for variant in _variants(model, read_by, found, number):
            fused = _fused(model, variant, target)
            if fused is not None:
                new[fused.id] = (*variant.made, fused)
                number += len(variant.made)
                break
    return replaced(model, new)


def _variants(
    model: Model, read_by: Mapping[Source, list[Node]], found: _Match, number: int
) -> Iterator[_Match]:
    """The matches to try: with all layers that move the tensors of the attention, then with ever
    fewer of them. Layers that are made have numbers from this one on.
    """
    inputs, moves = list(found.inputs), list(found.moves)
    for position in range(3):
        if inputs[position].node not in model.by_id:  # it is made
            continue
        inputs[position], before = moves_to(model, inputs[position])
        moves[position] = (*before, *moves[position])
    after = only_reader(read_by, found.last)
    order = None if after is None else transpose_order(model, after)
    moved = replace(found, inputs=tuple(inputs), moves=tuple(moves))
    for whole in (_coded(model, moved), moved, _with_rows_turned(model, moved, number)):
        if whole is None:
            continue
        whole = _where_they_lie(model, whole)
        if after is not None and order is not None:
            yield replace(whole, last=after, order=order)
        if whole != found:
            yield whole
    if found.last.type_name == "MatMul":
        yield found
        turned = _with_rows_turned(model, found, number)
        if turned is not None:
            yield turned


def _with_rows_turned(model: Model, found: _Match, number: int) -> _Match | None:
    """The match whose queries and values layers turn where their rows do not lie as rows; None
    where there are none such.
    """
    inputs, moves = list(found.inputs), list(found.moves)
    layers = NewLayers(model, number + len(found.made))
    for position in (0, 2):  # keys are read either way
        orders = [move.order for move in moves[position] if isinstance(move, Transposed)]
        source = inputs[position]
        if not orders or len(orders) < len(moves[position]) or source.node not in model.by_id:
            continue
        order = np.arange(len(orders[0]))
        for then in orders:
            order = order[list(then)]
        if order[-1] != len(order) - 1:
            inputs[position] = layers.transposed(found.last, source, order.tolist())
            moves[position] = ()
    made = (*found.made, *layers.nodes)
    return (
        replace(found, inputs=tuple(inputs), moves=tuple(moves), made=made)
        if layers.nodes
        else None
    )


def _coded(model: Model, found: _Match) -> _Match | None:
    """The match with keys and values as they lie in fewer bits; None where they do not, or each
    otherwise.
    """
    layers = [model.by_id[source.node] for source in found.inputs[1:3]]
    codings = {
        coding_of(layer.operation, model.spec(layer.inputs[0])) if layer.inputs else None
        for layer in layers
    }
    if len(codings) != 1 or None in codings:
        return None
    query, _, _, *others = found.inputs
    inputs = (query, *(layer.inputs[0] for layer in layers), *others)
    return replace(found, inputs=inputs, coding=codings.pop())


def _where_they_lie(model: Model, found: _Match) -> _Match:
    """The match with keys and values in the storages of their variables."""
    inputs = list(found.inputs)
    counted: dict[int, tuple[int, Source]] = {}
    for position in (1, 2):
        value = model.by_id.get(inputs[position].node)
        if value is not None and isinstance(
            value.operation, StateValue
        ):  # which lies in the storage of a variable
            inputs[position] = value.inputs[0]
            counted[position] = (value.operation.axis, value.inputs[1])
    return replace(found, inputs=tuple(inputs), counted=(counted.get(1), counted.get(2)))


def _fused(model: Model, found: _Match, target: Target) -> Node | None:
    """The layer of the attention; None where there is no kernel for it."""
    key, value = found.counted
    axes = (key and key[0], value and value[0])
    masks = found.masks
    operation = FusedAttention(
        found.attention,
        found.moves,
        found.order,
        found.scoring,
        axes,
        found.coding,
        masks is not None and masks.recurs,
    )
    inputs = (*found.inputs, *(counted[1] for counted in found.counted if counted is not None))
    output = found.last.outputs[0].spec
    known = {node.id: node.outputs[0].spec for node in found.made}
    specs = [known.get(source.node) or model.spec(source) for source in inputs]
    choice = select_kernel(operation, specs, [output], target)
    if not isinstance(choice, KernelPlan):
        return None
    return replace(found.last, inputs=inputs, operation=operation)


# ---- spelled by products


def _spelled(
    model: Model, read_by: Mapping[Source, list[Node]], node: Node, number: int
) -> _Match | None:
    """The match of attention written as products and a Softmax, whose last product is this layer;
    else None. Layers that make its mask have numbers from this one on.
    """
    product = node.operation
    if not isinstance(product, MatMul) or product.transpose_a or not _is_product(model, node):
        return None
    weights, back = only_before(model, read_by, node, 0), None
    if weights is not None and is_view(weights.operation):
        weights, back = only_before(model, read_by, weights, 0), weights
    if weights is None or not _is_softmax(model, weights):
        return None
    layer, mask = only_before(model, read_by, weights, 0), None
    masks = None
    layers = NewLayers(model, number)
    layer, selections = selections_before(model, read_by, layer)
    added = layer is not None and layer.type_name == "Add"
    if selections and (added or back is not None):
        return None
    if selections:
        mask = one_selection(layers, weights, selections)
    elif (found := additions_before(model, read_by, layer, back)) is None:
        return None
    else:
        layer, additions = found
        if additions:
            whole = sizes_of(model, Source(layer.id, 0))
            masks = None if whole is None else one_mask(layers, whole, additions)
            if masks is None:
                return None
            mask = masks.source
    scores = scores_before(model, read_by, layer)
    if scores is None or not _is_product(model, scores.product):
        return None
    layer = scores.product
    assert isinstance(layer.operation, MatMul)
    query = scaled_query(layers, layer, layer.inputs[0], scores.of_rows)
    turned = layer.operation.transpose_a
    if query is None or (turned and scores.of_rows):
        return None
    key, value = layer.inputs[1], node.inputs[1]
    moves = (
        _turned(model, layer.inputs[0]) if turned else (),
        () if layer.operation.transpose_b else _turned(model, key),
        _turned(model, value) if product.transpose_b else (),
    )
    inputs = (query, key, value, *([] if mask is None else [mask]))
    attention = ScaledDotProductAttention(causal=False)
    hidden = selections[0].hidden if selections else -math.inf
    scoring = Scoring(scores.factor, scores.cap, hidden)
    match = _Match(node, inputs, attention, moves, (), scoring)
    return replace(match, made=tuple(layers.nodes), masks=masks)


def _is_product(model: Model, node: Node) -> bool:
    """Whether it is a product of f32 matrices in batches."""
    if not isinstance(node.operation, MatMul):
        return False
    specs = [model.spec(source) for source in node.inputs]
    return all(
        spec.element_type is ElementType.f32 and spec.rank is not None and spec.rank >= 3
        for spec in specs
    )


def _is_softmax(model: Model, node: Node) -> bool:
    rank = node.outputs[0].spec.rank if node.type_name == "SoftMax" and node.outputs else None
    return rank is not None and getattr(node.operation, "axis", None) in (-1, rank - 1)


def _turned(model: Model, source: Source) -> tuple[Move, ...]:
    """The move that exchanges the last two axes."""
    rank = model.spec(source).rank or 0
    return (Transposed((*range(rank - 2), rank - 1, rank - 2)),)
