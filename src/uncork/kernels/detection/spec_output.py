"""What the kernel that chooses an SSD's detections is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.detection.spec import SORTS
from uncork.kernels.kernel_spec import KernelSpec


class Detect(KernelSpec, frozen=True):
    """The spec of the kernel that takes the best boxes of each class, and of all classes together;
    boxes are decoded already.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_output:emit_detect"
    #: Boxes that are chosen are cut to the image.
    clip: bool
    lanes: int

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments: the inputs and the output, sizes, numbers (`overlap` and `least`
        are the bits of f32), and working memory.

        `corners` has 5 f32 of each box of an image, `found` the boxes of each class with a high
        enough score, `many` how many there are; `chosen` is for 5 f32 of each box and a vector
        more. `counts` is what a sort needs; each of the others has 4 bytes of each box of each
        class.
        """
        sizes = ["images", "priors", "classes", "rows"]
        numbers = ["background", "top", "keep", "overlap", "least"]
        rooms = ["corners", "found", "many", "chosen", *SORTS, "taken_classes", "taken_boxes"]
        return ["scores", "output", *sizes, *numbers, *rooms]


class DetectOfClasses(KernelSpec, frozen=True):
    """The spec of the kernel that takes the best boxes of each class, which has boxes of its own,
    and of all classes together; boxes are decoded already.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_of_classes:emit_of_classes"
    lanes: int

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments: the inputs and the outputs, sizes, numbers and working memory as
        those of `Detect`, but that `corners` has five rows, each of an f32 of each class of each
        region; at most `top` boxes are taken of a class.
        """
        outputs = ["boxes", "labels", "values"]
        numbers = ["priors", "classes", "background", "top", "keep", "overlap", "least"]
        rooms = ["corners", "found", "many", "chosen", *SORTS, "taken_classes", "taken_boxes"]
        return ["rois", "scores", *outputs, *numbers, *rooms]


class BestRows(KernelSpec, frozen=True):
    """The spec of the kernel that copies the regions of the highest scores, best first; NaN comes
    last.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_of_classes:emit_best_rows"

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments: `rows` of four f32, the `scores` of `count` rows, the output, of
        which `kept` rows are written, and what a sort needs.
        """
        return ["rows", "scores", "output", "count", "kept", *SORTS]
