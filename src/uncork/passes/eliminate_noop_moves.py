"""Moves that leave every element in its place become views, or nothing where the shape stays, too.

A transposition that only axes of size 1 take part in, a slice of everything, tensors of which all
but one are empty: what converters write for all shapes is nothing to do for many. What reads a view
of the same shape reads what that does, and is beside it for passes that look at neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import extents, has_extents, product, same, same_extents
from uncork.kernels.select import is_view
from uncork.ops.transpose import order_of
from uncork.passes.rewrite import replaced
from uncork.types import ElementType, TensorSpec


def eliminate_noop_moves(model: Model) -> Model:
    """The model, whose shapes are those of the call, with a `View` for each such layer; of the same
    shape only where it is a result, or what is kept for the next call.
    """
    views = {node.id: view for node in model.nodes if (view := _viewed(model, node)) is not None}
    moved: dict[Source, Source] = {}
    for node in model.nodes:
        view = views.get(node.id, node)
        if is_view(view.operation) and _is_same(model, view):
            moved[Source(node.id, 0)] = moved.get(view.inputs[0], view.inputs[0])
    borders = {*model.results, *model.sinks}
    layers = [views.get(node.id, node) for node in model.nodes]
    read = {n.id: n if n.id in borders else n.reading(moved) for n in layers}
    return replaced(model, {n.id: read[n.id] for n in model.nodes if read[n.id] is not n})


def _is_same(model: Model, view: Node) -> bool:
    """Whether a view has the shape of what it is a view of, and refuses no call."""
    (data, *others), made = [model.spec(source) for source in view.inputs], view.outputs[0].spec
    known = has_extents(data) and has_extents(made) and made.value is None and _is_told(others)
    return known and same_extents(extents(data), extents(made))


def _viewed(model: Model, node: Node) -> Node | None:
    """The view in the place of a layer; None where it moves elements."""
    test = _TESTS.get(node.type_name)
    if test is None or len(node.outputs) != 1 or not node.inputs:
        return None
    output, inputs = node.outputs[0].spec, [model.spec(source) for source in node.inputs]
    is_open = output.value is not None or output.rank is None
    if is_open or output.element_type is ElementType.string:
        return None
    position = test(inputs, output) if node.type_name == "Concat" or _is_told(inputs[1:]) else None
    if position is None or not _as_many(inputs[position], output):
        return None
    others = (source for i, source in enumerate(node.inputs) if i != position)
    if not all(_is_sure(model, source) for source in others):
        return None
    return replace(node, inputs=(node.inputs[position],), operation=View(output.shape))


Specs = list[TensorSpec]


def _is_told(specs: Specs) -> bool:
    """Whether these values are known: a number of the call may be refused, also where no shape
    depends on it.
    """
    return all(spec.value is not None for spec in specs)


def _is_sure(model: Model, source: Source) -> bool:
    """Whether no layer before this output can refuse a call, so that they may be left out."""
    while model.spec(source).value is None:
        node = model.by_id[source.node]
        if node.type_name == "Parameter":
            return True
        specs = [model.spec(given) for given in node.inputs]
        if not is_view(node.operation) or not specs[0].shape.is_static or not _is_told(specs[1:]):
            return False
        source = node.inputs[0]
    return True


def _as_many(a: TensorSpec, b: TensorSpec) -> bool:
    """Whether both tensors have as many elements in every call."""
    known = has_extents(a) and has_extents(b)
    return known and same(product(extents(a)), product(extents(b)))


def _transpose(inputs: Specs, output: TensorSpec) -> int | None:
    order = inputs[1].value
    assert order is not None
    if inputs[0].rank is None:
        return None
    axes = order_of(order, inputs[0].rank)
    moved = [axis for axis in axes if inputs[0].shape[axis].static_size != 1]
    return 0 if moved == sorted(moved) else None


def _slice(inputs: Specs, output: TensorSpec) -> int | None:
    """The position of a slice's data, 0, where no step is negative; else None."""
    steps = inputs[3].value if len(inputs) > 3 else None
    return 0 if steps is None or bool((steps > 0).all()) else None


def _pad(inputs: Specs, output: TensorSpec) -> int | None:
    return None if any(np.any(spec.value) for spec in inputs[1:3]) else 0


def _concat(inputs: Specs, output: TensorSpec) -> int | None:
    """The position of the only input of a Concat that has elements; None where several have."""
    full = [
        i
        for i, spec in enumerate(inputs)
        if spec.rank is None or not any(dim.static_size == 0 for dim in spec.shape.dims)
    ]
    return full[0] if len(full) == 1 else None


def _whole(inputs: Specs, output: TensorSpec) -> int | None:
    """The position of the data, 0: with equally many elements nothing is repeated or left out."""
    return 0


_TESTS: Mapping[str, Callable[[Specs, TensorSpec], int | None]] = {
    "Concat": _concat,
    "Pad": _pad,
    "Slice": _slice,
    "StridedSlice": _slice,
    "Tile": _whole,
    "Transpose": _transpose,
}
