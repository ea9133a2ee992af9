"""Non-maximum suppression by the steps of the pages, in Python numbers, for boxes of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._sample import Case
from uncork import storage
from uncork.types import ElementType

Box = Sequence[float]


def intersection_over_union(a: Box, b: Box, pixel: float = 0) -> float:
    """Of boxes low, low, high, high; by what they share along each axis."""
    shared = [max(0.0, min(a[i + 2], b[i + 2]) - max(a[i], b[i]) + pixel) for i in (0, 1)]
    first, second = ((box[2] - box[0] + pixel) * (box[3] - box[1] + pixel) for box in (a, b))
    if first <= 0 or second <= 0:
        return 0.0
    common = shared[0] * shared[1]
    return common / (first + second - common)


def suppressed(
    boxes: list[Any],
    scores: list[float],
    limit: int,
    least: float,
    iou: Callable[[Any, Any], float],
    weight: Callable[[float], float],
) -> list[tuple[int, float]]:
    """Steps 1 to 8 of the pages for one class: (box, score) in the order taken."""
    left = {i: s for i, s in enumerate(scores) if s >= least}
    taken: list[tuple[int, float]] = []
    while left and len(taken) < limit:
        best = min(left, key=lambda i: (-left[i], i))
        taken.append((best, left.pop(best)))
        for i in list(left):
            factor = weight(iou(boxes[best], boxes[i]))
            left[i] *= factor
            if factor == 0 or left[i] < least:
                del left[i]
    return taken


def all_outputs(
    case: Case, boxes: list[list[Any]], iou: Callable[[Any, Any], float], soft_limited: bool = False
) -> list[np.ndarray]:
    """selected_indices, selected_scores and valid_outputs; `soft_limited` as version 5 has it."""
    values = [
        None if a is None else storage.decode(a, t)
        for a, t in zip(case.inputs, case.types, strict=True)
    ]
    values += [None] * (6 - len(values))
    scores = values[1]
    maximum, most, least, sigma = (
        default if v is None else float(v.reshape(-1)[0])
        for v, default in zip(values[2:], (0, 0.0, 0.0, 0.0), strict=True)
    )

    def weight(overlap: float) -> float:
        little = most > 0 and overlap <= most
        if sigma == 0:
            return float(little)
        return (
            float(np.exp(-0.5 * overlap * overlap / sigma)) if little or not soft_limited else 0.0
        )

    rows = []
    for batch in range(scores.shape[0]):
        for number in range(scores.shape[1]):
            here = [float(s) for s in scores[batch, number]]
            rows += [
                (batch, number, box, s)
                for box, s in suppressed(boxes[batch], here, int(maximum), least, iou, weight)
            ]
    if case.attributes.get("sort_result_descending", True):
        rows.sort(key=lambda row: -row[3])
    index_type = case.attributes.get("output_type", ElementType.i64).dtype
    score_type = np.float64 if case.types[1] is ElementType.f64 else np.float32
    indices = np.array([row[:3] for row in rows], index_type).reshape(-1, 3)
    triples = np.array([(b, c, s) for b, c, _, s in rows], score_type).reshape(-1, 3)
    return [indices, triples, np.array([len(rows)], index_type)]


@st.composite
def cases(
    draw: st.DrawFn,
    box_size: int,
    thresholds: int,
    attributes: dict[str, Any],
    required: bool = False,
) -> Case:
    """Up to 5 boxes of 2 images and 2 classes; `thresholds` inputs after
    max_output_boxes_per_class, some left out unless `required`.
    """
    images, classes, count = (
        draw(st.integers(0, 2)),
        draw(st.integers(0, 2)),
        draw(st.integers(0, 5)),
    )
    boxes, name = draw(arrays((images, count, box_size), FLOATS, -2, 4))
    scores, _ = draw(arrays((images, classes, count), (name,), -1, 2))
    given = thresholds if required else draw(st.integers(0, thresholds))
    inputs: list[Any] = [boxes, scores]
    types = [name, name]
    if given or required or draw(st.booleans()):
        inputs.append(np.array(draw(st.integers(0, 6)), draw(st.sampled_from(["i4", "i8", "u1"]))))
        types.append(None)
        kind = draw(st.sampled_from(FLOATS))
        # Values that no ratio of small areas is just beside of once they are rounded.
        choices = ([0.25, 0.5, 0.3], [0.0, -0.5, 0.5], [0.0, 0.5, 2.0])
        for values in choices[:given]:
            value = np.float32(draw(st.sampled_from(values)))
            shape = draw(st.sampled_from([(), (1,)]))
            inputs.append(
                storage.encode(np.full(shape, value, np.float32), ElementType.parse(kind))
            )
            types.append(kind)
    chosen = {key: draw(st.sampled_from(options)) for key, options in attributes.items()}
    return Case(inputs, chosen, types)
