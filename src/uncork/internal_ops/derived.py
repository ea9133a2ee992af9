"""Internal operation: a constant that an exporter computes from one of the model."""

from __future__ import annotations

from collections.abc import Callable

from uncork.ops._ports import Field
from uncork.ops.parameter import Const
from uncork.types import Array


class Derived(Const):
    """A constant computed from another one, not before its bytes are asked for."""

    base = Field[Const]()
    function = Field[Callable[[Array], Array]]()

    @property
    def value(self) -> Array:  # type: ignore[override]
        return self.function(self.base.value)
