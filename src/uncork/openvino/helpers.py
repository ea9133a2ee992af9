"""Functions beside models: the size of the batch, read and set."""

from __future__ import annotations

from typing import Any

from uncork.openvino._errors import invalid_if
from uncork.openvino._model import Model
from uncork.openvino._shapes import Dimension, PartialShape


def _batched(model: Model) -> dict[int, int]:
    """The axis of the batch of every input whose layout names one, which some has to."""
    axes = {
        position: node.layout.get_index_by_name("N")
        for position, node in enumerate(model.get_parameters())
        if node.layout.has_name("N")
    }
    invalid_if(not axes, "no input has a layout with N: parameter.set_layout(Layout('N...'))")
    return axes


def get_batch(model: Model) -> Dimension:
    """The size of the batch, the axis N of the inputs' layouts."""
    sizes = [model.input(at).partial_shape[axis] for at, axis in _batched(model).items()]
    invalid_if(
        any(size != sizes[0] for size in sizes),
        f"inputs have batches of different sizes: {', '.join(map(str, sizes))}",
    )
    return sizes[0]


def set_batch(model: Model, batch_size: Any = -1) -> None:
    """Have batches of another size, along the axis N of the inputs' layouts."""
    shapes: dict[Any, PartialShape] = {}
    for position, axis in _batched(model).items():
        shape = PartialShape(model.input(position).partial_shape)
        shape[axis] = Dimension(batch_size)
        shapes[position] = shape
    model.reshape(shapes)
