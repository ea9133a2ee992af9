"""What kernels that choose boxes are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import SORTS, KernelSpec

#: Numbers of a box in working memory: both corners, and its area.
NUMBERS = 5


class Suppress(KernelSpec, frozen=True):
    """Non-maximum suppression of f32 boxes, class by class."""

    emitter: ClassVar[str] = "uncork.kernels.detection.emit:emit_suppress"
    index: str
    #: The type of the number of boxes of a class at most; empty where it is left out, which is
    #: none.
    limit: str
    #: Which of the optional inputs there are.
    overlap: bool
    least: bool
    sigma: bool
    center: bool
    sorted: bool
    lanes: int
    #: Soft-NMS removes boxes past the threshold, too.
    removes: bool = False

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments: inputs, outputs, sizes, and working memory; `most` is how many
        boxes of a class there is room for.

        `corners` has 5 f32 of each box, `chosen` 5 f32 of each box
        that is taken of a class and of a vector more; `live` has 5 and `live_scores` one of each
        box and of a vector more, for Soft-NMS; each of the others has 4 bytes of each box of
        an image, or of each row.
        """
        inputs = ["boxes", "scores", "limit", "overlap", "least", "sigma"]
        sizes = ["batches", "classes", "count", "most"]
        live = ["live", "live_scores"] if self.sigma else []
        rows = ["batches", "classes", "boxes", "values"]
        return [
            *inputs, "rows", "row_scores", "found", *sizes, *SORTS, "corners", "chosen", *live,
            *(f"row_{name}" for name in (*SORTS, *rows)),
        ]  # fmt: skip


_ROOMS = ("corners", "found", "many", "chosen", *SORTS, "taken_classes", "taken_boxes")


class Detect(KernelSpec, frozen=True):
    """The spec of the kernel that takes the best boxes of each class, and of all classes together;
    boxes are decoded already.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_output:emit_detect"
    #: The inputs and the output, sizes, numbers (`overlap` and `least` are the bits of f32), and
    #: working memory. `corners` has 5 f32 of each box of an image, `found` the boxes of each class
    #: with a high enough score, `many` how many there are; `chosen` is for 5 f32 of each box and a
    #: vector more. Each of the others has 4 bytes of each box of each class.
    arguments: ClassVar[tuple[str, ...]] = (
        "scores", "output", "images", "priors", "classes", "rows", "background", "top", "keep",
        "overlap", "least", *_ROOMS,
    )  # fmt: skip
    #: Boxes that are chosen are cut to the image.
    clip: bool
    lanes: int


class DetectOfClasses(KernelSpec, frozen=True):
    """The spec of the kernel that takes the best boxes of each class, which has boxes of its own,
    and of all classes together; boxes are decoded already.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_of_classes:emit_of_classes"
    #: The inputs and the outputs, sizes, numbers and working memory as those of `Detect`, but that
    #: `corners` has five rows, each of an f32 of each class of each region; at most `top` boxes
    #: are taken of a class.
    arguments: ClassVar[tuple[str, ...]] = (
        "rois", "scores", "boxes", "labels", "values", "priors", "classes", "background", "top",
        "keep", "overlap", "least", *_ROOMS,
    )  # fmt: skip
    lanes: int


class BestRows(KernelSpec, frozen=True):
    """The spec of the kernel that copies the regions of the highest scores, best first; NaN comes
    last.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_of_classes:emit_best_rows"
    #: `rows` of four f32, the `scores` of `count` rows, the output, of which `kept` rows are
    #: written, and what a sort needs.
    arguments: ClassVar[tuple[str, ...]] = ("rows", "scores", "output", "count", "kept", *SORTS)


#: What is known of a box that is taken, each in 4 bytes.
OF_IMAGE = ("classes", "boxes", "scores")
OF_ALL = ("images", *OF_IMAGE)


class Classify(KernelSpec, frozen=True):
    """The spec of the kernel that takes the best f32 boxes of each class, and of these the best of
    each image.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_classes:emit_classes"
    #: Inputs, outputs, sizes, numbers (`overlap`, `least`, `sigma` and `post` are the bits of f32;
    #: `top` and `keep` are no larger than what there can be), and working memory. `chosen` has 5
    #: f32 of each box that is taken of a class, and of a vector more, `largest` an f32 of each of
    #: these. Each of the others has 4 bytes of each row of an image or of all.
    arguments: ClassVar[tuple[str, ...]] = (
        "boxes", "scores", "rows", "row_places", "numbers", "found", "batches", "classes", "count",
        "background", "top", "keep", "overlap", "least", "sigma", "post", "chosen", "largest",
        *SORTS, *(f"taken_{name}" for name in OF_IMAGE), *(f"kept_{name}" for name in OF_ALL),
    )  # fmt: skip
    #: The type of places and counts.
    index: str
    #: Rows of an image go by class, not by score.
    by_class: bool
    #: How scores fall where boxes are not left out: "gaussian", "linear" or not at all.
    decay: str
    #: Rows of all images are ordered together: by "score", by "class" or not at all.
    across: str
    lanes: int


class Propose(KernelSpec, frozen=True):
    """The spec of the kernel that takes the best f32 boxes of each image that overlap none before
    them; boxes are decoded already.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_regions:emit_propose"
    #: `boxes` has five numbers (six where `sized`) of each of `anchors * cells` boxes of each
    #: image, number by number, and `scores` one; the order of boxes is by cells, then anchors.
    #: `image` has height and width where rows need them. `most` boxes take part, of which `keep`
    #: are taken; `overlap` is the bits of an f32. `heap` is room for an i32 of each of the `most`,
    #: `chosen` for 5 f32 of each of `room` boxes.
    arguments: ClassVar[tuple[str, ...]] = (
        "boxes", "scores", "image", "rows", "row_scores", "numbers", "found", "images", "anchors",
        "cells", "most", "keep", "overlap", "heap", "chosen", "room",
    )  # fmt: skip
    lanes: int
    #: Both ends of a side belong to a box, where overlaps are told.
    pixel: bool
    #: Scores of the boxes taken are an output.
    scored: bool
    #: Rows begin with the number of their image, and one that begins with -1 ends them.
    numbered: bool = False
    #: Boxes taken are cut to the image, or divided by its sides; `turned`: y comes first.
    clip: bool = False
    normalize: bool = False
    turned: bool = False
    #: The type of the number of boxes of each image, whose rows then follow each other; empty:
    #: each image has `keep` rows.
    counts: str = ""
    #: A sixth row of `boxes` says which of them are large enough.
    sized: bool = False
