"""The lowerings to ONNX: functions that add the nodes which mean the same.

`lowering(graph, operation, *inputs)` returns the output tensors: one, or a sequence of them.
"""

from __future__ import annotations

from uncork.export.registry import Registry

REGISTRY = Registry("ONNX", f"{__package__}.families")
lowers = REGISTRY.lowers
lowerings = REGISTRY.lowerings
