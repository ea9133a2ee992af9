"""What kernels that pick elements are specialised for."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec

#: The arguments of kernels that take the best along any axis.
_OF_ANY_AXIS = ("data", "values", "numbers", "outer", "count", "inner", "best")


class BestOfRows(KernelSpec, frozen=True):
    """What a kernel of the best of f32 rows is specialised for."""

    emitter: ClassVar[str] = "uncork.kernels.selection.emit:emit_best"
    arguments: ClassVar[tuple[str, ...]] = ("data", "values", "numbers", "rows", "count", "best")
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


class BestOfColumns(KernelSpec, frozen=True):
    """What a kernel of the few best of columns is specialised for."""

    emitter: ClassVar[str] = "uncork.kernels.selection.emit_columns:emit_columns"
    arguments: ClassVar[tuple[str, ...]] = _OF_ANY_AXIS
    element: str
    index: str
    largest: bool
    lanes: int
