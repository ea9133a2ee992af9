"""What kernels that pick elements are specialised for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Elements:
    """What a GatherElements kernel is specialised for: bytes of an element, and the type of an index."""

    emitter: ClassVar[str] = "uncork.kernels.selection.emit:emit_elements"
    item: int
    index: str

    @property
    def name(self) -> str:
        return f"gather_elements_{self.item}_{self.index}"


@dataclass(frozen=True, slots=True)
class Best:
    """What a kernel of the best of f32 rows is specialised for."""

    emitter: ClassVar[str] = "uncork.kernels.selection.emit:emit_best"
    largest: bool
    index: str
    lanes: int

    @property
    def name(self) -> str:
        return f"{'largest' if self.largest else 'smallest'}_{self.index}_{self.lanes}"
