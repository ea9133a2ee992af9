"""What kernels that pick elements of rows, end recognition of speech and text, or follow beams are
specialised for, and their arguments.
"""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import SORTS, KernelSpec

#: The arguments of kernels that take the best along any axis.
_OF_ANY_AXIS = ("data", "values", "numbers", "outer", "count", "inner", "best")


class BestOfRows(KernelSpec, frozen=True):
    """What a kernel of the best of f32 rows is specialised for."""

    emitter: ClassVar[str] = "uncork.kernels.selection.emit:emit_best"
    arguments: ClassVar[tuple[str, ...]] = ("data", "values", "numbers", "outer", "count", "best")
    largest: bool
    index: str
    lanes: int


class Ranked(KernelSpec, frozen=True):
    """What a kernel of the best of rows of any type is specialised for; with `by_index` they come
    in the order of the row.
    """

    emitter: ClassVar[str] = "uncork.kernels.selection.emit_ranked:emit_ranked"
    arguments: ClassVar[tuple[str, ...]] = _OF_ANY_AXIS
    element: str
    index: str
    largest: bool
    by_index: bool
    #: Elements looked at together; 1 where those of a row do not lie side by side.
    lanes: int


class Sorted(KernelSpec, frozen=True):
    """What a kernel that sorts rows is specialised for."""

    emitter: ClassVar[str] = "uncork.kernels.selection.emit_sorted:emit_sorted"
    arguments: ClassVar[tuple[str, ...]] = (*_OF_ANY_AXIS, *SORTS)
    element: str
    index: str
    largest: bool


class BestOfColumns(KernelSpec, frozen=True):
    """What a kernel of the few best of columns is specialised for."""

    emitter: ClassVar[str] = "uncork.kernels.selection.emit_columns:emit_columns"
    arguments: ClassVar[tuple[str, ...]] = _OF_ANY_AXIS
    element: str
    index: str
    largest: bool
    lanes: int


class GreedyPath(KernelSpec, frozen=True):
    """The spec of the kernel of CTCGreedyDecoder: the best class of each step, repeats merged,
    blanks removed.
    """

    emitter: ClassVar[str] = "uncork.kernels.selection.emit_sequences:emit_greedy_path"
    #: Inputs, outputs, how many rows, steps and classes there are, and bytes from one row and from
    #: one step to the next.
    arguments: ClassVar[tuple[str, ...]] = (
        "data", "lengths", "blank", "output", "counts", "rows", "steps", "classes", "row", "step",
    )  # fmt: skip
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


class FollowBeams(KernelSpec, frozen=True):
    """The spec of the kernel of GatherTree: beams followed back from their last step."""

    emitter: ClassVar[str] = "uncork.kernels.selection.emit_sequences:emit_follow_beams"
    #: Inputs, the output, and sizes.
    arguments: ClassVar[tuple[str, ...]] = (
        "ids", "parents", "lengths", "end", "output", "steps", "rows", "beams",
    )  # fmt: skip
    element: str
