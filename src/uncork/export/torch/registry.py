"""The lowerings to torch: functions that write the torch expression which means the same.

`lowering(writer, operation, *inputs)` returns an expression for each output, as `Written` tells.
"""

from __future__ import annotations

from uncork.export.registry import Registry

REGISTRY = Registry("torch", f"{__package__}.families")
lowers = REGISTRY.lowers
lowerings = REGISTRY.lowerings
