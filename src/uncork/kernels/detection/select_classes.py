"""Selection of kernels of MulticlassNms and MatrixNms, as the two layers that
`passes/count_first.py` makes of each.
"""

from __future__ import annotations

import math
import struct

from uncork.internal_ops.found_detections import TakenOfClasses
from uncork.kernels.detection.spec import NUMBERS
from uncork.kernels.detection.spec_classes import OF_ALL, OF_IMAGE, Classify
from uncork.kernels.extents import extents, largest, nanoseconds, product, smallest
from uncork.kernels.kernel_plan import In, KernelCall, KernelPlan, Operand, Out, Scratch, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import row_bytes
from uncork.kernels.movement.spec_nd_copy import CopyBytes, FillBytes
from uncork.ops.matrix_nms import MatrixNms8
from uncork.ops.multiclass_nms import MulticlassNms8
from uncork.symbolic import SizeLike
from uncork.types import ElementType

#: Bytes that a sort of 32-bit keys needs: see `codegen/radix_sort.py`.
_COUNTS = 4096


def select_classes(layer: Layer) -> Selection:
    operation, outputs, target = layer.of(TakenOfClasses), layer.outputs, layer.target
    means, scores = operation.layer, layer.input(1)
    if scores.element_type is not ElementType.f32:
        return f"no kernel for {scores.element_type}"
    if not means.normalized:
        return "no kernel for boxes of pixels"
    if isinstance(means, MulticlassNms8):
        if means.nms_eta < 1:
            return "no kernel for thresholds that fall"
        decay, numbers = "", (means.iou_threshold, means.score_threshold, 0.0, 0.0)
    else:
        assert isinstance(means, MatrixNms8)
        decay = means.decay_function
        numbers = 0.0, means.score_threshold, means.gaussian_sigma, means.post_threshold
    index = outputs[1].element_type
    batches, classes, count = extents(scores)
    top = count if means.nms_top_k < 0 else smallest(count, means.nms_top_k)
    image = classes * top
    keep = image if means.keep_top_k < 0 else smallest(image, means.keep_top_k)
    rows = extents(outputs[0])[0]
    across = {"score": "score", "classid": "class"}.get(means.sort_result_type, "")
    if not means.sort_result_across_batch:
        across = ""
    spec = Classify(index.name, means.classes_by_class(), decay, across, target.lanes)
    sorted_at_most = largest(largest(count, image), rows)
    room = top + target.lanes
    sizes = [room * (NUMBERS * 4), room * 4, _COUNTS, *[sorted_at_most * 4] * 4]
    sizes += [image * 4] * len(OF_IMAGE) + [rows * 4] * len(OF_ALL)
    rooms: list[Operand] = []
    scratch: SizeLike = 0
    for size in sizes:
        rooms.append(Scratch(scratch))
        scratch = scratch + row_bytes(size, "u8")
    words: list[Operand] = [In(0), In(1), *(Out(n) for n in range(4)), batches, classes, count]
    words += [means.background_class, top, keep]
    words += [*map(_bits, numbers), *rooms]
    # What lies behind the rows is 0.
    zeros: list[KernelCall] = [
        (FillBytes(0), [0, Out(0), rows * (6 * 4)]),
        (FillBytes(0), [0, Out(1), rows * index.dtype.itemsize]),
    ]
    cost = nanoseconds(product((batches, classes, count)), 4.0)
    return KernelPlan(spec.name, [*zeros, (spec, words)], scratch=scratch, cost=cost)


def _bits(number: float) -> int:
    """The bits of the nearest f32."""
    limited = max(-math.inf, min(number, math.inf))
    return int(struct.unpack("<I", struct.pack("<f", limited))[0])


def select_first(layer: Layer) -> Selection:
    outputs = layer.outputs
    count, (batches,) = extents(outputs[0])[0], extents(outputs[2])
    real, index = (spec.element_type.dtype.itemsize for spec in outputs[:2])
    copy = CopyBytes()
    calls: list[KernelCall] = [
        (copy, [In(0), Out(0), count * (6 * real)]),
        (copy, [In(1), Out(1), count * index]),
        (copy, [In(2), Out(2), batches * index]),
    ]
    return KernelPlan("first_detections", calls, cost=nanoseconds(count, 4.0))
