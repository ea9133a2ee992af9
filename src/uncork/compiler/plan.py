"""`Plan`: the steps of a compiled model, printable. What runs, by which kernel, and why by no faster one."""

from __future__ import annotations

from dataclasses import dataclass

from uncork._html import html_table


@dataclass(frozen=True, slots=True)
class Step:
    """One layer as it runs. `kernel` is "reference" when no kernel was chosen, for the `reason` given."""

    layer: str
    operation: str
    kernel: str
    reason: str
    outputs: str
    place: str


@dataclass(frozen=True)
class Plan:
    """All steps, in the order in which they run, and the bytes of working memory that they share."""

    steps: tuple[Step, ...]
    working_bytes: int = 0

    def __str__(self) -> str:
        rows = [("#", "layer", "operation", "kernel", "outputs", "place", "why no kernel")]
        rows += [(str(i), s.layer, s.operation, s.kernel, s.outputs, s.place, s.reason) for i, s in enumerate(self.steps)]
        widths = [min(40, max(len(row[c]) for row in rows)) for c in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, f"{self.working_bytes:,} bytes of working memory"])

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = [[str(i), s.layer, s.operation, s.kernel, s.outputs, s.place, s.reason] for i, s in enumerate(self.steps)]
        heading = ("#", "layer", "operation", "kernel", "outputs", "place", "why no kernel")
        return html_table(f"{len(self.steps):,} steps, {self.working_bytes:,} bytes of working memory", heading, rows)
