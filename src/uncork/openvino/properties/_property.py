"""How a property is named and given a value: `hint.performance_mode(PerformanceMode.LATENCY)`."""

from __future__ import annotations

from typing import Any

from uncork.openvino._any import OVAny


class Property(str):
    """The name of a property. `property()` is its name, `property(value)` the pair of both."""

    def __call__(self, *value: Any) -> Any:
        if not value:
            return str(self)
        return str(self), OVAny(value[0])
