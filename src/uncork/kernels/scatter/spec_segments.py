"""What the kernel of segments of rows is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class MaxOfSegments(KernelSpec, frozen=True):
    """The spec of the kernel that takes the largest of each column of each segment of rows; ids
    that are negative or not sorted are refused.

    `data` and `output` have rows of `row` bytes, of which the first `width` elements are looked at;
    of the output there are `segments`.
    """

    emitter: ClassVar[str] = "uncork.kernels.scatter.emit_segments:emit_max_of_segments"
    arguments: ClassVar[tuple[str, ...]] = (
        "data", "ids", "output", "rows", "segments", "row", "width",
    )  # fmt: skip
    element: str
    index: str
    #: The elements of a segment without rows, as a signed number of as many bits.
    empty: int
    lanes: int
