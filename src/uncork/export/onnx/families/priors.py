"""PriorBox and PriorBoxClustered: a constant where the sizes are known, else the grid of centers
with the boxes around each.
"""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.families.activation import clipped
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.prior_box import PriorBox1, PriorBoxClustered1, Priors
from uncork.types import ElementType

T = ElementType


@lowers("PriorBox", "PriorBoxClustered")
def priors(
    g: Graph, op: PriorBox1 | PriorBoxClustered1, output_size: Tensor, image_size: Tensor
) -> Tensor:
    """Boxes around the centers of a grid: a constant where both sizes are known, else computed from
    them.
    """
    if output_size.value is not None and image_size.value is not None:
        return g.constant(np.asarray(op.reference(output_size.value, image_size.value), np.float32))
    places, halves, fixed = _around(g, op)
    if len(places) != op.boxes_per_cell():
        g.refuse("another number of boxes than is counted, with an image of unknown size")
    boxes = _on_grid(g, op, output_size, image_size, places, halves)
    if fixed:
        boxes = _cut(g, boxes, fixed, len(places))
    if op.clip:
        boxes = clipped(g, boxes, 0, 1)
    return _with_variances(g, op, boxes)


def _around(g: Graph, op: Priors) -> tuple[np.ndarray, np.ndarray, int]:
    """Shifts and half sizes of the boxes around each center, and how many have fixed sizes."""
    if isinstance(op, PriorBoxClustered1):
        halves = np.array([op.width, op.height], np.float32).T.reshape(-1, 2) / 2
        return np.zeros_like(halves), halves, 0
    assert isinstance(op, PriorBox1)
    if not op.scale_all_sizes:
        g.refuse("sizes that are parts of an image of unknown size")
    fixed_places, fixed_halves = op._fixed()
    sized = op._sized(list(op.min_size))
    return (
        np.concatenate([fixed_places, np.zeros_like(sized)]),
        np.concatenate([fixed_halves, sized]),
        len(fixed_places),
    )


def _on_grid(
    g: Graph,
    op: PriorBox1 | PriorBoxClustered1,
    output_size: Tensor,
    image_size: Tensor,
    places: np.ndarray,
    halves: np.ndarray,
) -> Tensor:
    """The boxes of every center, [height * width, n, 4]."""
    height, width = (g.scalar(g.slice(g.vector(output_size), k, k + 1, 0)) for k in (0, 1))
    sides = [g.cast(g.scalar(g.slice(g.vector(image_size), k, k + 1, 0)), T.f32) for k in (0, 1)]
    if isinstance(op, PriorBoxClustered1):
        given, offset = (op.step_w or op.step, op.step_h or op.step), op.offset
        open_steps = given == (0, 0)
    else:
        given, open_steps = (op.step, op.step), op.step == 0
        offset = 0.5 if open_steps else op.offset
    lines = []
    for count, side, step in ((width, sides[1], given[0]), (height, sides[0], given[1])):
        number = g.cast(g.op("Range", g.constant(0, I64), count, g.constant(1, I64)), T.f32)
        by = g.op("Div", side, g.cast(count, T.f32)) if open_steps else g.constant(np.float32(step))
        lines.append(g.op("Mul", g.op("Add", number, g.constant(np.float32(offset))), by))
    grid = g.concat([g.op("Reshape", height, [1]), g.op("Reshape", width, [1])])
    across = g.op("Expand", lines[0], grid)
    down = g.op("Expand", g.op("Unsqueeze", lines[1], [1]), grid)
    pair = g.op("Concat", *(g.op("Unsqueeze", t, [2]) for t in (across, down)), axis=2)
    centers = g.op("Add", g.op("Reshape", pair, [-1, 1, 2]), g.constant(places))
    size = g.op("Concat", *(g.op("Unsqueeze", s, [0]) for s in (sides[1], sides[0])), axis=0)
    half = g.constant(np.ascontiguousarray(halves))
    return g.op(
        "Concat",
        *(g.op("Div", g.op(node, centers, half), size) for node in ("Sub", "Add")),
        axis=2,
        shape=[None, len(places), 4],
    )


def _cut(g: Graph, boxes: Tensor, fixed: int, count: int) -> Tensor:
    """The boxes, with the first ones of each center limited to the image: low ends from 0, high
    ends to 1.
    """
    first = g.slice(boxes, 0, fixed, 1)
    low = g.op("Max", g.slice(first, 0, 2, 2), g.constant(np.float32(0)))
    high = g.op("Min", g.slice(first, 2, 4, 2), g.constant(np.float32(1)))
    cut = g.op("Concat", low, high, axis=2)
    return cut if fixed == count else g.op("Concat", cut, g.slice(boxes, fixed, count, 1), axis=1)


def _with_variances(g: Graph, op: Priors, boxes: Tensor) -> Tensor:
    """The output: a row of boxes and a row of variances."""
    variances = g.op(
        "Expand",
        g.constant(np.array(op.variance or 0.1, np.float32)),
        g.op("Shape", boxes, type=I64),
    )
    return g.op(
        "Concat",
        g.op("Reshape", boxes, [1, -1]),
        g.op("Reshape", variances, [1, -1]),
        axis=0,
        shape=g.outputs[0].shape,
    )
