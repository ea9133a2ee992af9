"""What kernels that count how often places occur are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class CountKeys(KernelSpec, frozen=True):
    """The spec of a kernel that counts how often each place occurs among keys; a place that does
    not occur keeps its value of `data [places]`.
    """

    emitter: ClassVar[str] = "uncork.kernels.scatter.emit_counts:emit_counts"
    arguments: ClassVar[tuple[str, ...]] = ("data", "keys", "output", "places", "count")
    data: str
    keys: str
