"""What the kernel that chooses the regions a network proposes is specialised for, and its
arguments.
"""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class Propose(KernelSpec, frozen=True):
    """The spec of the kernel that takes the best f32 boxes of each image that overlap none before
    them; boxes are decoded already.
    """

    emitter: ClassVar[str] = "uncork.kernels.detection.emit_regions:emit_propose"
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

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments: `boxes` has five numbers (six where `sized`) of each of
        `anchors * cells` boxes of each image, number by number, and `scores` one; the order of
        boxes is by cells, then anchors. `image` has height and width where rows need them.

        `most` boxes take part, of which `keep` are taken; `overlap` is the bits of an f32. `heap`
        is room for an i32 of each of the `most`, `chosen` for 5 f32 of each of `room` boxes.
        """
        outputs = ["rows", "row_scores", "numbers", "found"]
        sizes = ["images", "anchors", "cells", "most", "keep", "overlap"]
        return ["boxes", "scores", "image", *outputs, *sizes, "heap", "chosen", "room"]
