"""Weights that only a call knows, brought into panels by the call itself: see `recurrent_spec.pack`, which does it for constants."""

from __future__ import annotations

from dataclasses import dataclass

from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.select import KernelCall, Operand


@dataclass(frozen=True, slots=True)
class Panels:
    """What a kernel is specialised for: the gates side by side in a panel, and the units of each."""

    gates: int
    units: int

    @property
    def name(self) -> str:
        return f"panels_{self.gates}x{self.units}"

    def bytes(self, count: int, inner: int) -> int:
        """Room for `count` panels of so many steps of the inner product."""
        return count * inner * self.gates * self.units * 4


#: Addresses, strides in bytes, counts: `weights [gates, hidden, inner]` of f32 to `target [panels, inner, gates, units]`, zeros past hidden.
ARGUMENTS = ("weights", "inner", "hidden", "panels", "target")


def panels_call(spec: Panels, weights: Operand, inner: int, hidden: int, panels: int, target: Operand) -> KernelCall:
    """The call that brings weights into panels."""

    def make() -> str:
        from uncork.kernels.recurrent.emit_packed_weights import emit_panels

        return emit_panels(spec)

    return STORE.function(spec.name, repr(spec), make), [weights, inner, hidden, panels, target]
