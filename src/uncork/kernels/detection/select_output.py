"""Selection of the kernels of DetectionOutput: a loop nest decodes all boxes, then the best are
chosen.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from uncork.kernels.detection.spec import NUMBERS
from uncork.kernels.detection.spec_output import Detect
from uncork.kernels.extents import certainly, extents, is_empty, nanoseconds, product, same
from uncork.kernels.kernel_plan import In, KernelCall, KernelPlan, Operand, Out, Scratch, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View, row_bytes
from uncork.kernels.movement.spec_nd_copy import FillBytes
from uncork.kernels.runtime.target import Target
from uncork.ops.detection_output import DetectionOutput1, DetectionOutput8
from uncork.symbolic import SizeLike
from uncork.types import ElementType

#: Bytes that a sort of 32-bit keys needs: see `codegen/radix_sort.py`.
_COUNTS = 4096
_F32 = 4


def select_detections(layer: Layer) -> Selection:
    operation, inputs, outputs, target = layer.operation, layer.inputs, layer.outputs, layer.target
    assert isinstance(operation, (DetectionOutput1, DetectionOutput8))
    logits, scores, proposals, *others = inputs
    assert logits is not None and scores is not None and proposals is not None
    if logits.element_type is not ElementType.f32:
        return f"no kernel for {logits.element_type.name}"
    if any(spec is not None for spec in others):
        return "no kernel for two stages"
    if not operation.share_location or operation.decrease_label_id:
        return "no kernel for boxes of each class or classes of each box"
    rows = extents(outputs[0])[2]
    if is_empty((rows,)):
        return KernelPlan("detect_nothing", [])
    (images, numbers), (_, confidences) = extents(logits), extents(scores)
    if not isinstance(numbers, int) or not isinstance(confidences, int) or numbers < 4:
        return "no kernel for numbers of boxes that only the call knows"
    priors = numbers // 4
    classes = confidences // priors
    corners = images * (priors * NUMBERS * _F32)
    decoding = _decoded(operation, images, priors, extents(proposals), target)
    if isinstance(decoding, str):
        return decoding
    each = classes * priors * _F32
    sizes = [each, classes * 8, (priors + target.lanes) * NUMBERS * _F32, _COUNTS, *[each] * 6]
    scratch: SizeLike = row_bytes(corners, "u8")
    rooms: list[Operand] = [Scratch(0)]
    for size in sizes:
        rooms.append(Scratch(scratch))
        scratch = scratch + row_bytes(size, "u8")
    chosen = Detect(operation.clip_after_nms, target.lanes)
    top = priors if operation.top_k < 0 else operation.top_k
    words: list[Operand] = [In(1), Out(0), images, priors, classes, rows]
    words += [operation.background_label_id, top, operation.keep_top_k[0]]
    words += [_bits(operation.nms_threshold), _bits(operation.confidence_threshold), *rooms]
    zeros: KernelCall = FillBytes(0), [0, Out(0), rows * (7 * _F32)]
    cost = nanoseconds(product((images, priors, classes)), 3.0)
    return KernelPlan(
        chosen.name,
        [zeros, decoding.kernel_call(), (chosen, words)],
        scratch=scratch,
        cost=cost,
    )


def _bits(number: float) -> int:
    """The bits of the nearest f32."""
    limited = max(-math.inf, min(number, math.inf))
    return int(struct.unpack("<I", struct.pack("<f", limited))[0])


def _decoded(
    operation: DetectionOutput1 | DetectionOutput8,
    images: SizeLike,
    priors: int,
    proposals: Sequence[SizeLike],
    target: Target,
) -> Call | str:
    """The loop nest that decodes all boxes into corners and areas, or why there is none."""
    size, rows = operation.prior_size, 1 if operation.variance_encoded_in_target else 2
    if not (certainly(proposals[0], 1) or same(proposals[0], images)):
        return "no kernel for a batch of proposals that only the call knows"
    step = 0 if certainly(proposals[0], 1) else rows * priors * size * _F32
    line = (images, priors * size)
    views = {
        "X": View(In(0), "f32", (images, priors * 4)),
        "R": View(In(2), "f32", line, (step, _F32)),
        "V": View(In(2, priors * size * _F32), "f32", line, (step, _F32)),
        "C": View(Scratch(), "f32", (images, NUMBERS, priors)),
    }
    sizes: dict[str, SizeLike] = {"n": images, "p": priors}
    text = "\n".join(["n p*:", *(f"  {line}" for line in _lines(operation))])
    return Call("decode", text, sizes, views, target, 1)


def _lines(operation: DetectionOutput1 | DetectionOutput8) -> list[str]:
    size, lines = operation.prior_size, []
    for index in range(4):
        place = f"{size}*p + {size - 4 + index}"
        # an index that is no sum of at most 4 times the axis is gathered
        cell = f"R[n, {place}]" if size <= 4 else f"R[n, at(i{index})]"
        if size > 4:
            lines.append(f"i{index} = integer({place})")
        if not operation.normalized:
            cell += f" / {float((operation.input_width, operation.input_height)[index % 2])}"
        lines.append(f"b{index} = {cell}")
        offset = f"X[n, 4*p + {index}]"
        if not operation.variance_encoded_in_target:
            offset = f"V[n, 4*p + {index}] * {offset}"
        lines.append(f"o{index} = {offset}")
    if operation.code_type.endswith("CENTER_SIZE"):
        for low, high in ((0, 2), (1, 3)):
            lines += [
                f"s = b{high} - b{low}",
                f"m = (b{low} + b{high}) / 2.0 + o{low} * s",
                f"t = exp(o{high}) * s / 2.0",
                f"c{low} = m - t",
                f"c{high} = m + t",
            ]
    else:
        lines += [f"c{index} = b{index} + o{index}" for index in range(4)]
    if operation.clip_before_nms:
        lines += [f"c{n} = smaller(larger(c{n}, 0.0), 1.0)" for n in range(4)]
    lines += [f"C[n, {index}, p] = c{index}" for index in range(4)]
    return [*lines, "C[n, 4, p] = (c2 - c0) * (c3 - c1)"]
