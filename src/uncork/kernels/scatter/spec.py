"""What kernels that go to places named by indices are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from uncork.kernels.kernel_spec import OPEN, KernelSpec

#: What a kernel does at a place. "gather" copies from there, "put" copies to it; the others compute
#: with one element after the other.
MOVES = ("gather", "put")
#: How an element joins what is there; "neutral" puts what a reduction starts from, "count" adds 1.
REDUCTIONS = ("sum", "sub", "prod", "min", "max")


class Action(Struct, frozen=True):
    """What happens at a place: with runs of bytes (`run`, for moves), or with elements of a type
    (`element`).

    Elements are `stored` so in the updates and held as `element` at the places. A "neutral" is that
    of `reduction`.
    """

    op: str
    run: int = 0
    element: str = ""
    stored: str = ""
    reduction: str = ""

    @property
    def name(self) -> str:
        if self.op in MOVES:
            return f"{self.op}_{'open' if self.run == OPEN else self.run}"
        return "_".join(
            part for part in (self.op, self.reduction, self.element, self.stored) if part
        )


class Tuples(KernelSpec, frozen=True):
    """The spec of a kernel for runs at places that tuples of `tuple_length` indices name."""

    emitter: ClassVar[str] = "uncork.kernels.scatter.emit:emit_tuples"
    action: Action
    index: str
    tuple_length: int
    #: A negative index counts from the end of its axis.
    wraps: bool
    lanes: int

    @property
    def arguments(self) -> list[str]:
        """Addresses, then how often and how far apart in bytes: batches, tuples, and repeats that
        share the indices of a tuple.

        `run` is in bytes for moves and in elements for all else; each index has the size of its
        axis and the bytes of a step.
        """
        loops = [
            "batches",
            "batch_place",
            "batch_index",
            "batch_row",
            "count",
            "row",
            "repeats",
            "repeat_place",
            "repeat_row",
        ]
        return [
            "places",
            "indices",
            "rows",
            *loops,
            "run",
            *(f"{n}_{i}" for i in range(self.tuple_length) for n in ("size", "step")),
        ]


class Elements(KernelSpec, frozen=True):
    """The spec of a kernel for single elements, each with an index of its own along one axis; there
    are loops `before` that axis and `after` it.
    """

    emitter: ClassVar[str] = "uncork.kernels.scatter.emit:emit_elements"
    action: Action
    index: str
    wraps: bool
    before: int
    after: int

    @property
    def arguments(self) -> list[str]:
        """Addresses; how many indices along each loop, bytes from one place to the next, and
        indices from one to the next; `size` is that of the axis.
        """
        loops = [
            f"{name}_{i}"
            for i in range(self.before + 1 + self.after)
            for name in ("count", "place", "index")
        ]
        return ["places", "indices", "rows", "size", *loops]


class Mean(KernelSpec, frozen=True):
    """The spec of a kernel that divides sums by how many terms they have: at so many places `each`
    element by the count of the place, and `more` terms than were counted.
    """

    emitter: ClassVar[str] = "uncork.kernels.scatter.emit:emit_mean"
    arguments: ClassVar[tuple[str, ...]] = ("places", "counts", "output", "count", "each", "more")
    element: str
    result: str
    lanes: int
