"""The spec of the kernel that tells how far the rows of a sequence must run."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class Lengths(KernelSpec, frozen=True):
    """The spec of the kernel: types of the indices and of the lengths, and what indices beyond the
    steps mean.
    """

    emitter: ClassVar[str] = "uncork.kernels.recurrent.emit_step_lengths:emit_lengths"
    arguments: ClassVar[tuple[str, ...]] = (
        "indices",
        "stride",
        "lengths",
        "output",
        "batch",
        "steps",
    )
    index: str
    lengths: str
    #: A negative index counts from the end.
    wraps: bool
    #: An index outside gives a length of 0; otherwise it is refused.
    zeros: bool
