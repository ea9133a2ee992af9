"""Internal operation: rows that are scattered, by an index for each.

See the pass `scatter_rows`.
"""

from __future__ import annotations

from uncork.internal_ops.of_layers import OfLayers, Specs, Step
from uncork.ops._ports import Field, Output
from uncork.ops.broadcast import Broadcast3
from uncork.ops.scatter_elements_update import ScatterElementsUpdate12
from uncork.ops.shape_of import ShapeOf3
from uncork.types import TensorSpec


class ScatteredRows(OfLayers):
    """ScatterElementsUpdate along the first axis with one index for all elements of a row.

    Inputs are those of the layer, `elements`, with indices `[N, 1, ..]` that it has stretched over
    the updates `[N, ..]`.
    """

    output = Output()

    elements = Field[ScatterElementsUpdate12]()

    def through(self, step: Step, specs: Specs) -> tuple[TensorSpec, ...]:
        data, rows, updates, axis = specs
        indices = step(Broadcast3(), [rows, *step(ShapeOf3(), [updates])])
        return step(self.elements, [data, *indices, updates, axis])
