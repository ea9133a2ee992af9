"""The specs of kernels that count, and of those that then find as many as were counted, and their
arguments.
"""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import SORTS, KernelSpec


class CountNonZero(KernelSpec, frozen=True):
    """The spec of the kernel that counts elements that are not 0."""

    emitter: ClassVar[str] = "uncork.kernels.finding.emit_non_zero:emit_count"
    arguments: ClassVar[tuple[str, ...]] = ("data", "output", "count")
    element: str
    lanes: int


class NonZero(KernelSpec, frozen=True):
    """The spec of the kernel that finds the places of elements that are not 0, in a tensor of
    `rank` axes.
    """

    emitter: ClassVar[str] = "uncork.kernels.finding.emit_non_zero:emit_non_zero"
    element: str
    index: str
    rank: int
    lanes: int

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments; `expected` elements are not 0."""
        return ["data", "output", "expected", *(f"size_{axis}" for axis in range(self.rank))]


class SortPlaces(KernelSpec, frozen=True):
    """The spec of the kernel that sorts places by their elements, in ascending order, and counts
    how many different elements there are.
    """

    emitter: ClassVar[str] = "uncork.kernels.finding.emit_unique:emit_sort"
    arguments: ClassVar[tuple[str, ...]] = ("data", "places", "found", "count", *SORTS)
    element: str


class Unique(KernelSpec, frozen=True):
    """The spec of the kernel that finds each element once; `marks` and `numbers` are room for an
    i32 of each element where they are not `sorted`.
    """

    emitter: ClassVar[str] = "uncork.kernels.finding.emit_unique:emit_unique"
    arguments: ClassVar[tuple[str, ...]] = (
        "data", "places", "elements", "firsts", "reverse", "counts", "marks", "numbers", "count",
        "found",
    )  # fmt: skip
    element: str
    index: str
    counted: str
    sorted: bool


class CountFilled(KernelSpec, frozen=True):
    """The spec of the kernel that counts the entries of a sparse matrix after every row has got
    one.
    """

    emitter: ClassVar[str] = "uncork.kernels.finding.emit_filled:emit_count"
    arguments: ClassVar[tuple[str, ...]] = ("shape", "indices", "output", "count", "rows")
    index: str


class FillRows(KernelSpec, frozen=True):
    """The spec of the kernel that writes a sparse matrix with an entry in every row; a `strict`
    kernel stops where there is no column for it.
    """

    emitter: ClassVar[str] = "uncork.kernels.finding.emit_filled:emit_rows"
    arguments: ClassVar[tuple[str, ...]] = (
        "values", "shape", "indices", "default", "output_indices", "output_values", "empty",
        "count", "rows", "total",
    )  # fmt: skip
    item: int
    index: str
    strict: bool


class CountSegments(KernelSpec, frozen=True):
    """The spec of the kernel that counts segments: one more than the last id, which is refused
    where it is negative.
    """

    emitter: ClassVar[str] = "uncork.kernels.finding.emit_segments:emit_count"
    arguments: ClassVar[tuple[str, ...]] = ("ids", "output", "count")
    index: str
