"""Selection of kernels of MulticlassNms and MatrixNms, as the first of the two layers that
`passes/count_first.py` makes of each.
"""

from __future__ import annotations

from uncork.internal_ops.found_rows import TakenOfClasses
from uncork.kernels.detection.select import bits, zeros_in
from uncork.kernels.detection.spec import (
    BY_CLASS,
    BY_SCORE,
    NUMBERS,
    OF_ALL,
    OF_IMAGE,
    PLACES,
    Classify,
)
from uncork.kernels.extents import decline_if, largest, nanoseconds, product, smallest
from uncork.kernels.kernel_plan import In, KernelPlan, Operand, Out, Selection, Workspace
from uncork.kernels.layer import Layer
from uncork.ops.matrix_nms import MatrixNms8
from uncork.ops.multiclass_nms import MulticlassNms8
from uncork.symbolic import SizeLike
from uncork.types import ElementType


def taken(
    room: Workspace,
    lanes: int,
    sizes: tuple[SizeLike, SizeLike, SizeLike, SizeLike],
    rows: SizeLike,
) -> dict[str, Operand]:
    """How many classes and boxes there are, how many of a class take part and are taken at most,
    and the working memory in which they are found, and the rows of all images.
    """
    classes, count, top, most = sizes
    image = classes * most
    return {
        "classes": classes,
        "count": count,
        "top": top,
        "most": most,
        "chosen": room.take((most + lanes) * (NUMBERS * 4)),
        **{f"taken_{name}": room.take(image * 4) for name in OF_IMAGE},
        **{f"kept_{name}": room.take(rows * 4) for name in OF_ALL},
        **room.sorts(largest(largest(count, image), rows)),
    }


def select_classes(layer: Layer) -> Selection:
    means, lanes = layer.of(TakenOfClasses).layer, layer.target.lanes
    layer.require(1, ElementType.f32)
    decline_if(not means.normalized, "no kernel for boxes of pixels")
    if isinstance(means, MulticlassNms8):
        decline_if(means.nms_eta < 1, "no kernel for thresholds that fall")
        decay, overlap, sigma, post = "", means.iou_threshold, 0.0, 0.0
    else:
        assert isinstance(means, MatrixNms8)
        decay, overlap = means.decay_function, 0.0
        sigma, post = means.gaussian_sigma, means.post_threshold
    batches, classes, count = layer.shape(1)
    top = count if means.nms_top_k < 0 else smallest(count, means.nms_top_k)
    image = classes * top
    keep = image if means.keep_top_k < 0 else smallest(image, means.keep_top_k)
    across = {"score": "score", "classid": "class"}.get(means.sort_result_type, "")
    if not means.sort_result_across_batch:
        across = ""
    index = layer.outputs[1].element_type.name
    order = BY_CLASS if means.classes_by_class() else BY_SCORE
    spec = Classify(PLACES, order, lanes, index, decay, across)
    rows, room = layer.result()[0], Workspace()
    call = spec(
        boxes=In(0),
        box_image=count * 16,
        box_class=0,
        box_step=16,
        scores=In(1),
        rows=Out(0),
        row_places=Out(1),
        numbers=Out(2),
        found=Out(3),
        batches=batches,
        background=means.background_class,
        keep=keep,
        overlap=bits(overlap),
        least=bits(means.score_threshold),
        sigma=bits(sigma),
        post=bits(post),
        largest=room.take((top + lanes) * 4),
        **taken(room, lanes, (classes, count, top, top), rows),
    )
    cost = nanoseconds(product((batches, classes, count)), 4.0)
    # What lies behind the rows is 0.
    return KernelPlan(spec.name, [*zeros_in(layer.outputs[:2]), call], room.bytes, cost=cost)
