"""`Profile`: where the time of a call goes, step by step, beside what the machine can do."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from uncork._html import html_table
from uncork.compiler.plan import aligned
from uncork.errors import shortened


class ProfiledStep(Struct, frozen=True):
    """A step: its time in seconds, the kernel or "reference" with the `reason`, bytes and
    operations as counted from its shapes.
    """

    layer: str
    operation: str
    kernel: str
    reason: str
    outputs: str
    seconds: float
    bytes: float
    operations: float


class Limits(Struct, frozen=True):
    """What one thread of this machine reached when it was asked: bytes read and written, and f32
    operations, in a second.
    """

    bandwidth: float
    operations: float


@dataclass(frozen=True)
class Profile:
    """The steps in their order, the smallest time of a whole call, and the machine's limits. Print
    it: the slowest come first.
    """

    steps: tuple[ProfiledStep, ...]
    call_seconds: float
    limits: Limits = field(repr=False)

    @property
    def step_seconds(self) -> float:
        """All steps together."""
        return sum(step.seconds for step in self.steps)

    def rows(self, most: int | None = None) -> list[list[str]]:
        """A table: heading, then the slowest steps first."""
        whole = self.step_seconds or 1.0
        ordered = sorted(self.steps, key=lambda step: -step.seconds)[:most]
        rows = [
            [
                "layer",
                "operation",
                "kernel",
                "outputs",
                "time",
                "share",
                "GFLOP/s",
                "GB/s",
                "why no faster",
            ]
        ]
        for step in ordered:
            per_second = 1e-9 / max(step.seconds, 1e-9)
            rows.append(
                [
                    shortened(step.layer, 40),
                    step.operation,
                    step.kernel,
                    step.outputs,
                    microseconds(step.seconds),
                    f"{step.seconds / whole:.1%}",
                    f"{step.operations * per_second:.2f}" if step.operations else "",
                    f"{step.bytes * per_second:.2f}" if step.bytes else "",
                    step.reason or self._bound(step),
                ]
            )
        return rows

    def _bound(self, step: ProfiledStep) -> str:
        """Which of the machine's limits a step is near."""
        shares = {
            "arithmetic": step.operations / step.seconds / self.limits.operations
            if step.seconds
            else 0.0,
            "memory": step.bytes / step.seconds / self.limits.bandwidth if step.seconds else 0.0,
        }
        name = max(shares, key=lambda key: shares[key])
        if (
            name == "memory" and shares[name] > 1
        ):  # what a step before has written is read from nearer
            return ", ".join([*_share("arithmetic", shares["arithmetic"]), "in the cache"])
        return "".join(_share(name, shares[name]))

    def __str__(self) -> str:
        return "\n".join([*aligned(self.rows(), 44), self.summary()])

    def _repr_html_(self) -> str:
        """The HTML for notebooks: the table and the sums."""
        heading, *rows = self.rows()
        return html_table(self.summary().replace("\n", "; "), heading, rows)

    def summary(self) -> str:
        """The sums and the limits, in two lines."""
        limits = (
            f"{self.limits.operations * 1e-9:.1f} GFLOP/s (products of f32), "
            f"{self.limits.bandwidth * 1e-9:.1f} GB/s (copies)"
        )
        moved = sum(step.bytes for step in self.steps)
        read = f", {moved / self.call_seconds * 1e-9:.1f} GB/s" if self.call_seconds else ""
        return (
            f"{len(self.steps)} steps by themselves {microseconds(self.step_seconds)}, a whole "
            f"call {microseconds(self.call_seconds)}: {moved * 1e-6:,.1f} MB{read}\n"
            f"one thread of this machine: {limits}"
        )


def _share(name: str, share: float) -> list[str]:
    """The share of a limit as text, empty where it is negligible; of one thread's limit, where
    several have shared a step.
    """
    if share < 0.005:
        return []
    return [
        f"{share:.0%} of the {name}" if share < 1.1 else f"{share:.1f} times one thread's {name}"
    ]


def microseconds(seconds: float) -> str:
    """A time as text, in seconds, milliseconds or microseconds."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds * 1e6:.2f} us"
