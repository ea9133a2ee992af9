"""Selection of the loop nests that sample the levels of a pyramid within boxes, each box on the
level that suits its size: ExperimentalDetectronROIFeatureExtractor.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from uncork.kernels.extents import (
    decline_if,
    extents,
    is_empty,
    may_be_empty,
    nanoseconds,
    product,
)
from uncork.kernels.kernel_plan import In, KernelPlan, Out, Selection, Stages
from uncork.kernels.layer import Layer, joined, staged
from uncork.kernels.loops.nest_call import Call, View, computed_type
from uncork.kernels.loops.regions import Rooms
from uncork.kernels.loops.select_regions import MOST_SIZE, frame, mean_lines
from uncork.kernels.movement.nd_copy import zeros
from uncork.kernels.movement.spec import COPY_BYTES
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.target import Target
from uncork.ops.detectron import DetectronROIFeatureExtractor6, Level, level_of
from uncork.symbolic import SizeLike
from uncork.types import Array

#: Numbers of a level: the sizes of boxes from and to which it is used, and its scale.
_NUMBERS = 3


def select_features(layer: Layer) -> Selection:
    operation, inputs, outputs, target = (
        layer.of(DetectronROIFeatureExtractor6),
        layer.inputs,
        layer.outputs,
        layer.target,
    )
    specs = [spec for spec in inputs if spec is not None]
    name = specs[0].element_type.name
    decline_if(computed_type(name) != "f32", f"no kernel for {name}")
    rois, *pyramid = (extents(spec) for spec in specs)
    item = specs[0].element_type.dtype.itemsize
    copied = COPY_BYTES(source=In(0), target=Out(1), run=rois[0] * (4 * item))
    result = extents(outputs[0])
    if is_empty(result):
        return KernelPlan("align_nothing", [copied])
    decline_if(any(may_be_empty(shape[2:]) for shape in pyramid), "no cells to look at")
    numbers = _numbers(operation, len(pyramid))
    calls = [
        _level(align, numbers[index], name, In(1 + index), shape, result, target)
        for index, (align, shape) in enumerate(zip(operation.levels(), pyramid, strict=False))
    ]
    first = [zeros(Out(0), product(result) * item), copied]
    native = [call.native() for call in calls]

    def split(threads: int) -> Stages:
        return joined([Stages([first], 0), *(plan.stages(threads) for plan in native)])

    return staged(split, nanoseconds(product(result), 8.0), [numbers], native[0].kernel)


def _numbers(operation: DetectronROIFeatureExtractor6, levels: int) -> Array:
    """The numbers of each level, as a table: the first one begins anywhere, and the last one, whose
    end is NaN, ends nowhere.
    """
    begins = [-np.inf, *map(_begin, range(1, levels))]
    ends = [*begins[1:], np.nan]
    scales = [align.spatial_scale for align in operation.levels()]
    return np.array(list(zip(begins, ends, scales, strict=False)), np.float32)


@functools.lru_cache(maxsize=64)
def _begin(level: int) -> float:
    """The least size, in f32, that the formula of the reference gives this level or a later one:
    rounding the logarithm may put it below the power of 2.
    """
    low, high = (int(np.float32(2.0**power).view(np.int32)) for power in (level - 3, level - 1))
    while low < high:
        middle = (low + high) // 2
        size = np.array([middle], np.int32).view(np.float32)
        if level_of(size)[0] >= level:
            high = middle
        else:
            low = middle + 1
    return float(np.int32(low).view(np.float32))


def _level(
    align: Level,
    numbers: Array,
    name: str,
    image: In,
    shape: Sequence[SizeLike],
    result: Sequence[SizeLike],
    target: Target,
) -> Call:
    """The nest that samples one level, within the boxes that belong to it."""
    rooms = Rooms("f32")
    boxes = result[0]
    _, channels, height, width = shape
    views = {
        "L": View(address_of(numbers), "f32", (_NUMBERS,)),
        "X": View(image, name, (1, channels, height, width)),
        "R": View(In(0), name, (boxes, 4)),
        "Y": View(Out(0), name, tuple(result)),
        "Z": View(Out(0), name, (boxes, product(result[1:]))),
        **rooms.bins((align.pooled_h, align.pooled_w), (height, width), weighted=True),
    }
    sizes: dict[str, SizeLike] = {
        **{"n": boxes, "c": channels, "y": align.pooled_h, "x": align.pooled_w},
        **{"z": product(result[1:]), "h": height, "w": width, "ey": height, "ex": width},
    }
    shift = " - 0.5" if align.aligned else ""
    inside = [
        f"refused = either(number(h) > {MOST_SIZE}.0, number(w) > {MOST_SIZE}.0)",
        "b = truncated(0.0 * number(h))",
    ]
    for axis, low, high in (("x", 0, 2), ("y", 1, 3)):
        begin, end = (f"(R[n, {number}] * L[2]{shift})" for number in (low, high))
        inside += frame(align, axis, begin, end, 1.0)
    lines = [
        "n:",
        "  area = (R[n, 2] - R[n, 0]) * (R[n, 3] - R[n, 1])",
        "  side = sqrt(larger(area, 0.0)) / 224.0 + 0.000001",
        "  is_here = both(area > 0.0, side >= L[0])",
        "  here = where(is_here, where(side >= L[1], 0.0, 1.0), 0.0)",
        "  level=0..here:",
        *(f"    {line}" for line in inside),
        *(f"  {line}" for line in mean_lines(align)),
    ]
    cost = product(result) * (max(1, align.sampling_ratio) * 2)
    text = "\n".join(lines)
    return Call("features", text, sizes, views, target, 1, cost, rooms.size, shared="n")
