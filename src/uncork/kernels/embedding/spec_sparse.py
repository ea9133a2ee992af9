"""What a kernel that looks up a sparse matrix of ids is specialised for, and its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from uncork.kernels.names import flags


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a kernel is specialised for: columns of the table, types of the ids and of their
    places.
    """

    emitter: ClassVar[str] = "uncork.kernels.embedding.emit_sparse:emit_lookup"
    columns: int
    values: str
    indices: str
    filtered: bool
    mean: bool
    lanes: int

    @property
    def name(self) -> str:
        return f"sparse_lookup_{self.columns}x{self.lanes}_{self.values}_{self.indices}" + flags(
            self, "filtered", "mean"
        )


ARGUMENTS = ("table", "values", "indices", "dense_shape", "output", "count", "rows", "entries")
