"""What the kernel of MulticlassNms and MatrixNms is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.detection.spec import SORTS
from uncork.kernels.kernel_spec import KernelSpec

#: What is known of a box that is taken, each in 4 bytes.
OF_IMAGE = ("classes", "boxes", "scores")
OF_ALL = ("images", *OF_IMAGE)


class Classify(KernelSpec, frozen=True):
    """The spec of the kernel that takes the best f32 boxes of each class, and of these the best of
    each image.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_classes:emit_classes"
    #: The type of places and counts.
    index: str
    #: Rows of an image go by class, not by score.
    by_class: bool
    #: How scores fall where boxes are not left out: "gaussian", "linear" or not at all.
    decay: str
    #: Rows of all images are ordered together: by "score", by "class" or not at all.
    across: str
    lanes: int

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments: inputs, outputs, sizes, numbers (`overlap`, `least`, `sigma` and
        `post` are the bits of f32; `top` and `keep` are no larger than what there can be), and
        working memory.

        `chosen` has 5 f32 of each box that is taken of a class, and of a vector more, `largest` an
        f32 of each of these; `counts` is what a sort needs. Each of the others has 4 bytes of each
        row of an image or of all.
        """
        outputs = ["rows", "row_places", "numbers", "found"]
        sizes = ["batches", "classes", "count"]
        limits = ["background", "top", "keep", "overlap", "least", "sigma", "post"]
        taken = [f"taken_{name}" for name in OF_IMAGE]
        kept = [f"kept_{name}" for name in OF_ALL]
        inputs = ["boxes", "scores"]
        return [*inputs, *outputs, *sizes, *limits, "chosen", "largest", *SORTS, *taken, *kept]
