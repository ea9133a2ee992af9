"""What kernels that end recognition of speech and text, and searches by beams, are specialised for,
and their arguments.
"""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class GreedyPath(KernelSpec, frozen=True):
    """The spec of the kernel of CTCGreedyDecoder: the best class of each step, repeats merged,
    blanks removed.
    """

    emitter: ClassVar[str] = "uncork.kernels.selection.emit_sequences:emit_greedy_path"
    data: str
    #: The type of the lengths of rows; of a mask of steps, where `masked`.
    lengths: str
    masked: bool
    #: The type of the blank class' number; empty: it is the last one.
    blank: str
    classes: str
    #: The type of the lengths that are written; empty: none are.
    counts: str
    merged: bool
    lanes: int

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments: inputs, outputs, how many rows, steps and classes there are, and
        bytes from one row and from one step to the next.
        """
        outputs = ["output", "counts"]
        return ["data", "lengths", "blank", *outputs, "rows", "steps", "classes", "row", "step"]


class FollowBeams(KernelSpec, frozen=True):
    """The spec of the kernel of GatherTree: beams followed back from their last step."""

    emitter: ClassVar[str] = "uncork.kernels.selection.emit_sequences:emit_follow_beams"
    element: str

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments: inputs, the output, and sizes."""
        return ["ids", "parents", "lengths", "end", "output", "steps", "rows", "beams"]
