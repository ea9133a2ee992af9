"""NonMaxSuppression, MulticlassNms, MatrixNms: ONNX's suppression on scores of which those that do
not count are -infinity.

ONNX takes boxes above a score and suppresses above an overlap; the IR takes them from the score on.
So scores below are made -infinity
before, and everything finite passes ONNX's own test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uncork.export.onnx.families.normalization import widened
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._common.class_selection import ClassSelection
from uncork.ops._common.suppression import Suppression
from uncork.ops.matrix_nms import MatrixNms8
from uncork.ops.multiclass_nms import MulticlassNms8
from uncork.ops.non_max_suppression import _Corners
from uncork.types import ElementType

T = ElementType
ONE = np.ones(1, np.int64)
LOWEST = float(np.finfo(np.float32).min)
#: A key of a sort, and whether it falls.
Key = tuple[Tensor, bool]


def sorted_places(g: Graph, *keys: Key) -> Tensor:
    """The order of rows by several keys, the most important one last: a sort by each in turn, as
    TopK leaves equal ones in their order.
    """
    order: Tensor | None = None
    for key, falls in keys:
        current = key if order is None else g.op("Gather", key, order, axis=0)
        count = g.op("Shape", current, type=I64, shape=[1])
        places = g.ops(
            "TopK", current, count, types=[None, I64], axis=0, largest=int(falls), sorted=1
        )[1]
        order = places if order is None else g.op("Gather", order, places, axis=0)
    assert order is not None
    return order


def at_least(g: Graph, scores: Tensor, threshold: Tensor, strictly: bool = False) -> Tensor:
    """Scores, -infinity where they are below the threshold or no number."""
    counts = g.op("Greater" if strictly else "GreaterOrEqual", scores, threshold)
    return g.op("Where", counts, scores, g.number(-np.inf, scores), shape=scores.shape)


def best_of_row(g: Graph, scores: Tensor, limit: int) -> Tensor:
    """The scores of the best so many along the last axis; the others are -infinity."""
    if limit < 0:
        return scores
    axis = g.rank(scores) - 1
    count = g.op("Min", g.dim(scores, axis), g.constant(np.array([limit])))
    values, places = g.ops("TopK", scores, count, types=[None, I64], axis=axis, largest=1, sorted=1)
    nothing = g.op("Expand", g.number(-np.inf, scores), g.shape(scores))
    return g.op("ScatterElements", nothing, places, values, axis=axis)


def suppressed(
    g: Graph, boxes: Tensor, scores: Tensor, limit: Tensor, overlap: Tensor, **attributes: int
) -> Tensor:
    """Rows batch, class, box of the boxes [batch, n, 4] that stay, class by class, best first."""
    lowest = g.constant(np.array([LOWEST], np.float32))
    return g.op(
        "NonMaxSuppression",
        boxes,
        scores,
        limit,
        overlap,
        lowest,
        type=I64,
        shape=[None, 3],
        **attributes,
    )


def column(g: Graph, rows: Tensor, k: int) -> Tensor:
    """A column of a table."""
    return g.op("Gather", rows, g.constant(np.array(k)), axis=1, shape=[None])


@lowers("NonMaxSuppression")
def non_max_suppression(
    g: Graph,
    op: Suppression,
    boxes: Tensor,
    scores: Tensor,
    limit: Tensor | None,
    overlap: Tensor | None,
    threshold: Tensor | None,
    sigma: Tensor | None = None,
) -> list[Tensor]:
    """ONNX's NonMaxSuppression, on scores of which those below the threshold are -infinity."""
    assert isinstance(op, _Corners)
    if sigma is not None and (sigma.value is None or bool(np.any(sigma.value))):
        g.refuse("a soft_nms_sigma other than 0: ONNX has no Soft-NMS")
    boxes, scores = _single(g, boxes), _single(g, scores)
    zero = g.constant(np.zeros(1, np.float32))
    least = zero if threshold is None else g.op("Reshape", g.cast(threshold, T.f32), ONE)
    most = zero if overlap is None else g.op("Reshape", g.cast(overlap, T.f32), ONE)
    count = (
        g.constant(np.zeros(1, np.int64))
        if limit is None
        else g.op("Reshape", g.cast(limit, I64), ONE)
    )
    # A threshold of 0 lets no second box pass.
    single = g.op("Min", count, g.constant(ONE))
    count = g.op("Where", g.op("Greater", most, zero), count, single)
    count = g.op("Max", count, g.constant(np.zeros(1, np.int64)))
    most = g.op("Max", g.op("Min", most, g.constant(np.ones(1, np.float32))), zero)
    rows = suppressed(
        g,
        boxes,
        at_least(g, scores, least),
        count,
        most,
        center_point_box=int(op.box_encoding == "center"),
    )
    found = g.op("GatherND", scores, rows, shape=[None])
    if op.sort_result_descending:
        order = sorted_places(g, (found, True))
        rows, found = g.op("Gather", rows, order, axis=0), g.op("Gather", found, order, axis=0)
    outputs = [g.cast(rows, g.outputs[0].element_type)]
    if len(g.outputs) > 1:
        wide = g.outputs[1].element_type
        pair = g.cast(g.op("Slice", rows, [0], [2], [1]), wide)
        outputs.append(g.op("Concat", pair, g.op("Unsqueeze", g.cast(found, wide), [1]), axis=1))
        outputs.append(
            g.cast(g.op("Shape", rows, start=0, end=1, type=I64), g.outputs[2].element_type)
        )
    return outputs


