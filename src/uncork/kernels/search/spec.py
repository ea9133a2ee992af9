"""What a kernel that searches sorted rows is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class Search(KernelSpec, frozen=True):
    """The spec of a kernel that finds for each of `count` values of each row how many of the
    `length` numbers of the row's sequence lie before it.
    """

    emitter: ClassVar[str] = "uncork.kernels.search.emit:emit_search"
    arguments: ClassVar[tuple[str, ...]] = (
        "sequence",
        "values",
        "output",
        "rows",
        "length",
        "count",
    )
    sequence: str
    values: str
    #: The type that numbers of both types are compared in.
    compared: str
    result: str
    #: Equal numbers lie before a value.
    right: bool
    #: A kernel that `refuses_nan` stops at NaN in the sequence, a `unique` one at a number that
    #: comes twice.
    refuses_nan: bool
    unique: bool
    lanes: int
