"""Selection of the kernels of DetectionOutput: a loop nest decodes all boxes, then the best are
chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.detection.select import bits, zeros_in
from uncork.kernels.detection.select_classes import taken
from uncork.kernels.detection.spec import BY_CLASS, DETECTIONS, Classify
from uncork.kernels.extents import (
    certainly,
    compute_nothing_of,
    decline_if,
    nanoseconds,
    product,
    same,
)
from uncork.kernels.kernel_plan import In, KernelPlan, Operand, Out, Scratch, Selection, Workspace
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.runtime.target import Target
from uncork.ops.detection_output import DetectionOutput1, DetectionOutput8
from uncork.symbolic import SizeLike
from uncork.types import ElementType

_F32 = 4


def select_detections(layer: Layer) -> Selection:
    operation, target = layer.operation, layer.target
    assert isinstance(operation, (DetectionOutput1, DetectionOutput8))
    layer.require(0, ElementType.f32)
    decline_if(layer.has(3) or layer.has(4), "no kernel for two stages")
    decline_if(
        not operation.share_location or operation.decrease_label_id,
        "no kernel for boxes of each class or classes of each box",
    )
    rows = layer.result()[2]
    compute_nothing_of((rows,), "detect")
    (images, numbers), (_, confidences) = layer.shape(0), layer.shape(1)
    if not isinstance(numbers, int) or not isinstance(confidences, int) or numbers < 4:
        return "no kernel for numbers of boxes that only the call knows"
    priors = numbers // 4
    classes = confidences // priors
    decoding = _decoded(operation, images, priors, layer.shape(2), target)
    room = Workspace()
    boxes = room.take(images * (priors * 16))
    top = priors if operation.top_k < 0 else min(priors, operation.top_k)
    most = operation.keep_top_k[0]
    call = Classify(DETECTIONS, BY_CLASS, target.lanes, clip=operation.clip_after_nms)(
        boxes=boxes,
        box_image=priors * 16,
        box_class=0,
        box_step=16,
        scores=In(1),
        rows=Out(0),
        space=rows,
        batches=images,
        background=operation.background_label_id,
        keep=classes * priors if most < 0 else most,
        overlap=bits(operation.nms_threshold),
        least=bits(operation.confidence_threshold),
        **listed(room, priors, classes),
        **taken(room, target.lanes, (classes, priors, top, top), rows),
    )
    calls = [*zeros_in(layer.outputs), decoding.kernel_call(), call]
    cost = nanoseconds(product((images, priors, classes)), 3.0)
    return KernelPlan(call[0].name, calls, room.bytes, cost=cost)


def listed(room: Workspace, boxes: SizeLike, classes: SizeLike) -> dict[str, Operand]:
    """The working memory in which the boxes of each class are listed."""
    return {"many": room.take(classes * 8), "listed": room.take(boxes * classes * 4)}


def _decoded(
    operation: DetectionOutput1 | DetectionOutput8,
    images: SizeLike,
    priors: int,
    proposals: Sequence[SizeLike],
    target: Target,
) -> Call:
    """The loop nest that decodes all boxes into corners."""
    size, rows = operation.prior_size, 1 if operation.variance_encoded_in_target else 2
    decline_if(
        not (certainly(proposals[0], 1) or same(proposals[0], images)),
        "no kernel for a batch of proposals that only the call knows",
    )
    step = 0 if certainly(proposals[0], 1) else rows * priors * size * _F32
    line = (images, priors * size)
    views = {
        "X": View(In(0), "f32", (images, priors * 4)),
        "R": View(In(2), "f32", line, (step, _F32)),
        "V": View(In(2, priors * size * _F32), "f32", line, (step, _F32)),
        "C": View(Scratch(), "f32", (images, 4 * priors)),
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
    return [*lines, "C[n, 4*p] = interleaved(c0, c1, c2, c3)"]
