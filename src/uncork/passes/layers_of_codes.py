"""Layers that compute on codes without products: means, and operations element by element whose
results are rounded to levels again, as the gates of squeeze and excitation are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uncork.internal_ops.fused import Fused
from uncork.internal_ops.quantized import (
    PLAIN,
    Grid,
    Held,
    QuantizedElements,
    QuantizedMean,
    as_held,
)
from uncork.ir.model import Model, Node, Source
from uncork.kernels.elementwise.lowering import has_lowering
from uncork.kernels.extents import KernelDeclined, has_extents
from uncork.kernels.quantized.select_elements import ONE, OTHER, elements_of, is_over_pixels, lies
from uncork.ops.reduce import ReduceMean
from uncork.passes.held_codes import Step
from uncork.passes.quantized_values import rounding_of
from uncork.passes.rewrite import as_members, only_before
from uncork.types import ElementType

#: Layers of one step at most.
_MOST = 8


def averaging(model: Model, node: Node, grids: Mapping[Source, Grid]) -> Step | None:
    """The step of a ReduceMean over pixels, on codes; its result are numbers."""
    grid = grids.get(node.inputs[0])
    if grid is None or not isinstance(node.operation, ReduceMean):
        return None
    data, axes = (model.spec(source) for source in node.inputs)
    if not has_extents(data) or not is_over_pixels(data, axes):
        return None
    if not data.shape[1].is_static:
        return None
    held = [Held(grid, True, int(data.shape[1])), PLAIN]
    return Step(QuantizedMean(node.operation, held, PLAIN), node.inputs, held, PLAIN)


def element_by_element(
    model: Model,
    read_by: Mapping[Source, list[Node]],
    node: Node,
    grids: Mapping[Source, Grid],
) -> Step | None:
    """The step of a FakeQuantize and of the layers element by element that make what it rounds, of
    tensors on grids and what is stretched over them; None where there are none, or no kernel.
    """
    result, grid = node.outputs[0].spec, rounding_of(model, node)
    if grid is None or not has_extents(result) or not result.rank or result.rank < 3:
        return None
    if not result.shape[1].is_static:
        return None
    chain = _chain(model, read_by, node, grids)
    if not chain and node.inputs[0] not in grids:
        return None
    inputs, members = as_members([*chain, node])
    channels = int(result.shape[1])
    held = []
    for source in inputs:
        own = grids.get(source)
        kind = lies(model.spec(source).shape, result.shape)
        coded = own is not None and kind not in (ONE, OTHER)
        held.append(Held(own, True, channels) if coded else PLAIN)
    into = Held(grid, True, channels)
    operation = QuantizedElements(Fused(members), held, into)
    try:
        elements_of(operation, as_held(held, map(model.spec, inputs)))
    except KernelDeclined:
        return None
    return Step(operation, inputs, held, into, [layer.id for layer in chain])


def _chain(
    model: Model,
    read_by: Mapping[Source, list[Node]],
    last: Node,
    grids: Mapping[Source, Grid],
) -> Sequence[Node]:
    """The layers before one that only it needs, which make tensors as large as its result of others
    that are on grids or smaller; none where there are too many.
    """
    found: list[Node] = []
    left = [(last, 0)]
    while left:
        reader, position = left.pop()
        source = reader.inputs[position]
        if source in grids or model.spec(source).shape != last.outputs[0].spec.shape:
            continue
        node = only_before(model, read_by, reader, position)
        if node is None or not _computes(node) or len(found) == _MOST:
            return ()
        found.append(node)
        left += [(node, n) for n in range(len(node.inputs))]
    order = {node.id for node in found}
    return [node for node in model.nodes if node.id in order]


def _computes(node: Node) -> bool:
    return (
        has_lowering(node.operation)
        and node.outputs[0].spec.element_type is ElementType.f32
        and not node.hints.in_f32
    )
