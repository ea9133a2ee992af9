"""What kernels that choose boxes are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import SORTS, KernelSpec

#: Numbers of a box in working memory: both corners, and its area.
NUMBERS = 5
#: What is known of a row of non-maximum suppression, each in 4 bytes.
OF_ROWS = ("batches", "classes", "boxes", "values")


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
        return [
            *inputs, "rows", "row_scores", "found", *sizes, *SORTS, "corners", "chosen", *live,
            *(f"row_{name}" for name in (*SORTS, *OF_ROWS)),
        ]  # fmt: skip


class BestRows(KernelSpec, frozen=True):
    """The spec of the kernel that copies the regions of the highest scores, best first; NaN comes
    last.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_best_rows:emit_best_rows"
    #: `rows` of four f32, the `scores` of `count` rows, the output, of which `kept` rows are
    #: written, and what a sort needs.
    arguments: ClassVar[tuple[str, ...]] = ("rows", "scores", "output", "count", "kept", *SORTS)


#: What is known of a box that is taken, each in 4 bytes.
OF_IMAGE = ("classes", "boxes", "scores")
OF_ALL = ("images", *OF_IMAGE)


#: What rows are: the class, the score and the sides of a box, with its place beside them; what
#: DetectionOutput gives, which begins with the image; sides, with class and score beside them.
PLACES, DETECTIONS, REGIONS = "places", "detections", "regions"
#: How the boxes of an image go: by score, by class, or by class unless some are left out.
BY_SCORE, BY_CLASS, BY_CLASS_IF_ALL = "score", "class", "class_if_all"
#: Numbers of a row of DetectionOutput.
DETECTION = 7


class Classify(KernelSpec, frozen=True):
    """The spec of the kernel that takes the best f32 boxes of each class, and of these the best of
    each image; boxes are decoded already.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_classes:emit_classes"
    #: What rows are.
    rows: str
    order: str
    lanes: int
    #: The type of places and counts, where there are such.
    index: str = ""
    #: How scores fall where boxes are not left out: "gaussian", "linear" or not at all.
    decay: str = ""
    #: Rows of all images are ordered together: by "score", by "class" or not at all.
    across: str = ""
    #: Boxes of rows are cut to the image.
    clip: bool = False

    @property
    def box_by_box(self) -> bool:
        """Whether scores lie box by box, not class by class. Those that are above `least` are
        taken then, and equal ones go by the order of boxes.
        """
        return self.rows != PLACES

    @property
    def pixel(self) -> bool:
        """Whether both ends of a side belong to a box, and boxes come of regions with an area."""
        return self.rows == REGIONS

    @property
    def limits_taken(self) -> bool:
        """Whether `top` limits the boxes that are taken of a class, not those that take part."""
        return self.rows == REGIONS

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments: inputs, outputs, sizes, numbers and working memory.

        A box has four f32 at `boxes`, the bytes `box_image`, `box_class` and `box_step` from one
        image, class and box to the next. `overlap`, `least`, `sigma` and `post` are the bits of
        f32. `chosen` has 5 f32 of each of the `most` boxes that are taken of a class, and of a
        vector more, `largest` an f32 of each of these; `listed` the boxes of each class with a high
        enough score, `many` how many there are. Each of the others has 4 bytes of each row of an
        image or of all.
        """
        boxes = ["boxes", "box_image", "box_class", "box_step", "scores", "rows"]
        sizes = ["batches", "classes", "count", "background", "top", "most", "keep"]
        rooms = [
            "chosen",
            *SORTS,
            *(f"taken_{n}" for n in OF_IMAGE),
            *(f"kept_{n}" for n in OF_ALL),
        ]
        more = {
            PLACES: ["row_places", "numbers", "found", "sigma", "post", "largest"],
            DETECTIONS: ["many", "listed", "space"],
            REGIONS: ["many", "listed", "rois", "labels", "values"],
        }
        return [*boxes, *sizes, "overlap", "least", *rooms, *more[self.rows]]


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
