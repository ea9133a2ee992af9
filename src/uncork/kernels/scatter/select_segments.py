"""Selection of the kernel of SegmentMax; threads share the columns."""

from __future__ import annotations

import numpy as np

from uncork.kernels.extents import nanoseconds, product
from uncork.kernels.kernel_plan import In, KernelCall, Out, Selection
from uncork.kernels.layer import Layer, shared_call
from uncork.kernels.loops.nest_call import vector_lanes
from uncork.kernels.runtime.target import LINE
from uncork.kernels.scatter.spec_segments import MaxOfSegments
from uncork.ops.segment_max import SegmentMax16, lowest
from uncork.storage import encode
from uncork.symbolic import SizeLike


def select_segment_max(layer: Layer) -> Selection:
    element_type, name = layer.input(0).element_type, layer.stored(0)
    rows, *columns = layer.shape(0)
    segments, width, item = layer.result()[0], product(columns), element_type.dtype.itemsize
    fill = 0 if layer.of(SegmentMax16).fill_mode == "zero" else lowest(element_type)
    empty = encode(np.array(fill), element_type).view(f"i{item}").item()
    index, lanes = layer.input(1).element_type.name, vector_lanes([name], layer.target)
    spec = MaxOfSegments(name, index, empty, lanes)

    def part(first: SizeLike, some: SizeLike) -> KernelCall:
        return spec(
            data=In(0, first * item),
            ids=In(1),
            output=Out(0, first * item),
            rows=rows,
            segments=segments,
            row=width * item,
            width=some,
        )

    return shared_call(part, [(width, LINE)], nanoseconds(rows * width, item / 16))
