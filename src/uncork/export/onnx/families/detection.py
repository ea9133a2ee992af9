"""DetectionOutput: boxes from priors and offsets, the best of each class of each image, written as
rows up to a row that begins with -1.
"""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.families.activation import clipped
from uncork.export.onnx.families.suppression import (
    Rows,
    at_least,
    best_of_row,
    column,
    first_of_images,
    sorted_places,
    suppressed,
)
from uncork.export.onnx.graph import Graph, Operand, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.detection_output import _CORNER, _Detection
from uncork.types import ElementType


@lowers("DetectionOutput")
def detection_output(
    g: Graph,
    op: _Detection,
    logits: Tensor,
    preds: Tensor,
    proposals: Tensor,
    objectness: Tensor | None,
    moves: Tensor | None,
) -> Tensor:
    """Boxes decoded from priors and suppressed by ONNX's NonMaxSuppression, in which each class of
    each image is a batch of its own.
    """
    if op.decrease_label_id:
        g.refuse("decrease_label_id, where each box counts for its best class only")
    own = preds.type
    if own is ElementType.f64:
        g.approximate("boxes and scores of f64 are compared in f32")
    logits, preds, proposals = (g.cast(t, ElementType.f32) for t in (logits, preds, proposals))
    priors, classes = _counts(g, op, preds, proposals)
    boxes = _boxes(
        g,
        op,
        logits,
        proposals,
        None if moves is None else g.cast(moves, ElementType.f32),
        priors,
        classes,
    )
    scores = g.op(
        "Reshape", preds, g.concat([[-1], priors, [classes]]), shape=[None, None, classes]
    )
    if objectness is not None:
        scores = _with_objectness(
            g, op, scores, g.cast(objectness, ElementType.f32), priors, classes
        )
    scores = g.op("Transpose", scores, perm=[0, 2, 1])
    rows = _best(g, op, boxes, scores, priors, classes)
    images = g.dim(preds, 0)
    keep = op.keep_top_k[0]
    rows = rows.picked(g, sorted_places(g, *rows.keys("number place score image")))
    if keep > -1:
        rows = first_of_images(g, rows, images, keep)
    rows = rows.picked(g, sorted_places(g, *rows.keys("place score number image")))
    return g.cast(_written(g, op, rows, preds, priors, classes), own)


