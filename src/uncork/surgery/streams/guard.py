"""Frames of a call that are no multiple of what strides ask for would lose the place: they are
refused, in uncork and in OpenVINO.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from uncork.ir.build import Builder
from uncork.ir.model import Model, Node, Source
from uncork.types import PartialShape


def guarded(model: Model, axes: Mapping[int, int], multiple: int) -> Model:
    """The model with a Reshape behind each input in time, to groups of `multiple` frames, which
    fails where they do not divide.
    """
    if multiple == 1:
        return model
    nodes: list[Node] = []
    moved: dict[Source, Source] = {}
    fresh = model.next_id
    for node in model.nodes:
        node = node.reading(moved)
        nodes.append(node)
        if node.id not in model.parameters:
            continue
        axis = axes.get(model.parameters.index(node.id))
        shape = node.outputs[0].spec.shape
        if axis is None or shape[axis].is_static:
            continue
        made = _groups(node, shape, axis, multiple, fresh)
        fresh += len(made)
        nodes.extend(made)
        moved[Source(node.id, 0)] = Source(made[-1].id, 0)
    return replace(model, nodes=tuple(nodes))


def _groups(node: Node, shape: PartialShape, axis: int, multiple: int, fresh: int) -> list[Node]:
    """The layers that check one input, numbered from `fresh` on."""
    builder = Builder()
    source = builder.parameter("x", node.outputs[0].spec.element_type, shape)
    sizes = builder.add("ShapeOf", 3, source, output_type="i64")[0]

    def part(first: int, last: int) -> list[Source]:
        if first == last:
            return []
        bounds = (builder.constant(np.array([n])) for n in (first, last, 1))
        return [builder.add("Slice", 8, sizes, *bounds)[0]]

    groups = builder.constant(np.array([-1, multiple]))
    parts = [*part(0, axis), groups, *part(axis + 1, len(shape))]
    name = f"frames of '{node.name}' are a multiple of {multiple}"
    target = parts[0] if len(parts) == 1 else builder.add("Concat", 1, *parts, axis=0)[0]
    grouped = builder.add("Reshape", 1, source, target, special_zero=False, name=name)[0]
    builder.add("Reshape", 1, grouped, sizes, special_zero=False)
    return behind(node, builder, fresh, node.name, name)


def behind(first: Node, builder: Builder, fresh: int, prefix: str, plain: str) -> list[Node]:
    """What a builder has made of a Parameter, as layers behind `first`, numbered from `fresh` on.
    Their names begin with the prefix, but for the `plain` one.
    """
    _, *made = builder.model().nodes
    numbers = {0: first.id, **{own.id: fresh + i for i, own in enumerate(made)}}
    return [
        replace(
            own,
            id=numbers[own.id],
            name=own.name if own.name == plain else f"{prefix}/{own.name}",
            inputs=tuple(Source(numbers[s.node], s.output) for s in own.inputs),
        )
        for own in made
    ]
