"""What kernels that look rows up in quantized tables are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from uncork.kernels.embedding.spec_bags import BAG_ARGUMENTS
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.names import flags


class Rows(Struct, frozen=True):
    """How a row becomes f32: what is stored, which steps the chain has, and how wide the vectors
    are.

    `stored` is the element type of the codes; "u4" and "i4" are two a byte. `per_row`: each row has
    a pair of parameters of its own. `aligned`: every row begins at a cache line. `permutes`: the
    machine looks 16 numbers up in a register (AVX-512), so 4-bit codes are looked up among the 16
    values of their row. A row of a look-up is `groups` rows of this kind, one after the other, each
    with parameters of its own.
    """

    stored: str
    columns: int
    zero_point: bool
    scale: bool
    per_row: bool
    half: bool
    aligned: bool
    lanes: int
    permutes: bool
    groups: int = 1

    @property
    def name(self) -> str:
        groups = f"{self.groups}x" if self.groups > 1 else ""
        return f"{self.stored}_{groups}{self.columns}" + flags(
            self, "zero_point", "scale", "per_row", "half", "aligned"
        )


class QuantizedBag(KernelSpec, frozen=True):
    """What a bag kernel is specialised for; `index` and `bags` as `spec_bags.Bag` has them."""

    emitter: ClassVar[str] = "uncork.kernels.embedding.emit_quantized:emit_bag"
    rows: Rows
    index: str
    weighted: bool = False
    mean: bool = False
    bags: str = "offsets"
    strict: bool = False

    @property
    def name(self) -> str:
        return f"bag_{self.bags}_{self.rows.name}_{self.index}" + flags(
            self, "weighted", "mean", "strict"
        )

    @property
    def arguments(self) -> list[str]:
        """The arguments of `spec_bags.Bag`, and the address of the zero points and scales, in
        pairs.
        """
        return ["table", "parameters", *BAG_ARGUMENTS]


class QuantizedGather(KernelSpec, frozen=True):
    """What a gather kernel is specialised for; `wraps`: a negative index counts from the end."""

    emitter: ClassVar[str] = "uncork.kernels.embedding.emit_quantized:emit_gather"
    rows: Rows
    index: str
    wraps: bool
    strict: bool = False

    @property
    def name(self) -> str:
        return f"gather_{self.rows.name}_{self.index}" + flags(self, "wraps", "strict")

    @property
    def arguments(self) -> list[str]:
        return ["table", "parameters", "rows", "indices", "count", "output"]
