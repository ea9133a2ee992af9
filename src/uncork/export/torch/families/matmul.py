"""Products: MatMul, Einsum, attention, and the inverse of matrices."""

from __future__ import annotations

import numpy as np

from uncork.export.torch.composed import composed
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer, atom
from uncork.ops._operation import Operation
from uncork.ops.attention import ScaledDotProductAttention
from uncork.ops.einsum import Einsum
from uncork.ops.matmul import MatMul
from uncork.storage import decode


@lowers("MatMul")
def matmul(w: Writer, op: MatMul, a: Value, b: Value) -> str:
    """F.linear for a matrix of weights, else Python's @."""
    weights = b.constant is not None and b.rank == 2 and not b.code
    if weights and op.transpose_b and not op.transpose_a and (a.rank or 0) > 1 and a.type.is_float:
        return f"F.linear({w(a)}, {w(b)})"
    left = f"{atom(w(a))}.mT" if op.transpose_a and a.rank != 1 else w(a)
    right = f"{atom(w(b))}.mT" if op.transpose_b and b.rank != 1 else w(b)
    if None in (a.rank, b.rank) and (op.transpose_a or op.transpose_b):
        w.refuse("the rank of an input is not known")
    return f"{left} @ {right}"


@lowers("Einsum")
def einsum(w: Writer, op: Einsum, *operands: Value) -> str:
    """torch.einsum; without an ellipsis the output is always written in the equation."""
    subscripts, output = op.parsed()
    if any("." in part for s in (*subscripts, output) for part in s):
        equation = op.equation.replace(" ", "")
    else:
        equation = ",".join("".join(s) for s in subscripts) + "->" + "".join(output)
    return f'torch.einsum("{equation}", {", ".join(map(w, operands))})'


@lowers("ScaledDotProductAttention")
def attention(
    w: Writer,
    op: ScaledDotProductAttention,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None = None,
    scale: Value | None = None,
    sink: Value | None = None,
) -> str | list[Value]:
    """F.scaled_dot_product_attention, with NaN in rows that attend to nothing by their mask; with a
    sink, causal, or of inputs of several ranks, spelled out. Of queries and keys that are not
    finite torch makes 0 or NaN.
    """
    factor = None if scale is None else w.number(scale)
    ready = mask is None or (mask.type.is_float and mask.type is query.type)
    if op.causal or (mask is not None and mask.rank == 0):
        mask = None
    same = query.rank == key.rank == value.rank
    if sink is None and ready and same and (scale is None or factor) and not op.causal:
        if not _agree(query, key, value) or (mask is not None and _may_forbid_rows(mask)):
            number = None if factor is None else Code(factor)
            return w.helper("attended", query, key, value, mask, scale=number)
        given = "" if mask is None else f", attn_mask={w(mask)}"
        given += "" if factor is None else f", scale={factor}"
        return f"F.scaled_dot_product_attention({w(query)}, {w(key)}, {w(value)}{given})"
    return composed(w, op, query, key, value, mask, scale, sink)


def _agree(*inputs: Value) -> bool:
    """Whether items are known to be paired, none by broadcasting, and none is empty."""
    leads = [value.shape[:-2] for value in inputs]
    known = all(lead.is_static and lead == leads[0] for lead in leads)
    return known and all(d.static_size != 0 for value in inputs for d in value.shape)


def _may_forbid_rows(mask: Value) -> bool:
    """Whether a mask may have rows of -inf throughout, of which torch makes 0 and the IR NaN."""
    if mask.value is None:
        return True
    return bool(np.isneginf(decode(mask.value, mask.type)).all(axis=-1).any())


@lowers("Inverse")
def inverse(w: Writer, op: Operation, data: Value) -> str:
    """torch.linalg.inv, transposed where the adjoint is asked for."""
    if op.adjoint:  # type: ignore[attr-defined]
        return f"torch.linalg.inv({atom(w(data))}.double()).mT.to({w.dtype(data.type)})"
    return f"torch.linalg.inv({atom(w(data))}.double()).to({w.dtype(data.type)})"
