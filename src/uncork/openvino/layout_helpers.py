"""Axes of a layout by what they are."""

from __future__ import annotations

from typing import Any

from uncork.openvino._errors import invalid
from uncork.openvino._layout import Layout, as_layout
from uncork.openvino._node import Parameter, Result


def has_batch(layout: Any) -> bool:
    """Whether an axis is N."""
    return as_layout(layout).has_name("N")


def batch_idx(layout: Any) -> int:
    """The axis N."""
    return as_layout(layout).get_index_by_name("N")


def has_channels(layout: Any) -> bool:
    """Whether an axis is C."""
    return as_layout(layout).has_name("C")


def channels_idx(layout: Any) -> int:
    """The axis C."""
    return as_layout(layout).get_index_by_name("C")


def has_depth(layout: Any) -> bool:
    """Whether an axis is D."""
    return as_layout(layout).has_name("D")


def depth_idx(layout: Any) -> int:
    """The axis D."""
    return as_layout(layout).get_index_by_name("D")


def has_height(layout: Any) -> bool:
    """Whether an axis is H."""
    return as_layout(layout).has_name("H")


def height_idx(layout: Any) -> int:
    """The axis H."""
    return as_layout(layout).get_index_by_name("H")


def has_width(layout: Any) -> bool:
    """Whether an axis is W."""
    return as_layout(layout).has_name("W")


def width_idx(layout: Any) -> int:
    """The axis W."""
    return as_layout(layout).get_index_by_name("W")


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