def _counts(g: Graph, op: _Detection, preds: Tensor, proposals: Tensor) -> tuple[Tensor, int]:
    """The number of priors, in a vector, and that of classes."""
    length, width = (
        proposals.shape[2].static_size if proposals.rank == 3 else None,
        preds.shape[1].static_size if preds.rank == 2 else None,
    )
    classes = op.num_classes or (width // (length // op.prior_size) if width and length else None)
    if classes is None:
        g.refuse("the number of classes is not known")
    if length is not None:
        return g.constant(np.array([length // op.prior_size])), classes
    return g.op(
        "Div", g.dim(proposals, 2), g.constant(np.array([op.prior_size])), shape=[1]
    ), classes


def _boxes(
    g: Graph,
    op: _Detection,
    logits: Tensor,
    proposals: Tensor,
    moves: Tensor | None,
    priors: Tensor,
    classes: int,
) -> Tensor:
    """The decoded boxes, [images, 1 or classes, priors, 4]."""
    locations = 1 if op.share_location else classes
    first = g.op("Slice", proposals, [0], [1], [1])
    given = g.op("Reshape", first, g.concat([[-1], priors, [1, op.prior_size]]))
    boxes = g.op("Slice", given, [op.prior_size - 4], [op.prior_size], [3])
    if not op.normalized:
        size = np.array([op.input_width, op.input_height] * 2, np.float32)
        boxes = g.op("Div", boxes, g.constant(size))
    variances: Tensor | None = None
    if not op.variance_encoded_in_target:
        numbers = g.op("Mul", priors, g.constant(np.array([4])))
        second = g.op("Slice", g.op("Slice", proposals, [1], [2], [1]), [0], numbers, [2])
        variances = g.op("Reshape", second, g.concat([[-1], priors, [1, 4]]))
    for offsets in (moves, logits):
        if offsets is not None:
            moved = g.op("Reshape", offsets, g.concat([[-1], priors, [locations, 4]]))
            boxes = _decoded(
                g, op, boxes, moved if variances is None else g.op("Mul", variances, moved)
            )
    return g.op("Transpose", boxes, perm=[0, 2, 1, 3])


def _decoded(g: Graph, op: _Detection, priors: Tensor, offsets: Tensor) -> Tensor:
    if op.code_type == _CORNER:
        boxes = g.op("Add", priors, offsets)
    else:
        low, high = (g.op("Slice", priors, [k], [k + 2], [3]) for k in (0, 2))
        shift, growth = (g.op("Slice", offsets, [k], [k + 2], [3]) for k in (0, 2))
        size, two = g.op("Sub", high, low), g.number(2, priors)
        center = g.op("Add", g.op("Div", g.op("Add", low, high), two), g.op("Mul", shift, size))
        half = g.op("Div", g.op("Mul", g.op("Exp", growth), size), two)
        boxes = g.op("Concat", g.op("Sub", center, half), g.op("Add", center, half), axis=3)
    return clipped(g, boxes, 0, 1) if op.clip_before_nms else boxes


def _with_objectness(
    g: Graph, op: _Detection, scores: Tensor, objectness: Tensor, priors: Tensor, classes: int
) -> Tensor:
    """The scores, with certain background where the objectness is too low."""
    pairs = g.op("Reshape", objectness, g.concat([[-1], priors, [2]]))
    background = g.op(
        "Less", g.op("Slice", pairs, [1], [2], [2]), g.constant(np.float32(op.objectness_score))
    )
    certain = (np.arange(classes) == op.background_label_id).astype(np.float32)
    return g.op("Where", background, g.constant(certain), scores)


def _best(
    g: Graph, op: _Detection, boxes: Tensor, scores: Tensor, priors: Tensor, classes: int
) -> Rows:
    """The boxes of every class that suppression keeps."""
    counted = at_least(g, scores, g.constant(np.float32(op.confidence_threshold)), strictly=True)
    if 0 <= op.background_label_id < classes:
        is_it = (np.arange(classes) == op.background_label_id).reshape(-1, 1)
        counted = g.op("Where", g.constant(is_it), g.number(-np.inf, counted), counted)
    flat_scores = g.op("Reshape", counted, g.concat([[-1, 1], priors]), shape=[None, 1, None])
    flat_scores = best_of_row(g, flat_scores, op.top_k)
    each = g.op("Expand", boxes, g.concat([g.op("Shape", scores, start=0, end=1), [classes, 1, 1]]))
    flat_boxes = g.op("Reshape", each, g.concat([[-1], priors, [4]]))
    threshold = g.constant(np.array([op.nms_threshold], np.float32))
    found = suppressed(g, flat_boxes, flat_scores, priors, threshold)
    batch, place = column(g, found, 0), column(g, found, 2)
    count = g.constant(np.array(classes))
    image, number = g.op("Div", batch, count), g.op("Mod", batch, count)
    where = g.op("Concat", g.op("Unsqueeze", batch, [1]), g.op("Unsqueeze", place, [1]), axis=1)
    corners = g.op("GatherND", flat_boxes, where, shape=[None, 4])
    return Rows(image, number, g.op("GatherND", flat_scores, found, shape=[None]), place, corners)


def _written(
    g: Graph, op: _Detection, rows: Rows, preds: Tensor, priors: Tensor, classes: int
) -> Tensor:
    """Rows of 7 numbers, a row that begins with -1, and zeros up to the number of rows there is
    room for.
    """
    corners = clipped(g, rows.box, 0, 1) if op.clip_after_nms else rows.box
    table = [
        g.op("Unsqueeze", g.cast(t, ElementType.f32), [1])
        for t in (rows.image, rows.number, rows.score)
    ]
    written = g.op("Concat", *table, corners, axis=1)
    each: Operand
    if op.keep_top_k[0] > 0:
        each = [op.keep_top_k[0]]
    elif op.keep_top_k[0] == -1 and op.top_k > 0:
        each = [classes * op.top_k]
    else:
        each = g.op("Mul", priors, g.constant(np.array([classes])))
    room: Operand = g.op("Mul", g.dim(preds, 0), each)
    zeros = g.op("Expand", g.constant(np.float32(0)), g.concat([room, [7]]))
    end = np.zeros((1, 7), np.float32)
    end[0, 0] = -1
    whole = g.op("Concat", written, g.constant(end), zeros, axis=0)
    return g.op("Unsqueeze", g.op("Slice", whole, [0], room, [0]), [0, 1], shape=g.outputs[0].shape)
