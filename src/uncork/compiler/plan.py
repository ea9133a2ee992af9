"""`Plan`: the steps of a compiled model, printable.

What runs, by which kernel, and why by no faster one.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from uncork._html import html_table

_HEADING = ("#", "layer", "operation", "kernel", "outputs", "place", "reason", "note")
#: No column is made wider than this: what is longer moves the rest of its line.
_WIDEST = 72


def aligned(rows: Sequence[Sequence[str]], widest: int) -> list[str]:
    """The lines of a table; what is wider than the `widest` column moves the rest of its line."""
    widths = [min(widest, max(map(len, column))) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


class Step(Struct, frozen=True):
    """A layer as it runs: a line of the printed plan.

    `kernel` is "reference" when no kernel was chosen, for the `reason` given. `note` is what a pass
    says of the layer that it made. `place` is where its (first) result lies.
    """

    layer: str
    operation: str
    kernel: str
    reason: str
    outputs: str
    place: str
    note: str = ""


class Plan(Struct, frozen=True):
    """All steps, in the order in which they run.

    `working_bytes` is the working memory that they share (None: as much as the sizes of a call
    need), `guards` what these sizes must keep for the steps to run: a call that does not is planned
    anew. `made` is the number of plans that calls have needed so far. `remarks` say for which calls
    this one is, and by which numbers it was decided.
    """

    steps: tuple[Step, ...]
    working_bytes: int | None = 0
    guards: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    made: int = 0

    def _rows(self) -> list[list[str]]:
        return [
            [str(i), s.layer, s.operation, s.kernel, s.outputs, s.place, s.reason, s.note]
            for i, s in enumerate(self.steps)
        ]

    def __str__(self) -> str:
        rows: list[Sequence[str]] = [_HEADING, *self._rows()]
        lines = aligned(rows, _WIDEST)
        guards = [f"for calls with {guard}" for guard in self.guards]
        return "\n".join([*lines, *guards, *self.remarks, self._memory])

    @property
    def _memory(self) -> str:
        if self.working_bytes is None:
            return "working memory as the sizes of a call need it"
        return f"{self.working_bytes:,} bytes of working memory"

    def _repr_html_(self) -> str:
        """The HTML for notebooks: a table of the steps."""
        return html_table(f"{len(self.steps):,} steps, {self._memory}", _HEADING, self._rows())
