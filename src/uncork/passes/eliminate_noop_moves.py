"""Layers that move values become views where, for the shapes of the call, every element stays in its place.

A transposition that only axes of size 1 take part in, a slice of everything, tensors of which all but one are empty: what
converters write for all shapes is nothing to do for many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node
from uncork.passes.rewrite import replaced
from uncork.types import ElementType, TensorSpec


def views_of_moves(model: Model) -> Model:
    """The model, whose shapes are those of the call, with a `View` for each such layer."""
    new: dict[int, Node] = {}
    for node in model.nodes:
        test = _TESTS.get(node.type_name)
        if test is None or len(node.outputs) != 1 or not node.inputs:
            continue
        output, inputs = node.outputs[0].spec, [model.spec(source) for source in node.inputs]
        if output.value is not None or not output.shape.is_static or output.element_type is ElementType.string:
            continue
        position = test(inputs, output)
        if position is not None and inputs[position].shape.is_static and inputs[position].shape.size == output.shape.size:
            operation = View(output.shape)
            new[node.id] = replace(node, inputs=(node.inputs[position],), operation=operation, type_name=operation.type_name)
    return replaced(model, new) if new else model


Specs = list[TensorSpec]


def _transpose(inputs: Specs, output: TensorSpec) -> int | None:
    order = inputs[1].value
    if order is None or inputs[0].rank is None:
        return None
    axes = [int(axis) for axis in order.reshape(-1)] or list(range(inputs[0].rank))[::-1]
    moved = [axis for axis in axes if inputs[0].shape[axis].size != 1]
    return 0 if moved == sorted(moved) else None


def _slice(inputs: Specs, output: TensorSpec) -> int | None:
    """As many elements as there are, none of them backwards."""
    steps = inputs[3].value if len(inputs) > 3 else None
    return 0 if len(inputs) < 4 or (steps is not None and bool((steps > 0).all())) else None


def _pad(inputs: Specs, output: TensorSpec) -> int | None:
    pads = [spec.value for spec in inputs[1:3]]
    return 0 if all(pad is not None and not pad.any() for pad in pads) else None


def _concat(inputs: Specs, output: TensorSpec) -> int | None:
    """The only one with elements."""
    full = [i for i, spec in enumerate(inputs) if not spec.shape.is_static or 0 not in spec.shape.static]
    return full[0] if len(full) == 1 else None


def _whole(inputs: Specs, output: TensorSpec) -> int | None:
    """As many elements as before: nothing is repeated or left out."""
    return 0


_TESTS: Mapping[str, Callable[[Specs, TensorSpec], int | None]] = {
    "Concat": _concat,
    "Pad": _pad,
    "Slice": _slice,
    "StridedSlice": _slice,
    "Tile": _whole,
    "Transpose": _transpose,
}