def _single(g: Graph, tensor: Tensor) -> Tensor:
    if tensor.type is T.f64:
        g.approximate("boxes and scores of f64 are compared in f32")
    return g.cast(tensor, T.f32)


# ---- rows of all classes


@dataclass(frozen=True)
class Rows:
    """Rows of boxes taken, by columns."""

    image: Tensor
    number: Tensor
    score: Tensor
    place: Tensor
    box: Tensor

    def picked(self, g: Graph, order: Tensor) -> Rows:
        """The rows at these places, in this order."""
        return Rows(
            *(
                g.op("Gather", t, order, axis=0)
                for t in (self.image, self.number, self.score, self.place, self.box)
            )
        )

    def keys(self, names: str) -> Sequence[Key]:
        """The sort keys of these columns, the most important one last; scores fall."""
        return [(getattr(self, name), name == "score") for name in names.split()]


def counts_by_image(g: Graph, image: Tensor, images: Tensor) -> Tensor:
    """The number of rows of each image; `images` is how many there are, in a vector."""
    ones = g.op("Expand", g.constant(1, I64), g.op("Shape", image, type=I64))
    blank = g.op("Expand", g.constant(0, I64), images)
    return g.op("ScatterElements", blank, image, ones, axis=0, reduction="add", shape=[None])


def first_of_images(g: Graph, rows: Rows, images: Tensor, limit: int) -> Rows:
    """The first `limit` rows of each image, of rows ordered by image."""
    counts = counts_by_image(g, rows.image, images)
    starts = g.op("CumSum", counts, g.constant(0, I64), exclusive=1)
    total = g.scalar(g.op("Shape", rows.image, type=I64, shape=[1]))
    number = g.op("Range", g.constant(0, I64), total, g.constant(1, I64))
    rank = g.op("Sub", number, g.op("Gather", starts, rows.image, axis=0))
    kept = g.op("NonZero", g.op("Less", rank, g.constant(limit, I64)), type=I64, shape=[1, None])
    return rows.picked(g, g.op("Squeeze", kept, [0]))


def selection(
    g: Graph, op: ClassSelection, rows: Rows, images: Tensor, own: ElementType
) -> list[Tensor]:
    """The outputs of MulticlassNms and MatrixNms from every box that was taken."""
    rows = rows.picked(g, sorted_places(g, *rows.keys("place number score image")))
    if op.keep_top_k >= 0:
        rows = first_of_images(g, rows, images, op.keep_top_k)
    if op.classes_by_class():
        rows = rows.picked(g, sorted_places(g, *rows.keys("place score number image")))
    if op.sort_result_across_batch and op.sort_result_type == "score":
        rows = rows.picked(g, sorted_places(g, *rows.keys("place number image score")))
    elif op.sort_result_across_batch and op.sort_result_type == "classid":
        rows = rows.picked(g, sorted_places(g, *rows.keys("place score image number")))
    table = [g.op("Unsqueeze", g.cast(t, rows.box.type), [1]) for t in (rows.number, rows.score)]
    outputs = g.op("Concat", *table, rows.box, axis=1)
    counts = counts_by_image(g, rows.image, images)
    return [
        g.cast(outputs, own),
        g.cast(g.op("Unsqueeze", rows.place, [1]), op.output_type),
        g.cast(counts, op.output_type),
    ]


