"""The best boxes of every class: suppressed where they overlap better ones, counted, ordered and
written as rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.internal_ops.falling_suppression import FallingSuppression
from uncork.ir.model import Source
from uncork.ops._common.class_selection import ClassSelection
from uncork.ops.matrix_nms import MatrixNms8
from uncork.ops.multiclass_nms import MulticlassNms8
from uncork.types import ElementType

T = ElementType
LOWEST = float(np.finfo(np.float32).min)


class Rows(NamedTuple):
    """Rows of boxes taken, by columns."""

    image: Source
    number: Source
    score: Source
    place: Source
    box: Source


def by_columns(g: Layers, rows: Rows, names: str) -> Rows:
    """The rows sorted by columns, the most important one last, of which scores fall: a sort by each
    in turn, as equal ones stay in their order.
    """
    order: Source | None = None
    for name in names.split():
        key = getattr(rows, name)
        key = key if order is None else g.take(key, order, 0)
        places = _best(g, key, g.dim(key, 0), "max" if name == "score" else "min")[1]
        order = places if order is None else g.take(order, places, 0)
    assert order is not None
    return Rows(*(g.take(column, order, 0) for column in rows))


def _best(g: Layers, data: Source, count: Source, mode: str = "max") -> tuple[Source, ...]:
    """So many of the largest along the last axis, or of the smallest, and their places."""
    return g.best(data, g.rank(data) - 1, g.reshape(count, []), mode)


def only(g: Layers, counts: Source, scores: Source) -> Source:
    """The scores that count; the others are -infinity."""
    return g.select(counts, scores, g.like(-np.inf, scores))


def best_of_row(g: Layers, scores: Source, limit: int) -> Source:
    """The scores of the best so many along the last axis; the others are -infinity."""
    if limit < 0:
        return scores
    axis = g.rank(scores) - 1
    values, places = _best(g, scores, g.least(g.dim(scores, axis), limit))
    nothing = g.broadcast(g.like(-np.inf, scores), g.sizes_of(scores))
    return g.scatter(nothing, places, values, axis)


def suppressed(
    g: Layers, boxes: Source, scores: Source, threshold: float, eta: float = 1.0, pixel: int = 0
) -> tuple[Source, Source, Source, Source, Source]:
    """Of the boxes [batch, n, 4] that stay, class by class, best first: the columns batch, class
    and place, the scores and the corners.
    """
    kind = g.type(boxes)
    # An overlap of 0 is none, where a threshold of 0 would let no second box pass.
    most = g.of_type(threshold or float(np.finfo(np.float32).tiny), kind)
    falls = eta if threshold > 0.5 else 1.0
    operation = FallingSuppression(sort_result_descending=False, eta=falls)
    ends = g.convert(g.constant(np.array([0, 0, pixel, pixel], np.float32)), kind)
    sides, limit = g.plus(boxes, ends) if pixel else boxes, g.reshape(g.dim(boxes, 1), [])
    found = g.add_operation(operation, sides, scores, limit, most, g.of_type(LOWEST, kind))[0]
    batch, number, place = (g.gather(found, k, 1) for k in range(3))
    where = g.concat([g.unsqueeze(batch, 1), g.unsqueeze(place, 1)], 1)
    corners = g.make("GatherND", boxes, where)
    return batch, number, place, g.make("GatherND", scores, found), corners


def first_of_images(g: Layers, rows: Rows, images: Source, limit: int) -> Rows:
    """The first `limit` rows of each image, of rows ordered by image; all where it is negative."""
    if limit < 0:
        return rows
    counts = g.counts(rows.image, images)
    starts = g.make("CumSum", counts, g.i64(0), exclusive=True, reverse=False)
    rank = g.minus(g.range(g.dim(rows.image, 0)), g.take(starts, rows.image, 0))
    kept = g.make("NonZero", g.make("Less", rank, g.i64(limit)), output_type=T.i64)
    return Rows(*(g.take(column, g.squeeze(kept, 0), 0) for column in rows))


def _selection(g: Layers, op: ClassSelection, rows: Rows, images: Source) -> Sequence[Source]:
    """The outputs of MulticlassNms and MatrixNms from every box that was taken."""
    rows = by_columns(g, rows, "place number score image")
    rows = first_of_images(g, rows, images, op.keep_top_k)
    if op.classes_by_class():
        rows = by_columns(g, rows, "place score number image")
    if op.sort_result_across_batch and op.sort_result_type == "score":
        rows = by_columns(g, rows, "place number image score")
    elif op.sort_result_across_batch and op.sort_result_type == "classid":
        rows = by_columns(g, rows, "place score image number")
    columns = (g.convert(rows.number, g.type(rows.box)), rows.score)
    table = g.concat([*(g.unsqueeze(column, 1) for column in columns), rows.box], 1)
    return table, g.unsqueeze(rows.place, 1), g.counts(rows.image, images)


def _foreground(g: Layers, op: ClassSelection, scores: Source, axis: int) -> Source:
    """The scores of all classes but the background, which never counts."""
    if op.background_class < 0:
        return scores
    classes = g.make("NotEqual", g.range(g.dim(scores, axis)), g.i64(op.background_class))
    behind = range(1, g.rank(scores) - axis)
    return only(g, g.unsqueeze(classes, *behind) if behind else classes, scores)


@composite("MulticlassNms")
def multiclass(
    g: Layers, op: MulticlassNms8, boxes: Source, scores: Source, roisnum: Source | None = None
) -> Sequence[Source]:
    """Suppression of boxes that all classes share; or, with `roisnum`, of boxes of one class each,
    with a class as a batch and an image as a class.
    """
    counted = _foreground(g, op, scores, 1 if roisnum is None else 0)
    counted = only(g, g.binary("GreaterEqual", counted, op.score_threshold), counted)
    if roisnum is not None:
        counted = _by_image(g, counted, g.wide(roisnum))
    counted = best_of_row(g, counted, op.nms_top_k)
    limits = (op.iou_threshold, op.nms_eta, op.pixel)
    first, second, box, score, corners = suppressed(g, boxes, counted, *limits)
    if roisnum is None:
        place = g.plus(g.times(first, g.dim(boxes, 1)), box)
        return _selection(g, op, Rows(first, second, score, place, corners), g.dim(boxes, 0))
    place = g.plus(g.times(box, g.dim(boxes, 0)), first)
    return _selection(g, op, Rows(second, first, score, place, corners), g.dim(roisnum, 0))


def _by_image(g: Layers, scores: Source, roisnum: Source) -> Source:
    """Scores [classes, boxes] as [classes, images, boxes], -infinity where the box is not of the
    image.
    """
    ends = g.make("CumSum", roisnum, g.i64(0), exclusive=False, reverse=False)
    number = g.range(g.dim(scores, 1))
    after = g.make("GreaterEqual", number, g.unsqueeze(g.minus(ends, roisnum), 1))
    inside = g.make("LogicalAnd", after, g.make("Less", number, g.unsqueeze(ends, 1)))
    return only(g, inside, g.unsqueeze(scores, 1))


@composite("MatrixNms")
def matrix(g: Layers, op: MatrixNms8, boxes: Source, scores: Source) -> Sequence[Source]:
    """The overlaps of all candidates of a class with all better ones at once, which lower the
    scores.
    """
    counted = _foreground(g, op, scores, 1)
    counted = only(g, g.binary("Greater", counted, op.score_threshold), counted)
    count = g.dim(scores, 2)
    values, places = _best(g, counted, count if op.nms_top_k < 0 else g.least(count, op.nms_top_k))
    shape = g.shape(*(g.dim(scores, axis) for axis in range(3)), 4)
    shared = g.broadcast(g.unsqueeze(boxes, 1), shape)
    best = g.make("GatherND", shared, g.unsqueeze(places, 3), batch_dims=2)
    score = g.times(values, _decay(g, op, best))
    # What is not a candidate has a score of -infinity, or NaN.
    candidates = g.binary("GreaterEqual", values, LOWEST)
    kept = g.make("LogicalAnd", candidates, g.binary("Greater", score, op.post_threshold))
    taken = g.transpose(g.make("NonZero", kept, output_type=T.i64), [1, 0])
    image, number = (g.gather(taken, k, 1) for k in (0, 1))
    found, final, corners = (g.make("GatherND", t, taken) for t in (places, score, best))
    place = g.plus(g.times(image, g.dim(boxes, 1)), found)
    return _selection(g, op, Rows(image, number, final, place, corners), g.dim(boxes, 0))


def _decay(g: Layers, op: MatrixNms8, boxes: Source) -> Source:
    """The factor of each box j, [.., j]: the smallest one that a better box i < j gives."""
    overlap = _overlaps(g, boxes, op.pixel)
    number = g.range(g.dim(boxes, 2))
    better = g.make("Less", g.unsqueeze(number, 1), number)
    own = g.select(better, overlap, g.like(0, overlap))
    before = g.unsqueeze(g.reduce("ReduceMax", g.filled(own), [2], keep=False), 3)
    if op.decay_function == "gaussian":
        difference = g.minus(g.times(before, before), g.times(own, own))
        factor = g.make("Exp", g.times(difference, op.gaussian_sigma))
    else:
        repeated = g.binary("Equal", before, 1)
        divisor = g.minus(1, g.select(repeated, g.like(0, before), before))
        factor = g.over(g.minus(1, own), divisor)
        factor = g.select(repeated, g.like(np.inf, factor), factor)
    factor = g.select(better, factor, g.like(np.inf, factor))
    smallest = g.reduce("ReduceMin", g.filled(factor), [2], keep=False)
    return g.select(g.make("Equal", number, g.i64(0)), g.like(1, smallest), smallest)


def _overlaps(g: Layers, boxes: Source, pixel: int) -> Source:
    """Intersection over union of boxes i and j, [.., i, j]; boxes without a common point do not
    overlap.
    """
    low, high = g.split(boxes, [2, 2], 3)
    ends = g.least(g.unsqueeze(high, 3), g.unsqueeze(high, 2))
    shared = g.minus(ends, g.largest(g.unsqueeze(low, 3), g.unsqueeze(low, 2)))
    together = g.reduce("ReduceMin", shared, [4], keep=False)
    sides = g.largest(g.plus(shared, pixel), 0)
    common = g.reduce("ReduceProd", sides, [4], keep=False)
    area = g.reduce("ReduceProd", g.plus(g.minus(high, low), pixel), [3], keep=False)
    one, other = g.unsqueeze(area, 3), g.unsqueeze(area, 2)
    has_area = g.binary("Greater", g.least(one, other), 0)
    counts = g.make("LogicalAnd", has_area, g.binary("GreaterEqual", together, 0))
    union = g.select(has_area, g.minus(g.plus(one, other), common), g.like(1, common))
    return g.select(counts, g.over(common, union), g.like(0, common))
