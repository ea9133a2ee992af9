"""What the kernels that keep rows of f32 in bytes are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class CodedRows(KernelSpec, frozen=True):
    """The spec of a kernel that makes codes of rows, each with a grid of its own behind them; with
    `back`, numbers of such rows.
    """

    emitter: ClassVar[str] = "uncork.kernels.quantized.emit_rows:emit_rows"
    arguments: ClassVar[tuple[str, ...]] = ("source", "target", "size", "first", "count")
    lanes: int
    back: bool = False