def _without_background(g: Graph, op: ClassSelection, scores: Tensor, axis: int) -> Tensor:
    """The scores of the background, which never count, as -infinity."""
    if op.background_class < 0:
        return scores
    classes = g.op("Range", g.constant(0, I64), g.scalar(g.dim(scores, axis)), g.constant(1, I64))
    rest = list(range(1, g.rank(scores) - axis))
    is_it = g.unsqueeze(
        g.op("Equal", classes, g.constant(op.background_class, I64), shape=[None]), rest
    )
    return g.op("Where", is_it, g.number(-np.inf, scores), scores, shape=scores.shape)


@lowers("MulticlassNms")
def multiclass(
    g: Graph, op: MulticlassNms8, boxes: Tensor, scores: Tensor, roisnum: Tensor | None = None
) -> list[Tensor]:
    """ONNX's NonMaxSuppression on boxes that all classes share; or, with `roisnum`, on boxes of one
    class each, with a class as a batch and an image as a class.
    """
    if op.nms_eta < 1 and op.iou_threshold > 0.5:
        g.refuse("an nms_eta below 1, which moves the threshold from box to box")
    own = boxes.type
    boxes, scores = _single(g, boxes), _single(g, scores)
    axis = 1 if roisnum is None else 0
    counted = at_least(
        g, _without_background(g, op, scores, axis), g.constant(np.float32(op.score_threshold))
    )
    if roisnum is not None:
        counted = _by_image(g, counted, roisnum)
    counted = best_of_row(g, counted, op.nms_top_k)
    sides = (
        boxes
        if op.normalized
        else g.op("Add", boxes, g.constant(np.array([0, 0, 1, 1], np.float32)))
    )
    limit = g.dim(boxes, 1)
    found = suppressed(
        g, sides, counted, limit, g.constant(np.array([op.iou_threshold], np.float32))
    )
    first, second, box = (column(g, found, k) for k in range(3))
    whole = g.op("Concat", g.op("Unsqueeze", first, [1]), g.op("Unsqueeze", box, [1]), axis=1)
    corners = g.op("GatherND", boxes, whole, shape=[None, 4])
    score = g.op("GatherND", counted, found, shape=[None])
    if roisnum is None:
        place = g.op("Add", g.op("Mul", first, limit), box)
        return selection(g, op, Rows(first, second, score, place, corners), g.dim(boxes, 0), own)
    place = g.op("Add", g.op("Mul", box, g.dim(boxes, 0)), first)
    return selection(g, op, Rows(second, first, score, place, corners), g.dim(roisnum, 0), own)


def _by_image(g: Graph, scores: Tensor, roisnum: Tensor) -> Tensor:
    """Scores [classes, boxes] as [classes, images, boxes], -infinity where the box is not of the
    image.
    """
    ends = g.op("CumSum", g.cast(roisnum, I64), g.constant(0, I64))
    starts = g.op("Sub", ends, g.cast(roisnum, I64))
    number = g.op("Range", g.constant(0, I64), g.scalar(g.dim(scores, 1)), g.constant(1, I64))
    after = g.op("GreaterOrEqual", number, g.op("Unsqueeze", starts, [1]))
    inside = g.op("And", after, g.op("Less", number, g.op("Unsqueeze", ends, [1])))
    return g.op("Where", inside, g.op("Unsqueeze", scores, [1]), g.number(-np.inf, scores))


