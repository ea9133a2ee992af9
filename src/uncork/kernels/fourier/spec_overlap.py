"""What the kernel that adds overlapping pieces of signals is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class Overlap(KernelSpec, frozen=True):
    """The spec of signals that are sums of windowed pieces over sums of squared windows.

    `pieces [batch, frames, frame]` begin `step` numbers apart. The `own` numbers of the window
    stand from `begin` on in a frame. Of a signal `length` numbers from `first` on are stored, zeros
    past the `reached` ones, times a number at `scale`. `room` has two signals.
    """

    emitter: ClassVar[str] = "uncork.kernels.fourier.emit_overlap:emit_overlap"
    arguments: ClassVar[tuple[str, ...]] = (
        "pieces", "window", "target", "batch", "frames", "frame", "step", "begin", "own", "first",
        "length", "reached", "scale", "room",
    )  # fmt: skip
    lanes: int
    size: int
