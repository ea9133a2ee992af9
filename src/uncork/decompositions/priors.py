"""PriorBox and PriorBoxClustered: a constant where the sizes are known, else the grid of centers
with the boxes around each.
"""

from __future__ import annotations

import numpy as np

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.errors import UnsupportedError
from uncork.ir.model import Source
from uncork.ops.prior_box import PriorBox1, PriorBoxClustered1
from uncork.types import Array, ElementType

T = ElementType


@composite("PriorBox", "PriorBoxClustered")
def priors(
    g: Layers, op: PriorBox1 | PriorBoxClustered1, output_size: Source, image_size: Source
) -> Source:
    """Boxes around the centers of a grid."""
    known = [g.known(output_size), g.known(image_size)]
    if known[0] is not None and known[1] is not None:
        return g.constant(np.asarray(op.reference(known[0], known[1]), np.float32))
    UnsupportedError.when(
        isinstance(op, PriorBox1) and not op.scale_all_sizes,
        "sizes that are parts of an image of unknown size",
    )
    places, halves, fixed = op.cell()
    UnsupportedError.when(
        len(places) != op.boxes_per_cell(),
        "another number of boxes than is counted, with an image of unknown size",
    )
    low, high = _on_grid(g, op, output_size, image_size, places, halves)
    if fixed:  # the first of each center are limited to the image
        limits = np.full((2, len(places), 2), np.inf, np.float32) * [[[-1]], [[1]]]
        limits[0, :fixed], limits[1, :fixed] = 0, 1
        bounds = [g.constant(limit.astype(np.float32)) for limit in limits]
        low, high = g.largest(low, bounds[0]), g.least(high, bounds[1])
    boxes = g.concat([low, high], 2)
    boxes = g.reshape(g.clipped(boxes, 0, 1) if op.clip else boxes, [1, -1])
    variances = g.constant(np.array(op.variance or [0.1], np.float32))
    count = g.times(g.dim(g.reshape(low, [-1, 2]), 0), 4 // len(op.variance or [0]))
    spread = g.make("Tile", variances, count)
    return g.concat([boxes, g.reshape(spread, [1, -1])], 0)


def _on_grid(
    g: Layers,
    op: PriorBox1 | PriorBoxClustered1,
    output_size: Source,
    image_size: Source,
    places: Array,
    halves: Array,
) -> tuple[Source, Source]:
    """The corners of the boxes of every center, [height * width, n, 2] each."""
    height, width = g.each(output_size, 2)
    sides = [g.convert(side, T.f32) for side in g.each(image_size, 2)]
    if isinstance(op, PriorBoxClustered1):
        steps, offset = (op.step_w or op.step, op.step_h or op.step), op.offset
        follows = steps == (0, 0)
    else:
        steps, follows = (op.step, op.step), op.step == 0
        offset = 0.5 if follows else op.offset
    lines = []
    for count, side, step in ((width, sides[1], steps[0]), (height, sides[0], steps[1])):
        by = g.over(side, g.convert(count, T.f32)) if follows else g.of_type(step, T.f32)
        lines.append(g.times(g.plus(g.convert(g.range(count), T.f32), offset), by))
    grid = g.shape(height, width)
    across, down = (g.broadcast(t, grid) for t in (lines[0], g.unsqueeze(lines[1], 1)))
    pair = g.concat([g.unsqueeze(across, 2), g.unsqueeze(down, 2)], 2)
    centers = g.plus(g.reshape(pair, [-1, 1, 2]), g.constant(np.asarray(places, np.float32)))
    half, size = g.constant(np.ascontiguousarray(halves)), g.concat(sides[::-1], 0)
    return g.over(g.minus(centers, half), size), g.over(g.plus(centers, half), size)
