"""Boxes chosen among boxes that overlap: NonMaxSuppression, MulticlassNms, MatrixNms,
DetectionOutput. What is computed is indices; gradients flow through scores and boxes taken.
"""

from __future__ import annotations

from uncork.export.torch.families.shapes import unpacked
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
from uncork.ops._common.class_selection import ClassSelection
from uncork.ops._operation import Operation
from uncork.ops.detection_output import _CENTER_SIZE, _Detection
from uncork.ops.matrix_nms import MatrixNms8


@lowers("NonMaxSuppression")
def non_max_suppression(
    w: Writer,
    op: Operation,
    boxes: Value,
    scores: Value,
    limit: Value | None = None,
    overlap: Value | None = None,
    threshold: Value | None = None,
    sigma: Value | None = None,
) -> list[str] | str:
    """The best boxes of each class of each image that overlap no better one."""
    if sigma is not None and (sigma.value is None or bool(sigma.value.any())):
        w.refuse("a soft_nms_sigma other than 0")
    options: dict[str, object] = {
        "center": op.box_encoding == "center",  # type: ignore[attr-defined]
        "ordered": op.sort_result_descending,  # type: ignore[attr-defined]
    }
    for name, value in (("limit", limit), ("overlap", overlap), ("threshold", threshold)):
        if value is not None:
            number = (
                w.integer(value) if name == "limit" else w.number(value) or f"float({w(value)})"
            )
            options[name] = Code(number)
    text = w.helper("non_max_suppression", boxes, scores, **options)
    codes = [w.dtype(s.element_type) for s in w.outputs]
    if len(codes) == 1:
        return f"{text}[0].to({codes[0]})"
    return [f"{t}.to({c})" for t, c in zip(unpacked(w, text), codes, strict=True)]


@lowers("MulticlassNms", "MatrixNms")
def by_class(
    w: Writer, op: ClassSelection, boxes: Value, scores: Value, counts: Value | None = None
) -> list[str]:
    """The best boxes of every class, counted and ordered."""
    keys = ("score_threshold", "nms_top_k", "keep_top_k", "background_class", "sort_result_type")
    options: dict[str, object] = {k: getattr(op, k) for k in keys}
    options["across"] = op.sort_result_across_batch
    options["pixel"] = op.pixel
    options["by_class"] = op.classes_by_class()
    if isinstance(op, MatrixNms8):
        options["gaussian"] = op.gaussian_sigma if op.decay_function == "gaussian" else None
        options["post_threshold"] = op.post_threshold
        options["suppress"] = Code("matrix_nms_of_class")
        w.program.helpers.add("matrix_nms_of_class")
    else:
        options["iou_threshold"] = op.iou_threshold  # type: ignore[attr-defined]
        options["eta"] = op.nms_eta  # type: ignore[attr-defined]
        options["suppress"] = Code("nms_of_class")
        w.program.helpers.add("nms_of_class")
    given = unpacked(w, w.helper("best_of_classes", boxes, scores, counts, **options))
    code = w.dtype(op.output_type)
    return [given[0], *(f"{t}.to({code})" for t in given[1:])]


@lowers("DetectionOutput")
def detection_output(
    w: Writer,
    op: _Detection,
    logits: Value,
    preds: Value,
    proposals: Value,
    objectness: Value | None = None,
    moves: Value | None = None,
) -> str:
    """Boxes from priors and offsets, the best of each class, in rows up to a row that begins with
    -1.
    """
    keys = """background_label_id top_k nms_threshold confidence_threshold clip_after_nms
    clip_before_nms share_location normalized objectness_score variance_encoded_in_target
    decrease_label_id"""
    options: dict[str, object] = {k: getattr(op, k) for k in keys.split()}
    options["keep_top_k"] = op.keep_top_k[0]
    options["num_classes"] = op.num_classes
    options["centered"] = op.code_type == _CENTER_SIZE
    options["image"] = [op.input_width, op.input_height]
    return w.helper("detection_output", logits, preds, proposals, objectness, moves, **options)
