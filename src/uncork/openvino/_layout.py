"""`Layout` as OpenVINO has it: its errors are RuntimeErrors."""

from __future__ import annotations

from typing import Any

from uncork.openvino._errors import as_runtime_errors
from uncork.preprocessing import layouts


class Layout(layouts.Layout):
    """Names of axes: "NCHW", "N...C", "[n,h,w,c]"; `?` is one without a name."""

    __slots__ = ()

    def __init__(self, text: str = "") -> None:
        with as_runtime_errors():
            super().__init__(text)

    def __str__(self) -> str:
        return "[...]" if self.empty else self.to_string()

    def get_index_by_name(self, name: str) -> int:
        """The axis of a name; negative behind `...`. Raises RuntimeError where there is none."""
        with as_runtime_errors():
            return super().get_index_by_name(name)


def as_layout(value: Any) -> Layout:
    """A layout, or the one that a text means."""
    return value if isinstance(value, Layout) else Layout(value)


def axis_of(layout: Layout, name: str, rank: int) -> int:
    """The axis of a name, counted from the first."""
    return layout.get_index_by_name(name) % rank
