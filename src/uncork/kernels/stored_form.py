"""How kernels see weights that are stored in few bits: part of what they are specialised for."""

from __future__ import annotations

from msgspec import Struct

from uncork.internal_ops.bit_planes import BIT_PLANES, BitPlanes
from uncork.kernels.names import flags
from uncork.kernels.steps import StepSpec
from uncork.types import ElementType

#: Types of which a byte has two.
FOUR_BITS = frozenset({"i4", "u4"})
#: Codes of four bits in 32, which is what is loaded of each lane.
PER_WORD = 8


def form_of_planes(element_type: str) -> BitPlanes | None:
    """How bits lie in the planes of a type; None of none, where codes lie as they are."""
    return BIT_PLANES[ElementType.parse(element_type)] if element_type else None


class Stored(Struct, frozen=True):
    """How weights are stored: vectors of `lanes` along the inner dimension; a zero point and a
    scale for each `group`, or (0) column.

    What a step gives is rounded to f16 where `rounds_difference` and `rounds_product` say so; the
    product by arithmetic (SPLIT) where none is too small or too large for f16.
    """

    element_type: str
    lanes: int
    group: int = 0
    #: The types of zero points and scales; nothing where there are none.
    zeros: str = ""
    scales: str = ""
    rounds_difference: bool = False
    rounds_product: str = ""
    #: What follows, with operands of their own.
    later: tuple[StepSpec, ...] = ()
    #: The codes are numbers of a table of 16, or of a longer one.
    book: bool = False
    long: bool = False
    #: There are several matrices, and the call tells which one.
    chosen: bool = False
    #: Codes of four bits choose the bytes of numbers of f16 (AVX2).
    by_bytes: bool = False
    #: The scale may multiply the sum of its codes' products: nothing is rounded before, and nothing
    #: overflows.
    factored: bool = False
    #: The type whose bit planes are in memory, where codes do not lie as `element_type`.
    planes: str = ""

    @property
    def form(self) -> BitPlanes | None:
        """How bits lie in planes; None where codes lie as they are."""
        return form_of_planes(self.planes)

    def column_bytes(self, count: int) -> int:
        """Bytes of a column of so many codes."""
        return count * self.bits // 8 if self.form is None else self.form.row(count)

    @property
    def bits_in_memory(self) -> int:
        """Bits of a code where it lies."""
        return ElementType.parse(self.planes).bits if self.planes else self.bits

    @property
    def block(self) -> int:
        """Weights of a column that are decoded at once."""
        if self.planes:
            return self.lanes * 32 // self.bits
        return self.lanes * PER_WORD if self.element_type in FOUR_BITS else self.lanes

    @property
    def bits(self) -> int:
        return (
            4
            if self.element_type in FOUR_BITS
            else 16
            if self.element_type in ("f16", "bf16", "u16")
            else 8
        )

    def groups_in(self, block: int) -> int:
        """The number of groups that a block of so many weights meets, where a group is whole
        blocks, or a part of one; 0 where groups begin anywhere.
        """
        if not self.group or self.group % block == 0:
            return 1
        return block // self.group if block % self.group == 0 else 0

    @property
    def name(self) -> str:
        group = f"_by_{self.group}" if self.group else ""
        rounds = f"_{self.rounds_product}" if self.rounds_product else ""
        return (
            f"{self.planes or self.element_type}{group}"
            + flags(self, "book", "long", "chosen", "by_bytes", "factored")
            + (f"_zeros_{self.zeros}" if self.zeros else "")
            + (f"_scales_{self.scales}" if self.scales else "")
            + flags(self, "rounds_difference")
            + rounds
            + "".join(step.name for step in self.later)
        )

    @property
    def later_names(self) -> list[str]:
        """The names of the arguments that say where operands of later steps are."""
        return [f"later{number}" for number in range(len(self.later))]
