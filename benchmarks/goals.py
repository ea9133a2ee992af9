"""What the project wants to reach, group by group: time of the peer / ours, minimum over
repeats.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """Ratios: geometric means of a group, and the smallest that any case may have."""

    openvino: float | None = None
    best_peer: float | None = None
    worst: float | None = None
    ordinary: float | None = None
    limit: float | None = None


GOALS = {
    "bag, 1 bag": Goal(openvino=15, best_peer=3),
    "bag, 128 bags": Goal(openvino=4, best_peer=1.4),
    "bag, 4096 bags": Goal(openvino=2.5, best_peer=1.0, worst=0.95, limit=0.85),
    "segments, 1 segment": Goal(openvino=12, best_peer=3),
    "segments, 128 segments": Goal(openvino=8, best_peer=2.5),
    "segments, 4096 x 80": Goal(openvino=30, best_peer=1.1),
    "gather": Goal(openvino=2.8, best_peer=1.2, worst=0.95, limit=0.85),
    "GRU, tiny": Goal(openvino=2.1, best_peer=2.4),
    "GRU, batch 1": Goal(openvino=2.1, best_peer=1.1, limit=0.85),
    "GRU, full batches": Goal(openvino=1.1, best_peer=1.1, limit=0.85),
    "GRU, ragged": Goal(openvino=2.8, best_peer=2.0, limit=0.85),
    "zoo": Goal(openvino=1.5, worst=1.0),
    "models, batch 1": Goal(openvino=1.5, worst=1.0),
    "models, batch 64": Goal(openvino=1.5, worst=1.0),
}
#: Cases small enough that an ordinary call is nearly all there is: at least this many times
#: OpenVINO's `compiled(inputs)`.
ORDINARY_TINY = 10.0
#: Two threads gain so much over one wherever they gain OpenVINO so much.
GAIN_OF_TWO, GAIN_OF_OTHERS = 1.8, 1.7
#: precision="bf16x3" against OpenVINO in f32, and "bf16" against its bf16.
PRECISIONS = {
    ("GRU, full batches", "bf16x3"): 1.5,
    ("GRU, ragged", "bf16x3"): 3.9,
    ("GRU, batch 1", "bf16"): 1.1,
    ("GRU, full batches", "bf16"): 1.1,
    ("GRU, ragged", "bf16"): 2.8,
}
#: Seconds from process start to the first result.
STARTUP_WARM, STARTUP_COLD = 0.20, 2.5
#: A model with a 4 GB table: seconds to load, and bytes of memory beyond the rows touched.
MEMORY_LOAD, MEMORY_BEYOND = 0.050, 50e6


def verdict(value: float | None, goal: float | None) -> str:
    """`3.20 (>= 3)`, marked where it misses."""
    if value is None:
        return "-"
    if goal is None:
        return f"{value:.2f}"
    return f"{value:.2f} ({'>=' if value >= goal else '**misses**'} {goal:g})"
