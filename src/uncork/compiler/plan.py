"""`Plan`: the steps of a compiled model, printable. What runs, by which kernel, and why by no faster one."""

from __future__ import annotations

from dataclasses import dataclass

from uncork.ir.model import Model


@dataclass(frozen=True, slots=True)
class Step:
    """One layer as it runs. `kernel` is "reference" when no kernel was chosen, for the `reason` given."""

    layer: str
    operation: str
    kernel: str
    reason: str
    outputs: str


@dataclass(frozen=True)
class Plan:
    """All steps, in the order in which they run."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        rows = [("#", "layer", "operation", "kernel", "outputs", "reason")]
        rows += [(str(i), s.layer, s.operation, s.kernel, s.outputs, s.reason) for i, s in enumerate(self.steps)]
        widths = [min(40, max(len(row[c]) for row in rows)) for c in range(len(rows[0]))]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows)


def plan(model: Model, reason: str) -> Plan:
    """The plan that runs every layer by its reference."""
    steps = [
        Step(n.name, n.operation.label() if n.operation else n.type_name, "reference", reason, " ".join(str(p.spec) for p in n.outputs))
        for n in model.nodes
        if n.type_name not in ("Parameter", "Const", "Result")
    ]
    return Plan(tuple(steps))
