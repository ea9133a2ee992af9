"""Boxes chosen among boxes that overlap. What is computed is indices; gradients flow through scores
and boxes taken.
"""

from __future__ import annotations

from uncork.export.torch.families.shapes import unpacked
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
from uncork.internal_ops.falling_suppression import FallingSuppression
from uncork.ops.non_max_suppression import _Corners


@lowers("NonMaxSuppression")
def non_max_suppression(
    w: Writer,
    op: _Corners,
    boxes: Value,
    scores: Value,
    limit: Value | None = None,
    overlap: Value | None = None,
    threshold: Value | None = None,
    sigma: Value | None = None,
) -> list[str] | str:
    """The best boxes of each class of each image that overlap no better one."""
    if sigma is not None and (sigma.value is None or bool(sigma.value.any())):
        w.refuse("a soft_nms_sigma other than 0")
    encoding = "in order" if isinstance(op, FallingSuppression) else op.box_encoding
    options: dict[str, object] = {"encoding": encoding, "ordered": op.sort_result_descending}
    if op.eta < 1:
        options["eta"] = op.eta
    for name, value in (("limit", limit), ("overlap", overlap), ("threshold", threshold)):
        if value is not None:
            number = (
                w.integer(value) if name == "limit" else w.number(value) or f"float({w(value)})"
            )
            options[name] = Code(number)
    text = w.helper("non_max_suppression", boxes, scores, **options)
    codes = [w.dtype(s.element_type) for s in w.outputs]
    if len(codes) == 1:
        return f"{text}[0].to({codes[0]})"
    return [f"{t}.to({c})" for t, c in zip(unpacked(w, text), codes, strict=True)]
