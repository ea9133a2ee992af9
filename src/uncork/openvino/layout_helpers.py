"""Axes of a layout by what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uncork.openvino._errors import invalid
from uncork.openvino._layout import Layout, as_layout
from uncork.openvino._node import Parameter, Result


def _of_axis(letter: str) -> tuple[Callable[[Any], bool], Callable[[Any], int]]:
    """Whether a layout has an axis of this letter, and which one it is."""

    def has(layout: Any) -> bool:
        return as_layout(layout).has_name(letter)

    def index(layout: Any) -> int:
        return as_layout(layout).get_index_by_name(letter)

    return has, index


has_batch, batch_idx = _of_axis("N")
has_channels, channels_idx = _of_axis("C")
has_depth, depth_idx = _of_axis("D")
has_height, height_idx = _of_axis("H")
has_width, width_idx = _of_axis("W")


def get_layout(port: Any) -> Layout:
    """The layout of an input or an output of a model."""
    return _end(port).get_layout()


def set_layout(port: Any, layout: Any) -> None:
    """Say what the axes of an input or an output of a model are."""
    _end(port).set_layout(layout)


def _end(port: Any) -> Parameter | Result:
    """The parameter or the result that a port is of."""
    node = port.get_node()
    if isinstance(node, (Parameter, Result)):
        return node
    for target in port.get_target_inputs():
        end = target.get_node()
        if isinstance(end, Result):
            return end
    raise invalid(f"{port!r} is no input or output of a model, which have layouts")
