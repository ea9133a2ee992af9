"""Normalisations: batch, group, mean and variance, L2, local response."""

from __future__ import annotations

from uncork.export.torch.composed import composed
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Value, Writer
from uncork.ops._operation import Operation


@lowers("BatchNormInference")
def batch_norm(w: Writer, op: Operation, *inputs: Value) -> str:
    """F.batch_norm with given moments; version 1 has the data in third place."""
    if op.opset == 1:
        gamma, beta, data, mean, variance = inputs
    else:
        data, gamma, beta, mean, variance = inputs
    given = ", ".join(w(v) for v in (data, mean, variance, gamma, beta))
    return f"F.batch_norm({given}, eps={op.epsilon!r})"  # type: ignore[attr-defined]


@lowers("GroupNormalization")
def group_norm(
    w: Writer, op: Operation, data: Value, scale: Value, bias: Value
) -> str | list[Value]:
    """torch.group_norm, which takes groups of one value, as F.group_norm does not. It scales before
    it subtracts the mean: of huge or infinite numbers it makes others.
    """
    groups, eps = op.num_groups, op.epsilon  # type: ignore[attr-defined]
    if not data.shape.is_static or data.shape.size == 0:
        return composed(w, op, data, scale, bias)
    given = f"{w(data)}, {groups}, weight={w(scale)}, bias={w(bias)}, eps={eps!r}"
    return f"torch.group_norm({given})"
