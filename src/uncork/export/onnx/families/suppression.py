"""NonMaxSuppression by ONNX's, on scores of which those that do not count are -infinity.

ONNX takes boxes above a score and suppresses above an overlap; the IR takes them from the score on.
So scores below are made -infinity before, and everything finite passes ONNX's own test.
"""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.non_max_suppression import _Corners
from uncork.types import ElementType

T = ElementType
ONE = np.ones(1, np.int64)
LOWEST = np.finfo(np.float32).min.reshape(1)


@lowers("NonMaxSuppression")
def non_max_suppression(
    g: Graph,
    op: _Corners,
    boxes: Tensor,
    scores: Tensor,
    limit: Tensor | None,
    overlap: Tensor | None,
    threshold: Tensor | None,
    sigma: Tensor | None = None,
) -> list[Tensor]:
    """ONNX's NonMaxSuppression, on scores of which those below the threshold are -infinity."""
    if sigma is not None and (sigma.value is None or bool(np.any(sigma.value))):
        g.refuse("a soft_nms_sigma other than 0: ONNX has no Soft-NMS")
    if op.eta < 1:
        g.refuse("an nms_eta below 1, which moves the threshold from box to box")
    boxes, scores = _single(g, boxes), _single(g, scores)
    zero, none = g.constant(np.zeros(1, np.float32)), g.constant(np.zeros(1, np.int64))
    least = zero if threshold is None else g.op("Reshape", g.cast(threshold, T.f32), ONE)
    most = zero if overlap is None else g.op("Reshape", g.cast(overlap, T.f32), ONE)
    count = none if limit is None else g.op("Reshape", g.cast(limit, I64), ONE)
    # A threshold of 0 lets no second box pass.
    single = g.op("Min", count, g.constant(ONE))
    count = g.op("Max", g.op("Where", g.op("Greater", most, zero), count, single), none)
    most = g.op("Max", g.op("Min", most, g.constant(np.ones(1, np.float32))), zero)
    passes = g.op("GreaterOrEqual", scores, least)
    given = g.op("Where", passes, scores, g.number(-np.inf, scores), shape=scores.shape)
    rows = g.op(
        "NonMaxSuppression",
        boxes,
        given,
        count,
        most,
        LOWEST,
        type=I64,
        shape=[None, 3],
        center_point_box=int(op.box_encoding == "center"),
    )
    found = g.op("GatherND", scores, rows, shape=[None])
    if op.sort_result_descending:
        total = g.op("Shape", found, type=I64, shape=[1])
        found, order = g.ops("TopK", found, total, types=[None, I64], axis=0, largest=1, sorted=1)
        rows = g.op("Gather", rows, order, axis=0)
    outputs = [g.cast(rows, g.outputs[0].element_type)]
    if len(g.outputs) > 1:
        wide = g.outputs[1].element_type
        pair = g.cast(g.op("Slice", rows, [0], [2], [1]), wide)
        outputs.append(g.op("Concat", pair, g.op("Unsqueeze", g.cast(found, wide), [1]), axis=1))
        total = g.op("Shape", rows, start=0, end=1, type=I64)
        outputs.append(g.cast(total, g.outputs[2].element_type))
    return outputs


def _single(g: Graph, tensor: Tensor) -> Tensor:
    if tensor.type is T.f64:
        g.approximate("boxes and scores of f64 are compared in f32")
    return g.cast(tensor, T.f32)