@lowers("MatrixNms")
def matrix(g: Graph, op: MatrixNms8, boxes: Tensor, scores: Tensor) -> list[Tensor]:
    """The overlaps of all candidates of a class with all better ones at once, which lower the
    scores.
    """
    own = boxes.type
    boxes, scores = widened(g, boxes), widened(g, scores)
    counted = at_least(
        g,
        _without_background(g, op, scores, 1),
        g.number(op.score_threshold, scores),
        strictly=True,
    )
    count = g.dim(scores, 2)
    if op.nms_top_k >= 0:
        count = g.op("Min", count, g.constant(np.array([op.nms_top_k])))
    values, places = g.ops(
        "TopK", counted, count, types=[None, I64], axis=2, largest=1, sorted=1, shape=[None] * 3
    )
    shared = g.op(
        "Expand", g.op("Unsqueeze", boxes, [1]), g.concat([ONE, g.dim(scores, 1), ONE, ONE])
    )
    best = g.op(
        "GatherND",
        shared,
        g.op("Unsqueeze", places, [3]),
        batch_dims=2,
        shape=[None, None, None, 4],
    )
    score = g.op("Mul", values, _decay(g, op, best))
    # What is not a candidate has a score of -infinity, or NaN.
    kept = g.op(
        "And",
        g.op("Greater", values, g.number(LOWEST, values)),
        g.op("Greater", score, g.number(op.post_threshold, score)),
    )
    taken = g.op("Transpose", g.op("NonZero", kept, type=I64, shape=[3, None]), perm=[1, 0])
    image, number = column(g, taken, 0), column(g, taken, 1)
    place = g.op(
        "Add", g.op("Mul", image, g.dim(boxes, 1)), g.op("GatherND", places, taken, shape=[None])
    )
    rows = Rows(
        image,
        number,
        g.op("GatherND", score, taken, shape=[None]),
        place,
        g.op("GatherND", best, taken, shape=[None, 4]),
    )
    return selection(g, op, rows, g.dim(boxes, 0), own)


def _decay(g: Graph, op: MatrixNms8, boxes: Tensor) -> Tensor:
    """The factor of each box j, [.., j]: the smallest one that a better box i < j gives."""
    overlap = _overlaps(g, boxes, op.pixel)
    count = g.scalar(g.op("Shape", boxes, start=2, end=3, type=I64, shape=[1]))
    number = g.op("Range", g.constant(0, I64), count, g.constant(1, I64))
    better = g.op("Less", g.op("Unsqueeze", number, [1]), number)
    own = g.op("Where", better, overlap, g.number(0, overlap))
    largest = g.op("ReduceMax", own, [2], keepdims=0)
    before = g.op("Unsqueeze", largest, [3])
    one = g.number(1, overlap)
    if op.decay_function == "gaussian":
        difference = g.op("Sub", g.op("Mul", before, before), g.op("Mul", own, own))
        factor = g.op("Exp", g.op("Mul", difference, g.number(op.gaussian_sigma, overlap)))
    else:
        repeated = g.op("Equal", before, one)
        divisor = g.op("Sub", one, g.op("Where", repeated, g.number(0, overlap), before))
        factor = g.op(
            "Where",
            repeated,
            g.number(np.inf, overlap),
            g.op("Div", g.op("Sub", one, own), divisor),
        )
    factor = g.op("Where", better, factor, g.number(np.inf, overlap))
    smallest = g.op("ReduceMin", factor, [2], keepdims=0)
    first = g.op("Equal", number, g.constant(0, I64))
    return g.op("Where", first, one, smallest)


def _overlaps(g: Graph, boxes: Tensor, pixel: int) -> Tensor:
    """Intersection over union of boxes i and j, [.., i, j]; boxes without a common point do not
    overlap.
    """
    a, b = g.op("Unsqueeze", boxes, [3]), g.op("Unsqueeze", boxes, [2])
    low, high = (([0], [2]), ([2], [4]))
    ends = g.op("Min", *(g.op("Slice", t, *high, [4]) for t in (a, b)))
    starts = g.op("Max", *(g.op("Slice", t, *low, [4]) for t in (a, b)))
    shared = g.op("Sub", ends, starts)
    zero, extra = g.number(0, boxes), g.number(pixel, boxes)
    apart = g.op("ReduceMax", g.cast(g.op("Less", shared, zero), T.i32), [4], keepdims=0)
    sides = g.op("Max", g.op("Add", shared, extra), zero)
    common = g.op("ReduceProd", sides, [4], keepdims=0)
    size = g.op(
        "Add", g.op("Sub", g.op("Slice", boxes, *high, [3]), g.op("Slice", boxes, *low, [3])), extra
    )
    area = g.op("ReduceProd", size, [3], keepdims=0)
    one, other = g.op("Unsqueeze", area, [3]), g.op("Unsqueeze", area, [2])
    has_area = g.op("And", g.op("Greater", one, zero), g.op("Greater", other, zero))
    counts = g.op("And", has_area, g.op("Equal", apart, g.constant(0, T.i32)))
    union = g.op(
        "Where", has_area, g.op("Sub", g.op("Add", one, other), common), g.number(1, boxes)
    )
    return g.op("Where", counts, g.op("Div", common, union), zero)
