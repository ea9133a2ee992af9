"""DetectionOutput: boxes from priors and offsets, the best of each class of each image, written as
rows up to a row that begins with -1.
"""

from __future__ import annotations

import numpy as np

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.decompositions.suppression import (
    Rows,
    best_of_row,
    by_columns,
    first_of_images,
    only,
    suppressed,
)
from uncork.ir.model import Source
from uncork.ops.detection_output import _CORNER, _Detection
from uncork.types import ElementType

T = ElementType


@composite("DetectionOutput")
def detection_output(
    g: Layers,
    op: _Detection,
    logits: Source,
    preds: Source,
    proposals: Source,
    objectness: Source | None = None,
    moves: Source | None = None,
) -> Source:
    """Boxes decoded from priors and suppressed, each class of each image for itself."""
    priors = g.over(g.dim(proposals, 2), op.prior_size)
    told = op.num_classes
    classes = g.i64([told]) if told else g.over(g.dim(preds, 1), priors)
    images, labels = g.dim(preds, 0), g.range(classes)
    boxes = _boxes(g, op, logits, proposals, moves, priors, classes)
    scores = g.shaped(preds, images, priors, classes)
    if objectness is not None:
        certainty = g.slice(g.shaped(objectness, images, priors, 2), 1, 2, 2)
        certain = g.make("Equal", labels, g.i64(op.background_label_id))
        background = g.binary("Less", certainty, op.objectness_score)
        scores = g.select(background, g.convert(certain, g.type(scores)), scores)
    rows = _best(g, op, boxes, g.transpose(scores, [0, 2, 1]), labels)
    rows = by_columns(g, rows, "number place score image")
    rows = first_of_images(g, rows, images, op.keep_top_k[0])
    rows = by_columns(g, rows, "place score number image")
    return _written(g, op, rows, images, priors, classes)


def _boxes(
    g: Layers,
    op: _Detection,
    logits: Source,
    proposals: Source,
    moves: Source | None,
    priors: Source,
    classes: Source,
) -> Source:
    """The decoded boxes, [images, 1 or classes, priors, 4]."""
    locations = g.i64([1]) if op.share_location else classes
    sizes = (g.dim(proposals, 0), priors, 1)
    given = g.shaped(g.slice(proposals, 0, 1, 1), *sizes, op.prior_size)
    boxes = g.slice(given, op.prior_size - 4, op.prior_size, 3)
    if not op.normalized:
        size = g.constant(np.array([op.input_width, op.input_height] * 2, np.float32))
        boxes = g.over(boxes, g.convert(size, g.type(boxes)))
    variances: Source | None = None
    if not op.variance_encoded_in_target:
        second = g.part(g.slice(proposals, 1, 2, 1), g.i64([0]), g.times(priors, 4), 2)
        variances = g.shaped(second, *sizes, 4)
    for offsets in (moves, logits):
        if offsets is not None:
            moved = g.shaped(offsets, g.dim(logits, 0), priors, locations, 4)
            moved = moved if variances is None else g.times(variances, moved)
            boxes = _decoded(g, op, boxes, moved)
    return g.transpose(boxes, [0, 2, 1, 3])


def _decoded(g: Layers, op: _Detection, priors: Source, offsets: Source) -> Source:
    if op.code_type == _CORNER:
        boxes = g.plus(priors, offsets)
    else:
        (low, high), (shift, growth) = (g.split(t, [2, 2], 3) for t in (priors, offsets))
        size = g.minus(high, low)
        center = g.plus(g.over(g.plus(low, high), 2), g.times(shift, size))
        half = g.over(g.times(g.make("Exp", growth), size), 2)
        boxes = g.concat([g.minus(center, half), g.plus(center, half)], 3)
    return g.clipped(boxes, 0, 1) if op.clip_before_nms else boxes


def _best(g: Layers, op: _Detection, boxes: Source, scores: Source, labels: Source) -> Rows:
    """The boxes of every class that suppression keeps; each class of each image is a batch."""
    images, classes, priors = (g.dim(scores, axis) for axis in range(3))
    for label in (op.background_label_id, *([0] if op.decrease_label_id else [])):
        scores = only(g, g.unsqueeze(g.make("NotEqual", labels, g.i64(label)), 1), scores)
    if op.decrease_label_id:
        scores = _of_best_class(g, op, scores, labels)
    else:
        scores = only(g, g.binary("Greater", scores, op.confidence_threshold), scores)
        scores = best_of_row(g, scores, op.top_k)
    batches = g.times(images, classes)
    each = g.shaped(g.broadcast(boxes, g.shape(images, classes, priors, 4)), batches, priors, 4)
    flat = g.shaped(scores, batches, 1, priors)
    batch, _, place, score, corners = suppressed(g, each, flat, op.nms_threshold)
    image, number = g.over(batch, classes), g.make("FloorMod", batch, classes)
    return Rows(image, number, score, place, corners)


def _of_best_class(g: Layers, op: _Detection, scores: Source, labels: Source) -> Source:
    """The scores of boxes that count for their best class only, of all classes the best."""
    scores = only(g, g.make("Equal", scores, scores), scores)  # a NaN is no score
    confidence, best = g.best(scores, 1)
    passes = g.binary("GreaterEqual", confidence, op.confidence_threshold)
    passes = g.make("LogicalAnd", passes, g.binary("Greater", confidence, -1))
    confidence = best_of_row(g, only(g, passes, confidence), op.top_k)
    own = g.make("Equal", best, g.unsqueeze(labels, 1))
    return only(g, own, confidence)


def _written(
    g: Layers, op: _Detection, rows: Rows, images: Source, priors: Source, classes: Source
) -> Source:
    """Rows of 7 numbers, a row that begins with -1, and zeros up to the number of rows there is
    room for.
    """
    corners = g.clipped(rows.box, 0, 1) if op.clip_after_nms else rows.box
    number = g.minus(rows.number, 1) if op.decrease_label_id else rows.number
    head = (g.convert(t, g.type(corners)) for t in (rows.image, number, rows.score))
    written = g.concat([*(g.unsqueeze(t, 1) for t in head), corners], 1)
    each = g.i64([op.keep_top_k[0]])
    if op.keep_top_k[0] <= 0:
        limited = op.keep_top_k[0] == -1 and op.top_k > 0
        each = g.times(g.i64([op.top_k]) if limited else priors, classes)
    room = g.times(images, each)
    end = g.convert(g.constant(np.array([[-1, *[0] * 6]], np.float32)), g.type(corners))
    zeros = g.broadcast(g.like(0, corners), g.shape(room, 7))
    whole = g.concat([written, end, zeros], 0)
    return g.unsqueeze(g.part(whole, g.i64([0]), room, 0), 0, 1)
