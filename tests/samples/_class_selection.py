"""The rows of MatrixNms and MulticlassNms by sorting Python tuples, and random cases for both."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._sample import Case
from uncork import storage
from uncork.types import ElementType

#: What one class of one image gives: (number of the box, score) for each box taken.
OfClass = Callable[[list[list[float]], list[float]], list[tuple[int, float]]]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def outputs(
    *rows: tuple[Any, ...], counts: tuple[int, ...], boxes: np.ndarray, dtype: Any = np.int64
) -> list[np.ndarray]:
    """The three outputs from rows (class, score, place), with the boxes [n, 4] that the places
    number.
    """
    table = [[c, s, *boxes.reshape(-1, 4)[place].tolist()] for c, s, place in rows]
    return [
        f32(*[v for r in table for v in r]).reshape(-1, 6),
        np.array([r[2] for r in rows], dtype).reshape(-1, 1),
        np.array(counts, dtype),
    ]


def rows_of(
    case: Case, of_class: OfClass, by_class: bool, across: Callable[[Any], Any] | None = None
) -> list[np.ndarray]:
    """`of_class` for each class of each image; `by_class` says whether the rows of one image are
    ordered by class.
    """
    at = case.attributes
    boxes, scores, *counts = [
        storage.decode(a, t) for a, t in zip(case.inputs, case.types, strict=True) if a is not None
    ]
    if counts:
        classes, number = scores.shape
        ends = [0]
        for count in counts[0].tolist():
            ends.append(ends[-1] + count)
        images = [
            [
                (
                    boxes[c, a:b].tolist(),
                    scores[c, a:b].tolist(),
                    [m * classes + c for m in range(a, b)],
                )
                for c in range(classes)
            ]
            for a, b in itertools.pairwise(ends)
        ]
    else:
        number = boxes.shape[1]
        images = [
            [
                (boxes[b].tolist(), row.tolist(), [b * number + m for m in range(number)])
                for row in scores[b]
            ]
            for b in range(len(boxes))
        ]
    everything: list[tuple[Any, ...]] = []
    totals = []
    for image, contents in enumerate(images):
        found = []
        for number, (own, values, places) in enumerate(contents):
            if number != at.get("background_class", -1):
                found += [
                    (image, number, score, places[m], own[m]) for m, score in of_class(own, values)
                ]
        found.sort(key=lambda r: (-r[2], r[1], r[3]))
        if at.get("keep_top_k", -1) >= 0:
            found = found[: at["keep_top_k"]]
        if by_class:
            found.sort(key=lambda r: (r[1], -r[2], r[3]))
        totals.append(len(found))
        everything += found
    if at.get("sort_result_across_batch") and at.get("sort_result_type") == "score":
        everything.sort(key=lambda r: (-r[2], r[0], r[1], r[3]))
    if at.get("sort_result_across_batch") and at.get("sort_result_type") == "classid":
        everything.sort(key=lambda r: (r[1], r[0], -r[2], r[3]))
    dtype = at.get("output_type", ElementType.i64).dtype
    table = np.array(
        [[number, score, *box] for _, number, score, _, box in everything], scores.dtype
    ).reshape(-1, 6)
    return [
        table,
        np.array([r[3] for r in everything], dtype).reshape(-1, 1),
        np.array(totals, dtype),
    ]


COMMON = {
    "sort_result_type": ["none", "score", "classid"],
    "sort_result_across_batch": [True, False],
    "output_type": [ElementType.i32, ElementType.i64],
    "score_threshold": [0.0, 0.25, -1.0],
    "nms_top_k": [-1, 0, 1, 3],
    "keep_top_k": [-1, 0, 2, 5],
    "background_class": [-1, 0, 1],
    "normalized": [True, False],
}


@st.composite
def cases(draw: st.DrawFn, attributes: dict[str, list[Any]], own_boxes: bool = False) -> Case:
    images, classes, count = (
        draw(st.integers(0, 2)),
        draw(st.integers(0, 2)),
        draw(st.integers(0, 5)),
    )
    chosen = {key: draw(st.sampled_from(options)) for key, options in (COMMON | attributes).items()}
    if own_boxes and draw(st.booleans()):
        first = draw(st.integers(0, count)) if images else 0
        counts = {0: [], 1: [count], 2: [first, count - first]}[images]
        shapes = (classes, count if images else 0, 4), (classes, count if images else 0)
        extra = [np.array(counts, draw(st.sampled_from(["i4", "i8"])))]
    else:
        shapes, extra = ((images, count, 4), (images, classes, count)), []
    boxes, name = draw(arrays(shapes[0], FLOATS, -1, 2))
    values = storage.decode(boxes, ElementType.parse(name))
    corners = np.concatenate([values[..., :2], values[..., :2] + np.abs(values[..., 2:])], axis=-1)
    scores, _ = draw(arrays(shapes[1], (name,), -1, 2))
    return Case(
        [storage.encode(corners, ElementType.parse(name)), scores, *extra], chosen, [name, name]
    )
