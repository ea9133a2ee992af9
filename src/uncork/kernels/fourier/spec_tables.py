"""What the kernel that makes the table of a length is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec

#: Roots that are computed one by one; all others are products of one of these and another.
FINE = 64
#: Bytes of a root in f64, a pair.
PAIR = 16


class FourierTable(KernelSpec, frozen=True):
    """The spec of the table of a `length` that only the call knows, with roots of `size` bytes a
    number.

    The words lie at `table`, and what their addresses tell behind them. It gives up for a length
    of 0.
    """

    emitter: ClassVar[str] = "uncork.kernels.fourier.emit_tables:emit_table"
    arguments: ClassVar[tuple[str, ...]] = ("length", "table")
    size: int
