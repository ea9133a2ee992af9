"""Normalisations: batch, group, mean and variance, L2, local response."""

from __future__ import annotations

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
def group_norm(w: Writer, op: Operation, data: Value, scale: Value, bias: Value) -> str:
    """torch.group_norm, which takes groups of one value, as F.group_norm does not. It scales before
    it subtracts the mean: of huge or infinite numbers it makes others.
    """
    groups, eps = op.num_groups, op.epsilon  # type: ignore[attr-defined]
    if not data.shape.is_static or data.shape.size == 0:
        return w.call("group_norm", data, scale, bias, groups=groups, eps=eps)
    given = f"{w(data)}, {groups}, weight={w(scale)}, bias={w(bias)}, eps={eps!r}"
    return f"torch.group_norm({given})"


@lowers("MVN")
def mvn(w: Writer, op: Operation, data: Value, axes: Value | None = None) -> str:
    """Data less its mean and, if wanted, divided by its standard deviation."""
    if axes is None:
        along = repr(list(op.axes(w.rank(data))))  # type: ignore[attr-defined]
        inside = True
    else:
        along = w.listed(axes)
        inside = op.eps_mode == "inside_sqrt"  # type: ignore[attr-defined]
    eps, divide = op.eps, op.normalize_variance  # type: ignore[attr-defined]
    return w.call("standardised", data, along, eps=eps, divide=divide, inside=inside)


@lowers("NormalizeL2")
def normalize_l2(w: Writer, op: Operation, data: Value, axes: Value) -> str:
    """Data divided by its L2 norm along axes."""
    return w.call("normalized_l2", data, w.listed(axes), eps=op.eps, add=op.eps_mode == "add")  # type: ignore[attr-defined]


@lowers("GRN")
def grn(w: Writer, op: Operation, data: Value) -> str:
    """Data divided by its L2 norm over the channels."""
    return f"{w(data)} / (({w(data)} * {w(data)}).sum(dim=1, keepdim=True) + {op.bias!r}).sqrt()"  # type: ignore[attr-defined]


@lowers("LRN")
def lrn(w: Writer, op: Operation, data: Value, axes: Value) -> str:
    """Data divided by a power of the sum of squares around each cell, along given axes."""
    numbers = {k: getattr(op, k) for k in ("alpha", "beta", "bias", "size")}
    return w.call("local_response", data, w.listed(axes), **numbers)
