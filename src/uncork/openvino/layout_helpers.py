"""Axes of a layout by what they are."""

from __future__ import annotations

from typing import Any

from uncork.openvino._layout import as_layout


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
