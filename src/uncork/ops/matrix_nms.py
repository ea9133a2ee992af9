"""MatrixNms-8: boxes whose scores fall by how much they overlap better ones of their class, all at
once.

The candidates of a class are its boxes with scores above score_threshold, the best nms_top_k of
them, best first.

    X[i, j] = overlap(box i, box j) for i < j          K[i] = largest of X[.., i], 0 for the first
    decay[j] = smallest over i < j of  exp((K[i]**2 - X[i, j]**2) * gaussian_sigma)      gaussian
                                       (1 - X[i, j]) / (1 - K[i])                         linear
    score[j] = score[j] * decay[j], kept above post_threshold

Page: operation-specs/sort/matrix-non-max-suppression-8; what it leaves open is decided in
`_class_selection.py`, and here:

- with `sort_result_type` = classid the rows are ordered by class only together with
  `sort_result_across_batch`. Without it the rows of each image stay ordered by score, as OpenVINO
  runs it (the page would have them by class);
- in the linear decay a box i with K[i] = 1 counts for nothing: the box that it repeats says it all;
- boxes of pixels that have no point in common do not overlap, however near they are.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.boxes import touching_overlaps
from uncork.ops._common.class_selection import ClassSelection, Image
from uncork.ops._operation import register
from uncork.ops._ports import Attribute, number, one_of
from uncork.types import Array, TensorSpec


def shared_boxes(boxes: Array, scores: Array) -> list[Image]:
    """The images of boxes [n, m, 4] that all classes of scores [n, c, m] share."""
    if not scores.size:  # any number of images and classes
        return [
            Image(
                np.zeros((0, 0, 4), boxes.dtype),
                np.zeros((0, 0), scores.dtype),
                np.zeros((0, 0), np.int64),
            )
        ] * len(scores)
    places = np.arange(boxes.shape[0] * boxes.shape[1]).reshape(boxes.shape[:2])
    return [
        Image(np.broadcast_to(b, (*s.shape, 4)), s, np.broadcast_to(p, s.shape))
        for b, s, p in zip(boxes, scores, places, strict=True)
    ]


@register("MatrixNms", 8)
class MatrixNms8(ClassSelection):
    decay_function = Attribute(one_of("linear", "gaussian"), default="linear")
    gaussian_sigma = Attribute(number, default=2.0)
    post_threshold = Attribute(number, default=0.0)

    def classes_by_class(self) -> bool:
        return False

    def infer(self, boxes: TensorSpec, scores: TensorSpec) -> tuple[TensorSpec, ...]:
        return self.shapes([boxes, scores])

    def best_of_class(self, boxes: Array, scores: Array) -> tuple[Array, Array]:
        candidates = self.candidates(scores > self.score_threshold, scores)
        best, values = boxes[candidates], scores[candidates]
        largest = np.zeros_like(values)
        for j in range(1, len(candidates)):
            overlap = touching_overlaps(best[j], best[:j], self.pixel)
            values[j] *= self._decay(overlap, largest[:j]).min()
            largest[j] = overlap.max()
        kept = values > self.post_threshold
        return candidates[kept], values[kept]

    def _decay(self, overlap: Array, largest: Array) -> Array:
        if self.decay_function == "gaussian":
            return np.asarray(
                np.exp((largest**2 - overlap**2) * overlap.dtype.type(self.gaussian_sigma))
            )
        repeated = largest == 1
        return np.where(repeated, np.inf, (1 - overlap) / np.where(repeated, 1, 1 - largest))

    def reference(self, boxes: Array, scores: Array) -> tuple[Array, Array, Array]:
        return self.selection(shared_boxes(boxes, scores), scores.dtype)
