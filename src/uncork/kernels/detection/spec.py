"""What kernels that choose boxes are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec

#: Numbers of a box in working memory: both corners, and its area.
NUMBERS = 5
#: The working memory of a sort: what it counts in, and 4 bytes of each row in each of the others.
SORTS = ("counts", "keys", "places", "other_keys", "other_places")


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

        `counts` is what a sort needs, `corners` has 5 f32 of each box, `chosen` 5 f32 of each box
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
            *(f"row_{name}" for name in (*SORTS[1:], *rows)),
        ]  # fmt: skip
