"""The specs of kernels that sum the rows of bags and segments, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.names import flags

#: The arguments of bag kernels behind those that say where the table is.
BAG_ARGUMENTS = (
    "rows", "indices", "count", "offsets", "bags", "default", "weights", "output", "first", "last",
)  # fmt: skip


class Bag(KernelSpec, frozen=True):
    """What a bag kernel is specialised for. `columns` is the number of elements of a row.

    `index` is the ids' element type, or "narrowed": i64 that wrap to 32 bits.
    """

    emitter: ClassVar[str] = "uncork.kernels.embedding.emit_bags:emit_bag"
    table: str
    index: str
    columns: int
    lanes: int
    weighted: bool = False
    mean: bool = False
    #: "offsets": where each bag starts; "fixed": all bags have the same number of indices.
    bags: str = "offsets"
    strict: bool = False
    #: Rows begin and end at cache lines. It is not in the name: it changes nothing but what is
    #: prefetched.
    at_lines: bool = False

    @property
    def name(self) -> str:
        return f"bag_{self.bags}_{self.table}_{self.index}_{self.columns}" + flags(
            self, "weighted", "mean", "strict"
        )

    @property
    def arguments(self) -> list[str]:
        """Addresses and counts; bags `first` to `last` - 1 are computed.

        `default` is the address of a number, or 0; `offsets` is the size of every bag when they are
        fixed.
        """
        return ["table", *BAG_ARGUMENTS]


class Segments(KernelSpec, frozen=True):
    """What the kernel that turns sorted segment ids into offsets is specialised for."""

    emitter: ClassVar[str] = "uncork.kernels.embedding.emit_bags:emit_segments"
    index: str

    @property
    def name(self) -> str:
        return f"segment_offsets_{self.index}"

    @property
    def arguments(self) -> list[str]:
        return ["ids", "count", "segments", "offsets"]
