"""Weights that only a call knows, brought into panels by the call itself: see `pack.pack`, which
does it for constants.
"""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.recurrent.spec import SINGLE


class PanelsOfWeights(KernelSpec, frozen=True):
    """The spec of a kernel that packs weights: the gates side by side in a panel, and the units of
    each.
    """

    emitter: ClassVar[str] = "uncork.kernels.recurrent.emit_packed_weights:emit_packed_weights"
    #: Addresses, strides in bytes, counts: `weights [gates, hidden, inner]` to `target [panels,
    #: inner, gates, units]`, zeros past hidden.
    arguments: ClassVar[tuple[str, ...]] = ("weights", "inner", "hidden", "panels", "target")
    gates: int
    units: int
    size: int = SINGLE  # bytes of a number

    def bytes(self, count: int, inner: int) -> int:
        """Room for `count` panels of so many steps of the inner product."""
        return count * inner * self.gates * self.units * self.size
